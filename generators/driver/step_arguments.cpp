#include "generators/driver/step_arguments.h"

#include "bundle/error.h"

namespace cryolite::compiler {

StepArguments::StepArguments(CLI::App &app) {
    for (const StepSetting &s : step_settings()) {
        if (s.in_bundle == InBundle::no) continue;
        Given &g = given_.emplace_back(Given{&s, nullptr, {}});
        if (s.is_known_as_on() || s.is_switch())
            g.option = app.add_flag("--" + s.name, s.help);
        else
            g.option = app.add_option("--" + s.name, g.text, s.help)->type_name(s.value);
        if (s.list) g.option->join(s.list);
    }
}

void StepArguments::read(StepConfig &config) const {
    for (const auto &[s, option, text] : given_) {
        if (option->count() == 0) continue;
        if (s->is_known_as_on())
            turn_on(*s, config);
        else if (!read_value(*s, s->is_switch() ? "true" : bundle_text(*s, text), s->of(config)))
            throw UsageError(fmt::format("--{} is '{}', expected {}", s->name, text, expected(*s)));
    }
}

}  // namespace cryolite::compiler
