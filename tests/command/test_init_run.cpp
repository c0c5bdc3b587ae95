// --init FOLDER where the folder is a run's: the sizes of a program without a config.json of its own, and folders that
// have runs or checkpoints instead of weights.

#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/flags.h"
#include "apps/cryolite/session/settings.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

TEST_CASE("--init: the run of a program without a config.json of its own gives it its sizes") {
    const Scratch run;
    const auto write = [&](const std::string &program) {
        const json params = {{"width", "8"}, {"layers", "1"}, {"batch", "3"}, {"transformer", "true"}, {"old", "1"}};
        const json config = {{"model_type", "cryolite"}, {"program", program}, {"params", params}, {"preset", "vit"}};
        write_plainly(run / "config.json", config.dump());
    };
    const auto request = [&](std::vector<std::string> flags) {
        for (const fs::path &word : {fs::path("--init"), run.path, fs::path("--cache"), run / "cache"})
            flags.push_back(word);
        return read_request(Command::train, flags);
    };
    const auto params = [&](const std::vector<std::string> &flags) { return understand(request(flags)).params; };
    write("vision");
    const auto p = params({"vision"});
    CHECK(p.at("width") == "8");
    CHECK(p.at("transformer") == "true");
    CHECK(p.at("patch") == "4");   // the run does not say it
    CHECK(p.at("batch") == "64");  // of the preset: the weights are the same with any
    CHECK(model_name(request({"vision"})) == "vision vit with width 8, layers 1");
    CHECK_ERROR(params({"vision", "--width", "16"}), "--width is \"16\", but the model of --init has 8 (");
    CHECK(params({"vision", "--preset", "vit"}).at("width") == "8");
    CHECK_ERROR(params({"vision", "--preset", "resnet"}), "but the model of --init has ");
    CHECK_ERROR(read_request(Command::train, {"vision", "--init", "", "--cache", run / "cache"}),
                "--init is \"\", expected a file or a folder of weights");
    CHECK_ERROR(params({"llama"}), "config.json is of a run of vision, whose weights are not those of llama");
    write("another");
    CHECK(params({"vision"}).at("width") == "16");
    for (const char *text : {R"({"model_type": 1})", "[]",
                             R"({"model_type": "cryolite", "program": "vision", "params": {}, "preset": ["vit"]})"}) {
        CAPTURE(text);  // somebody's file
        write_plainly(run / "config.json", text);
        CHECK(params({"vision"}).at("width") == "16");
    }
    write_plainly(run / "config.json",
                  R"({"model_type": "cryolite", "program": "vision", "params": {"width": 4, "layers": null}})");
    CHECK(params({"vision"}).at("width") == "4");
    write_plainly(run / "config.json", R"({"model_type": "cryolite", "program": "vision", "params": [1]})");
    CHECK_ERROR(params({"vision"}), "config.json: \"params\" is missing, or is no object: copy the file again");
    write_plainly(run / "config.json", R"({"model_type": "cryolite", "program": 1})");
    CHECK_ERROR(params({"vision"}), "config.json: \"program\" is missing, or is no name: copy the file again");
    write_plainly(run / "config.json", "{");
    CHECK_ERROR(params({"vision"}), "config.json is no JSON");
    fs::remove(run / "config.json");
    CHECK_ERROR(params({"vision"}),
                "config.json does not exist, but the model's sizes are read from it: name the file");
}

TEST_CASE("--init: the folder of a run's checkpoints is refused, and the newest is named") {
    const Scratch run;
    for (const char *step : {"step-000002", "step-000004"}) fs::create_directories(run / "checkpoints" / step);
    for (const char *app : {"llama", "vision"})
        for (const fs::path folder : {run / "checkpoints", run / "checkpoints/", run / "checkpoints/."})
            CHECK_ERROR(read_request(Command::train, {app, "--init", folder, "--cache", run / "cache"}),
                        fmt::format("--init: {} has all checkpoints of a run: name one of them, such as {}, or the "
                                    "run's folder",
                                    folder.string(), (folder / "step-000004").string()));
    for (const char *name : {"runs/b", "runs/a"}) {
        fs::create_directories(run / name);
        write_plainly(run / name / "config.toml", config_heading);
    }
    CHECK_ERROR(read_request(Command::train, {"llama", "--init", run / "runs", "--cache", run / "cache"}),
                "runs has runs, not weights: name one of them, such as " + (run / "runs/a").string());
    write_plainly(run / "checkpoints/model.safetensors", "");
    for (const char *app : {"llama", "vision"})  // somebody's weights
        CHECK_ERROR(read_request(Command::train, {app, "--init", run / "checkpoints", "--cache", run / "cache"}),
                    "--init: " + (run / "checkpoints/config.json").string() + " does not exist");
}

}  // namespace cryolite::test
