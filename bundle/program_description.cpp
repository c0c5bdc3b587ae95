#include "bundle/program_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace cryolite {

using nlohmann::json;

namespace {

json range_json(const RealRange &r) {
    json j = json::object();
    if (r.low > RealRange::finite.low) j[r.above ? "above" : "from"] = r.low;
    if (r.high < RealRange::finite.high) j[r.below ? "below" : "to"] = r.high;
    return j;
}

RealRange read_range(const json &j) {
    RealRange r;
    r.above = j.contains("above"), r.below = j.contains("below");
    if (r.above || j.contains("from")) r.low = j.at(r.above ? "above" : "from");
    if (r.below || j.contains("to")) r.high = j.at(r.below ? "below" : "to");
    return r;
}

json weights_json(const WeightFiles &w) {
    json j = {{"prefix", w.prefix},
              {"ignored", w.ignored},
              {"repeats", w.repeats},
              {"repeats_where", w.repeats_where},
              {"config",
               {{"written", w.config.written},
                {"also", w.config.also},
                {"otherwise", w.config.otherwise},
                {"kept", w.config.kept},
                {"ignored", w.config.ignored},
                {"aliases", w.config.aliases}}}};
    j["extents"] = j["numbered"] = j["packed"] = json::array();
    for (const WeightFiles::Extent &e : w.extents)
        j["extents"].push_back(
            {{"param", e.param}, {"tensor", e.tensor}, {"dimension", e.dimension}, {"decides", e.decides}});
    for (const WeightFiles::Numbered &n : w.numbered)
        j["numbered"].push_back({{"param", n.param}, {"tensor", n.tensor}});
    for (const WeightFiles::Packed &p : w.packed) {
        j["packed"].push_back({{"name", p.name}, {"parts", json::array()}});
        for (auto &[name, param] : p.parts) j["packed"].back()["parts"].push_back({{"name", name}, {"param", param}});
    }
    return j;
}

WeightFiles read_weights(const json &j) {
    const json &c = j.at("config");
    WeightFiles w{
        .prefix = j.at("prefix"),
        .ignored = j.at("ignored"),
        .repeats = j.at("repeats"),
        .repeats_where = j.at("repeats_where"),
        .config = {c.at("written"), c.at("also"), c.at("otherwise"), c.at("kept"), c.at("ignored"), c.at("aliases")}};
    for (const json &e : j.at("extents"))
        w.extents.push_back({e.at("param"), e.at("tensor"), e.at("dimension"), e.at("decides")});
    for (const json &n : j.at("numbered")) w.numbered.push_back({n.at("param"), n.at("tensor")});
    for (const json &p : j.at("packed")) {
        w.packed.push_back({p.at("name"), {}});
        for (const json &part : p.at("parts")) w.packed.back().parts.push_back({part.at("name"), part.at("param")});
    }
    return w;
}

template <typename... Args> [[noreturn]] void odd(fmt::format_string<Args...> text, Args &&...args) {
    throw std::runtime_error(fmt::format(text, std::forward<Args>(args)...));
}

/// A text of the program, quoted: it may hold anything.
std::string quoted(const std::string &text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

/// A name that may be a flag.
bool is_flag_name(const std::string &name) {
    return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
           std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
}

void check_flag_name(const std::string &what, const std::string &name) {
    if (!is_flag_name(name))
        throw NameError(fmt::format("the {} {} becomes a flag, which is letters, digits, - and _ and begins with a "
                                    "letter: rename it",
                                    what, quoted(name)));
}

void check_param(const ProgramDescription::Param &p, std::set<std::string> &names) {
    check_flag_name("GeneratorParam", p.name);
    if (!names.insert(p.name).second)
        throw NameError(fmt::format("there are two of the GeneratorParam '{}': rename one", p.name));
    if (p.type == "bool") {
        if (p.value != "true" && p.value != "false")
            odd("{} as the default of {}, expected true or false", quoted(p.value), p.name);
        return;
    }
    if (p.type != "int" && p.type != "float")
        odd("the type {} of {}, expected int, float or bool", quoted(p.type), p.name);
    double value = 0;
    const auto [stop, error] = std::from_chars(p.value.data(), p.value.data() + p.value.size(), value);
    if (error != std::errc() || stop != p.value.data() + p.value.size())
        odd("{}, no number, as the default of {}", quoted(p.value), p.name);
}

/// Checks what the command relies on, beyond the types of JSON.
void check(const ProgramDescription &d) {
    if (d.name.empty()) odd("an empty name");
    if (d.targets != "classes" && d.targets != "numbers")
        odd("targets that are {}, expected classes or numbers", quoted(d.targets));
    if (d.task != "tokens" && d.task != "features") odd("the task {}, expected tokens or features", quoted(d.task));
    if (d.task == "features" && d.columns < 1) odd("{} features of a row, expected at least 1", d.columns);
    if (d.targets == "numbers" && d.outputs < 1) odd("{} numbers to predict of a row, expected at least 1", d.outputs);
    if (d.peer.find('/') != std::string::npos) odd("the peer {}, which is no name of a file", quoted(d.peer));
    std::set<std::string> params;
    for (const ProgramDescription::Param &p : d.params) check_param(p, params);
    if (!d.rule(d.optimizer)) odd("the optimizer {}, which is none of its optimizers", quoted(d.optimizer));
    for (const ProgramDescription::Rule &rule : d.optimizers) {
        std::set<std::string> names = params;
        for (const ProgramDescription::Number &n : rule.numbers) {
            check_flag_name("Scalar of " + rule.name, n.name);
            if (params.contains(n.name))
                throw NameError(taken_name_words(
                    fmt::format("the GeneratorParam '{}'", n.name), n.name,
                    fmt::format("{}{}of the optimizer {}", n.help, n.help.empty() ? "" : ", ", rule.name)));
            if (!names.insert(n.name).second)
                throw NameError(fmt::format("there are two of the Scalar '{}' of {}: rename one", n.name, rule.name));
            if (!n.range.holds(n.value))
                odd("{} as the default of the Scalar {} of {}, out of its range", n.value, n.name, rule.name);
        }
    }
}

}  // namespace

std::string taken_name_words(const std::string &what, const std::string &flag, const std::string &help) {
    return fmt::format("{} has the name of a flag of cryolite, --{} ({}): a program's parameters and numbers are flags "
                       "beside those, so rename it, as 'my-{}'",
                       what, flag, help, flag);
}

const ProgramDescription::Number *ProgramDescription::Rule::find(const std::string &number) const {
    for (const Number &n : numbers)
        if (n.name == number) return &n;
    return nullptr;
}

const ProgramDescription::Rule *ProgramDescription::rule(const std::string &given) const {
    for (const Rule &r : optimizers)
        if (r.name == given) return &r;
    return nullptr;
}

std::vector<std::string> ProgramDescription::optimizer_names() const {
    std::vector<std::string> names;
    for (const Rule &r : optimizers) names.push_back(r.name);
    return names;
}

std::string description_json(const ProgramDescription &d) {
    json j = {{"name", d.name},
              {"task", d.task},
              {"targets", d.targets},
              {"columns", d.columns},
              {"outputs", d.outputs},
              {"optimizer", d.optimizer},
              {"weights", weights_json(d.weights)},
              {"peer", d.peer},
              {"data", d.data}};
    j["optimizers"] = j["params"] = j["presets"] = json::array();
    for (const ProgramDescription::Rule &rule : d.optimizers) {
        json numbers = json::array();
        for (const ProgramDescription::Number &n : rule.numbers)
            numbers.push_back({{"name", n.name}, {"value", n.value}, {"range", range_json(n.range)}, {"help", n.help}});
        j["optimizers"].push_back({{"name", rule.name}, {"numbers", numbers}});
    }
    for (const ProgramDescription::Param &p : d.params)
        j["params"].push_back({{"name", p.name}, {"type", p.type}, {"value", p.value}, {"help", p.help}});
    for (auto &[name, flags] : d.presets) j["presets"].push_back({{"name", name}, {"flags", flags}});
    return j.dump();
}

ProgramDescription read_description(const std::string &text) {
    const json j = json::parse(text);
    ProgramDescription d{
        .name = j.at("name"),
        .task = j.at("task"),
        .targets = j.value("targets", "classes"),
        .columns = j.value("columns", int64_t{0}),
        .outputs = j.value("outputs", int64_t{0}),
        .optimizer = j.at("optimizer"),
        .peer = j.value("peer", ""),
        .data = j.value("data", ""),
    };
    for (const json &rule : j.at("optimizers")) {
        d.optimizers.push_back({rule.at("name"), {}});
        for (const json &n : rule.at("numbers"))
            d.optimizers.back().numbers.push_back(
                {n.at("name"), n.at("value"), read_range(n.at("range")), n.at("help")});
    }
    for (const json &p : j.at("params")) d.params.push_back({p.at("name"), p.at("type"), p.at("value"), p.at("help")});
    for (const json &p : j.at("presets"))
        d.presets.push_back({p.at("name"), p.at("flags").get<std::map<std::string, std::string>>()});
    if (j.contains("weights")) d.weights = read_weights(j["weights"]);
    check(d);
    return d;
}

}  // namespace cryolite
