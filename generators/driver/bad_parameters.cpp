#include "generators/driver/bad_parameters.h"

#include <fmt/ranges.h>

#include <algorithm>

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
    std::vector<std::string> numbers, switches;
    for (size_t i = 0; i < given.size(); i++) {
        const auto &[name, text] = given[i];
        const auto k = std::ranges::find(known, name, &Arguments::Known::name);
        Given others = given;
        others.erase(others.begin() + long(i));
        if (k == known.end() || k->value == text || error_with(make, others) == error) continue;
        (k->type == "bool" ? switches : numbers).push_back(fmt::format("--{} {}", name, text));
    }
    return fmt::format("{}", fmt::join(numbers.empty() ? switches : numbers, ", "));
}

}  // namespace cryolite::compiler
