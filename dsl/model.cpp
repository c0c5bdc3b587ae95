#include "dsl/model.h"

#include <charconv>

namespace cryolite {

Arguments &Arguments::current() {
    static Arguments arguments;
    return arguments;
}

std::string Arguments::take(const std::string &name, const std::string &type, const std::string &value,
                            const std::string &help) {
    known.push_back({name, type, value, help});
    for (auto &[n, text] : given)
        if (n == name) return text;
    return value;
}

namespace {
template <typename T> T parse(const std::string &name, const std::string &text, const char *what) {
    T value{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        fail_usage("--{} is '{}', expected {}", name, text, what);
    return value;
}
}  // namespace

template <> GeneratorParam<int>::GeneratorParam(const std::string &name, int value, const std::string &help)
    : value_(parse<int>(name, Arguments::current().take(name, "int", std::to_string(value), help), "a whole number")) {
    if (value_ < 1 || value_ > (1 << 24))
        fail_usage("--{} is {}, expected a whole number from 1 to {}", name, value_, 1 << 24);
}

template <> GeneratorParam<float>::GeneratorParam(const std::string &name, float value, const std::string &help)
    : value_(parse<float>(name, Arguments::current().take(name, "float", fmt::format("{}", value), help), "a number")) {
    if (!std::isfinite(value_)) fail_usage("--{} is not a finite number", name);
}

template <> GeneratorParam<bool>::GeneratorParam(const std::string &name, bool value, const std::string &help) {
    const std::string text = Arguments::current().take(name, "bool", value ? "true" : "false", help);
    if (text != "true" && text != "false") fail_usage("--{} is '{}', expected true or false", name, text);
    value_ = text == "true";
}

}  // namespace cryolite
