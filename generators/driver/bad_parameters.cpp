#include "generators/driver/bad_parameters.h"

#include <fmt/ranges.h>

#include "dsl/traced_model.h"

namespace cryolite::compiler {

namespace {

using Given = decltype(Arguments::given);

/// Builds the model with these parameters alone. Returns the error, empty if there is none.
std::string error_with(ModelMaker make, const Given &given) {
    Arguments::current() = {given, {}};
    try {
        const std::unique_ptr<Model> model = make();
        traced(*model);
    } catch (const Error &e) {
        return e.what();
    }
    return "";
}

}  // namespace

std::string bad_parameters(ModelMaker make, const std::string &error) {
    const Given given = Arguments::current().given;
    if (error_with(make, given) != error || !error_with(make, {}).empty()) return "";
    const std::vector<Arguments::Known> known = Arguments::current().known;
    const auto is_default = [&](const auto &parameter) {
        return std::ranges::any_of(
            known, [&](const auto &k) { return k.name == parameter.first && k.value == parameter.second; });
    };
    std::vector<std::string> all, alone;
    for (size_t k = 0; k < given.size(); k++) {
        if (is_default(given[k])) continue;
        Given others = given;
        others.erase(others.begin() + long(k));
        all.push_back(fmt::format("--{} {}", given[k].first, given[k].second));
        if (error_with(make, others).empty()) alone.push_back(all.back());
    }
    return fmt::format("{}", fmt::join(alone.empty() ? all : alone, ", "));
}

}  // namespace cryolite::compiler
