// A generator program is told of a step what its bundle depends on.

#include "generators/driver/step_arguments.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bundle/error.h"

namespace cryolite::test {

namespace {

StepConfig parsed(std::vector<std::string> words) {
    CLI::App app;
    const compiler::StepArguments arguments(app);
    std::reverse(words.begin(), words.end());
    app.parse(words);
    StepConfig config;
    arguments.read(config);
    return config;
}

std::string refusal(const std::vector<std::string> &words) {
    try {
        parsed(words);
    } catch (const UsageError &e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("step arguments: what the program understands has the key of what the command meant, setting by setting") {
    for (const StepSetting &s : step_settings()) {
        if (s.in_bundle == InBundle::no) continue;
        CAPTURE(s.name);
        StepConfig config;
        CHECK((read_value(s, "7", s.of(config)) || read_value(s, "0.5", s.of(config)) ||
               read_value(s, "wte=lr:7;h=decay:0", s.of(config)) || read_value(s, "baseline", s.of(config)) ||
               read_value(s, s.is_switch() ? "true" : s.words.back().text, s.of(config))));
        CHECK(bundle_key(config) != bundle_key({}));
        CHECK(bundle_key(parsed(program_arguments(config))) == bundle_key(config));
    }
    CHECK(bundle_key(parsed({})) == bundle_key({}));
}

TEST_CASE("step arguments: a value that cannot be is refused by the argument's name") {
    for (const StepSetting &s : step_settings()) {
        if (s.in_bundle != InBundle::value || s.is_switch() || std::holds_alternative<Setting::Text>(s.range)) continue;
        CAPTURE(s.name);
        CHECK(refusal({"--" + s.name, "odd"}) == fmt::format("--{} is 'odd', expected {}", s.name, expected(s)));
    }
    CHECK(refusal({"--workers", "1025"}) == "--workers is '1025', expected a whole number from 1 to 1024");
}

TEST_CASE("step arguments: auto is a dialect to the command alone, which measures") {
    CHECK(parsed({"--dialect", "auto"}).dialect == "halide");
}

}  // namespace cryolite::test
