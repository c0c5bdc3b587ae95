#include "apps/cryolite/inputs/config_template.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// The parameter that a form stands for: width for "$width", tied for {"$tied": {...}}; empty: it is another form.
std::string param_in(const json &form) {
    const std::string text = form.is_string()                       ? form.get<std::string>()
                             : form.is_object() && form.size() == 1 ? form.begin().key()
                                                                    : "";
    return text.starts_with("$") && text != "$every" && text != "$end_of_text" ? text.substr(1) : "";
}

bool lists(const std::vector<std::string> &keys, const std::string &key) {
    return std::ranges::find(keys, key) != keys.end();
}

/// A value as text for a message; cut, as a file's values may be long.
std::string brief(const json &value) {
    std::string text = value.dump(-1, ' ', true);
    if (constexpr size_t most = 80; text.size() > most) text = text.substr(0, most) + " ...";
    return text;
}

json parsed(const std::string &text) {
    json j = json::parse(text.empty() ? "{}" : text, nullptr, false);
    if (!j.is_object()) fail("the program's description of config.json is no object of JSON");
    return j;
}

/// The file with the present names of keys within its objects.
json with_present_names(json file, const std::map<std::string, std::string> &aliases) {
    for (auto &[key, value] : file.items())
        for (const auto &[old, now] : aliases)
            if (value.is_object() && value.contains(old) && (!value.contains(now) || value[now] == value[old]))
                value[now] = value[old], value.erase(old);
    return file;
}

json filled(const json &form, const ModelParams &params, const json &end_of_text) {
    if (form == "$end_of_text") return end_of_text;
    if (const std::string name = param_in(form); !name.empty()) {
        const auto at = params.find(name);
        if (at == params.end()) fail("the program's config has ${}, which is no parameter of its model", name);
        if (form.is_string()) return json::parse(at->second);
        const json &choices = form.begin().value();
        return filled(choices.at(choices.contains(at->second) ? at->second : "*"), params, end_of_text);
    }
    json j = form;
    if (j.is_structured())
        for (json &part : j) part = filled(part, params, end_of_text);
    return j;
}

/// Reads parameters from a file, by the form in which `filled` writes it.
class Reading {
public:
    Reading(const ProgramDescription &program, const std::string &origin) : program_(program), origin_(origin) {}

    ModelParams params;

    void members(const json &forms, const json &file, const std::string &within) {
        for (const auto &[key, value] : file.items())
            if (const auto form = forms.find(key); form != forms.end())
                match(*form, value, within + key);
            else if (!value.is_null())
                fail("{}: the key \"{}\" (here {}) is not known. If it does not change what the model computes, remove "
                     "it from a copy of the file; else name the file of the weights, and give sizes as flags",
                     origin_, within + key, brief(value));
    }
    /// Sets the parameters that no key has decided to the values that they then have.
    void rest(const std::map<std::string, std::string> &otherwise) {
        for (const auto &[name, text] : otherwise) {
            const auto other = text.starts_with("$") ? params.find(text.substr(1)) : params.end();
            if (params.contains(name) || (text.starts_with("$") && other == params.end())) continue;
            params[name] = other == params.end() ? text : other->second;
        }
    }
    /// Checks the values that have to be quotients of parameters.
    void check_quotients() const {
        for (const auto &[at, value, of] : quotients_) {
            const size_t slash = of.find("/$");
            const auto number = [&](const std::string &name) {
                const auto found = params.find(name);
                return found == params.end() ? 0 : std::atoll(found->second.c_str());
            };
            const long long above = number(of.substr(1, slash - 1)), below = number(of.substr(slash + 2));
            if (below == 0 || value != above / below)
                refuse(at, value,
                       fmt::format("{}, --{} / --{}: {} has no other", below ? above / below : 0,
                                   of.substr(1, slash - 1), of.substr(slash + 2), program_.name));
        }
    }
    [[noreturn]] void refuse(const std::string &at, const json &value, const std::string &expected) const {
        fail("{}: \"{}\" is {}, expected {}", origin_, at, brief(value), expected);
    }

private:
    struct Quotient {
        std::string at;
        json value;
        std::string of;
    };
    const ProgramDescription &program_;
    const std::string &origin_;
    std::vector<Quotient> quotients_;

    void match(const json &form, const json &value, const std::string &at) {
        const bool choice = form.is_object() && !param_in(form).empty();
        if (form == "$end_of_text" || (value.is_null() && !choice)) return;  // a null decides nothing
        if (const std::string name = param_in(form); !name.empty())
            return form.is_object()                       ? choose(name, form.begin().value(), value, at)
                   : name.find("/$") != std::string::npos ? quotients_.push_back({at, value, "$" + name})
                                                          : set(name, value, at);
        if (form.is_object() && form.contains("$every")) {
            if (!value.is_array()) refuse(at, value, "a list");
            for (const json &part : value) match(form["$every"], part, at);
        } else if (form.is_object() && value.is_object()) {
            members(form, value, at + ".");
        } else if (form != value) {
            refuse(at, value, form.dump());
        }
    }
    void choose(const std::string &name, const json &choices, const json &value, const std::string &at) {
        std::vector<std::string> expected;
        for (const auto &[key, form] : choices.items()) {
            if (value.is_null() && form.is_null()) return keep(name, key, at);
            if (key == "*" || value.is_null()) continue;
            expected.push_back(form.dump());
            Reading trial = *this;
            try {
                trial.match(form, value, at);
            } catch (const Error &) {
                continue;
            }
            params = trial.params, quotients_ = trial.quotients_;
            return keep(name, key, at);
        }
        if (value.is_null()) return;
        if (!choices.contains("*") || !value.is_object())
            refuse(at, value, fmt::format("{}", fmt::join(expected, " or ")));
        match(choices["*"], value, at);
        require(choices["*"], value, at);
    }
    /// Refuses an object in which a key is missing that nothing else decides.
    void require(const json &form, const json &value, const std::string &at) const {
        const auto &otherwise = program_.weights.config.otherwise;
        for (const auto &[key, part] : form.items())
            if (const std::string name = param_in(part);
                value.value(key, json()).is_null() && !otherwise.contains(name))
                fail("{}: \"{}\" is {}, which has no \"{}\"{}", origin_, at, brief(value), key,
                     name.empty() ? fmt::format(": expected {}", part.dump()) : "");
    }
    void set(const std::string &name, const json &value, const std::string &at) {
        const auto param = std::ranges::find(program_.params, name, &ProgramDescription::Param::name);
        if (param == program_.params.end()) fail("the program's config has ${}, which is no parameter", name);
        if (param->type == "bool" && !value.is_boolean()) refuse(at, value, "true or false");
        if (param->type == "int" && !value.is_number_unsigned())
            refuse(at, value, "a whole number that is not negative");
        if (param->type == "float" && !value.is_number()) refuse(at, value, "a number");
        keep(name, param->type == "float" ? fmt::format("{}", value.get<float>()) : value.dump(), at);
    }
    void keep(const std::string &name, const std::string &text, const std::string &at) {
        if (const auto [before, fresh] = params.emplace(name, text); !fresh && before->second != text)
            fail("{}: \"{}\" sets --{} to {}, but another key sets it to {}", origin_, at, name, text, before->second);
    }
};

}  // namespace

json filled_config(const WeightFiles::Config &config, const ModelParams &params, const json &end_of_text,
                   const json &begun) {
    const json forms = parsed(config.written);
    json j = filled(forms, params, end_of_text);
    for (const std::string &key : config.kept) {
        if (!begun.is_object() || !begun.contains(key)) continue;
        const bool counts = forms.contains(key) && !param_in(forms[key]).empty() && begun[key].is_number();
        if (!counts || begun[key] > j[key]) j[key] = begun[key];  // a longer context needs more positions
    }
    return j;
}

ModelParams params_of_config(const ProgramDescription &program, const json &file, const std::string &origin) {
    const WeightFiles::Config &config = program.weights.config;
    json forms = parsed(config.written), said = json::object();
    const json written = forms;
    forms.update(parsed(config.also));
    if (!file.is_object()) fail("{}: expected an object of JSON", origin);
    const json present = with_present_names(file, config.aliases);
    for (const auto &[key, value] : present.items())
        if (!lists(config.kept, key) && !lists(config.ignored, key)) said[key] = value;
    Reading reading(program, origin);
    // Another model's file has other keys, too: what it says of itself comes first.
    if (const char *type = "model_type"; forms.contains(type) && said.contains(type))
        reading.members(forms, {{type, said[type]}}, "");
    reading.members(forms, said, "");
    reading.rest(config.otherwise);
    for (const auto &[key, form] : written.items())
        if (const std::string name = param_in(form);
            !name.empty() && !lists(config.kept, key) && !lists(config.ignored, key) && !reading.params.contains(name))
            fail("{}: \"{}\" is missing, which --{} is read from: add the key as the model's own config.json has it",
                 origin, key, name);
    reading.check_quotients();
    return reading.params;
}

}  // namespace cryolite
