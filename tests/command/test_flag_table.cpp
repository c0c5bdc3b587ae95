// Every setting, row by row: from the flag to TOML, to the generator program, to the key of a bundle and what
// `cache why` says of it, to the config.toml of a run and back, and what a run that goes on may change. A new setting
// is a row, and no line here.

#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/run/resume.h"
#include "apps/cryolite/session/session.h"
#include "client/nearest_bundle.h"
#include "tests/cuda/use_recorder.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

namespace {

Request request(const std::vector<std::pair<std::string, std::string>> &line = {}, Command command = Command::train) {
    Request r;
    r.command = command, r.app = "some";
    ProgramDescription &d = r.program.description;
    d.name = "some", d.task = "tokens", d.optimizer = "adamw";
    d.optimizers = {
        {"adamw", {{"lr", 1e-3, RealRange::positive, "rate"}, {"eps", 1e-8, RealRange::not_negative, "least"}}},
        {"sgd", {{"lr", 1e-2, RealRange::positive, "rate"}}}};
    d.params = {{"batch", "int", "12", ""}, {"width", "int", "8", ""}, {"base", "float", "0.5", ""}};
    for (auto &[flag, text] : line) {
        r.values.give(flag, {text, Origin::command_line});
        if (const Flag *row = find_flag(flag); row && row->of_rows) d.task = "features";
    }
    return r;
}

/// A value that is not the default, as text_of writes it.
std::string another(const Flag &f) {
    const std::map<std::string, std::string> texts = {{"launch", "mpirun -n {workers}"},
                                                      {"recompute", "40MB"},
                                                      {"out", "/runs/x"},
                                                      {"rename", "a=b,c=d"},
                                                      {"tokenizer", "/some/tokenizer.json"}};
    if (texts.contains(f.name)) return texts.at(f.name);
    if (std::holds_alternative<WholeRange>(f.range)) return "3";
    if (std::holds_alternative<RealRange>(f.range)) return "0.0625";
    if (auto *power = std::get_if<PowerOfTwo>(&f.range))
        return text_of(f, std::make_unique<double>(power->low * 4).get());
    if (std::holds_alternative<Setting::Seconds>(f.range)) return "7s";
    if (f.name == "schedule") return "/etc/passwd";  // it is read at once
    if (std::holds_alternative<Setting::File>(f.range)) return "/some/file";
    if (std::holds_alternative<Setting::Text>(f.range)) return "some,other";
    if (std::holds_alternative<Setting::Groups>(f.range)) return "wte=lr:0.1x,decay:0;h.*=lr:2";
    if (std::holds_alternative<Setting::Targets>(f.range)) return "host";
    if (f.is_switch()) return "true";
    const std::string first = f.words.at(0).text;  // of a device, what runs beside all else
    return f.words.at(1).text == "halide" ? first : f.words.at(1).text;
}

/// Another value of a step's setting.
void change(const StepSetting &s, StepConfig &config) {
    REQUIRE((read_value(s, "3", s.of(config)) || read_value(s, "4", s.of(config)) ||
             read_value(s, "0.5", s.of(config)) || read_value(s, "0.25", s.of(config)) ||
             read_value(s, "wte=lr:3", s.of(config)) || read_value(s, "host", s.of(config)) ||
             read_value(s, s.is_switch() ? "true" : s.words.back().text, s.of(config))));
}

/// What no value of the row is.
std::vector<std::string> impossible(const Setting &s) {
    if (auto *whole = std::get_if<WholeRange>(&s.range)) {
        std::vector<std::string> bad = {"-1", "1.5", "many", "", std::to_string(whole->high + 1)};
        if (whole->low > 0) bad.push_back(std::to_string(whole->low - 1));
        return bad;
    }
    if (auto *real = std::get_if<RealRange>(&s.range)) {
        const double below = real->low < 0 ? 10 * real->low : real->low - 1;
        return {"nan", "inf", "much", "", fmt::format("{}", below), fmt::format("{}", 10 * real->high)};
    }
    if (auto *power = std::get_if<PowerOfTwo>(&s.range))
        return {"nan",
                "inf",
                "0",
                "-2",
                "much",
                "",
                fmt::format("{}", power->low * 3),
                fmt::format("{}", power->low / 2),
                fmt::format("{}", power->high * 2)};
    if (std::holds_alternative<Setting::Bytes>(s.range)) return {"0", "-1", "some", ""};
    if (std::holds_alternative<Setting::Seconds>(s.range)) return {"0s", "-1", "soon", ""};
    if (std::holds_alternative<Setting::Words>(s.range)) return {"nonsense", ""};
    if (std::holds_alternative<Setting::Groups>(s.range)) return {"wte", "wte=lr:0.1x;", "wte=rate:1", ""};
    if (s.is_switch()) return {"yes", ""};
    return {""};
}

/// The rows of a program that have a place among the settings of a run.
std::vector<Flag> rows(const ProgramDescription &d) {
    std::vector<Flag> list = all_flags(d);
    std::erase_if(list, [](const Flag &f) { return f.name == "preset" || f.name == "config" || f.name == "ablate"; });
    return list;
}

std::string kept(const TrainSettings &s, const std::string &name) {
    std::string text = "not kept";
    for_each_setting(s, [&](const Flag &f, ValueRef value) {
        if (f.name == name) text = text_of(f, value);
    });
    return text;
}

/// Of a flag at this value, and what it says nothing without; null: of the latter alone, for the same kind of model.
Request request_with(const Flag &f, const std::string *text) {
    std::vector<std::pair<std::string, std::string>> line;
    if (f.name == "resume") line.push_back({"out", "/runs/x"});
    if (f.name == "min-lr") line.push_back({"lr", "0.5"});
    if (f.name.ends_with("-ema")) line.push_back({"ema", "0.5"});
    if (f.name.starts_with("loss-scale")) line.push_back({"precision", "fp16"});
    if (f.name == "finite-check") line.push_back({"precision", "bf16"});
    if (f.name == "rename") line.push_back({"init", "/some/file"});
    line.push_back({f.name, text ? *text : another(f)});
    Request r = request(line);
    if (!text) r.values.erase(f.name);
    return r;
}

TrainSettings settings_with(const Flag &f, const std::string &text) { return understand(request_with(f, &text)); }

}  // namespace

TEST_CASE("flags: a value goes by config.toml and comes back, whatever the flag") {
    const Scratch scratch;
    const UseRecorder gpu;
    for (const Flag &f : rows(request().program.description)) {
        CAPTURE(f.name);
        const std::string text = another(f);
        const TrainSettings s = settings_with(f, text);
        if (f.value_of) {
            TrainSettings copy = s;
            CHECK(text_of(f, f.value_of(copy)) == text);
        }
        if (f.recorded) {
            CHECK(kept(s, f.name) == text);
            CHECK(kept(understand(request()), f.name) != text);
        } else {
            CHECK(kept(s, f.name) == "not kept");
            CHECK(config_toml(s).find("\n" + f.name + " = ") == std::string::npos);
        }
        const fs::path file = write_plainly(scratch / "config.toml", config_toml(s));
        Request again = request_with(f, &text);
        again.values = Values();
        for (auto &[name, given] : read_config(file, Origin::config, list_mark))
            if (name != "app") again.values.give(name, given);
        CHECK(config_toml(understand(again)) == config_toml(s));
        CHECK(bundle_key(understand(again)) == bundle_key(s));
    }
}

TEST_CASE("flags: what cannot be is refused by the flag's name, with what can") {
    for (const Flag &f : rows(request().program.description))
        for (const std::string &bad : impossible(f)) {
            CAPTURE(f.name);
            CAPTURE(bad);
            const std::string message = error_of([&] { settings_with(f, bad); });
            CHECK(message.starts_with(fmt::format("--{} is {}, expected {}", f.name, shown(bad), expected(f))));
        }
    Request r = request();
    r.values.give("clip", {"much", Origin::config, "my.toml, line 3"});
    CHECK_ERROR(understand(r), "--clip is \"much\" (my.toml, line 3), expected a number from 0 to 1e30");
}

TEST_CASE("flags: what a bundle depends on is in its key, and `cache why` names the flag; nothing else is") {
    const json plain = bundle_key(StepConfig{});
    for (const StepSetting &s : step_settings()) {
        CAPTURE(s.name);
        StepConfig config;
        change(s, config);
        const json key = bundle_key(config);
        const std::vector<std::string> differs = differences(plain.dump(), key.dump());
        if (s.in_bundle == InBundle::no) {
            CHECK(differs.empty());
            CHECK(program_arguments(config) == program_arguments({}));
            continue;
        }
        REQUIRE(differs.size() == 1);
        CHECK(differs[0].starts_with(s.flag.empty() ? "--" + s.name + " " : fmt::format("--{} ({}) ", s.flag, s.name)));
        CHECK(program_arguments(config) != program_arguments({}));
    }
    StepConfig rows32;
    rows32.head_rows = 32;
    CHECK(differences(plain.dump(), bundle_key(rows32).dump()) == std::vector<std::string>{"--head-rows auto -> 32"});
    json clipped = plain;
    clipped["clip"] = true, clipped["lines"] = "s(a);\ns(b);\n";
    CHECK(flat_parts(clipped.dump()).at("--clip") == "yes");
    CHECK(flat_parts(clipped.dump()).at("--lines") == "s(a); s(b);");
    CHECK(one_line("s(a);\ns(b);\n", 7) == "s(a); s...");
    CHECK(one_line("/data/of/one/line ", 7) == "/data/of/one/line ");
}

TEST_CASE("flags: the key of a plain step, letter by letter") {
    CHECK(
        bundle_key({}).dump() ==
        R"({"accumulate":false,"budget":0,"clip":false,"device":"cpu","dialect":"halide","group":"auto","head_rows":-1)"
        R"(,"optimizer":"adamw","precision":"fp32","update":"auto","workers":1})");
    const TrainSettings s = understand(request({{"clip", "0.5"},
                                                {"accumulate", "4"},
                                                {"head-rows", "32"},
                                                {"recompute", "40MB"},
                                                {"dialect", "auto"},
                                                {"workers", "2"},
                                                {"update", "forward"}}));
    CHECK(bundle_key(bundle_request(s).step).dump() ==
          R"({"accumulate":true,"budget":40000000,"clip":true,"device":"cpu","dialect":"halide","group":"auto",)"
          R"("head_rows":32,"optimizer":"adamw","precision":"fp32","update":"forward","workers":2})");
}

TEST_CASE("flags: patterns of what is not trained, and of a setting at its default no word in the key") {
    CHECK(understand(request()).freeze_patterns().empty());
    const TrainSettings s = understand(request({{"freeze", "h.*,wte.weight"}}));
    CHECK(s.freeze_patterns() == std::vector<std::string>{"h.*", "wte.weight"});
    CHECK(bundle_key(s)["freeze"] == "h.*,wte.weight");
    CHECK(!bundle_key({}).contains("freeze"));
}

TEST_CASE("flags: a run that goes on may change those that say so, and no other") {
    const UseRecorder gpu;
    for (const Flag &f : rows(request().program.description)) {
        if (!f.recorded || f.on_resume == OnResume::by_content) continue;
        CAPTURE(f.name);
        ResumePoint point;
        point.settings = flags_of(understand(request_with(f, nullptr)));
        const TrainSettings s = settings_with(f, another(f));
        CHECK(changed_flags(s, point).at(f.name).starts_with("--" + f.name + " "));
        const std::string message = error_of([&] { check_same(s, {}, point); });
        if (f.on_resume == OnResume::free)
            CHECK(message.empty());
        else
            CHECK(contains(message, fmt::format("--{} is {}, but the run in", f.name, another(f))));
    }
}

TEST_CASE("flags: train's alone are taken by other commands, with a note where the command line has them") {
    const auto notes = [](Command command) { return idle_flag_notes(request({{"out", "a"}, {"lr", "1"}}, command)); };
    CHECK(notes(Command::train).empty());
    CHECK(notes(Command::compile).empty());  // which writes there
    for (Command command : {Command::bench, Command::explain, Command::tune}) {
        const std::vector<std::string> list = notes(command);
        REQUIRE(list.size() == 1);
        CHECK(contains(list[0], "note: --out has no effect here: "));
    }
    CHECK(contains(notes(Command::tune)[0], "it is for training runs, and tune makes none"));
    Request of_file = request({}, Command::tune);
    of_file.values.give("out", {"a", Origin::config});
    CHECK(idle_flag_notes(of_file).empty());
}

}  // namespace cryolite::test
