#include "apps/cryolite/run/resume.h"

#include <nlohmann/json.hpp>

#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

std::string program_of(const Checkpoint &checkpoint) {
    const fs::path file = checkpoint.path / "state.json";
    const json state = json::parse(is_there(file) ? read_file(file) : "", nullptr, false);
    const auto program = state.is_object() ? state.find("program") : state.end();
    return program != state.end() && program->is_string() ? program->get<std::string>() : "";
}

std::optional<ResumePoint> find_resume_point(const fs::path &run, const Skipped &skipped) {
    std::string mistakes;
    const std::optional<Checkpoint> found =
        newest_good_checkpoint(run, [&](const Checkpoint &c, const std::string &why) {
            mistakes += fmt::format("\n  {}: {}", c.path.filename().string(), why);
            skipped(c, why);
        });
    if (!found && !mistakes.empty())
        fail("--resume: no checkpoint in {} can be used, and nothing there was changed:{}\n"
             "restore one of them from a copy, or begin another run with another --out",
             run.string(), mistakes);
    if (!found) return std::nullopt;
    ResumePoint p;
    p.checkpoint = *found;
    const fs::path file = found->path / "state.json";
    try {
        const json j = json::parse(read_file(file));
        if (j.at("format") != run_state_format)
            fail("{} is of another release of Cryolite ({}): resume with that release", file.string(),
                 j.at("format").dump());
        p.position = j.at("position");
        p.withheld = j.value("withheld", uint64_t{0});
        if (p.withheld == 0)
            p.good = found->step;
        else if (j.at("good").is_number())
            p.good = j["good"];
        p.evaluate = j.value("evaluate", false);
        p.data = j.at("data"), p.program = j.at("program");
        p.settings = j.at("settings").get<std::map<std::string, std::string>>();
        p.settings["steps"] = std::to_string(j.at("steps").get<uint64_t>());
        p.metrics = j.value("metrics", std::vector<std::string>());
    } catch (const json::exception &e) {
        fail("{} is damaged: {}", file.string(), e.what());
    }
    return p;
}

namespace {

struct Change {
    std::string flag, before, now;
    OnResume on_resume;
};

/// The value of a flag that a checkpoint does not have. A setting of a step is newer than the checkpoint, which was
/// therefore made with the setting's default.
std::string text_before(const Flag &flag, const std::string &now) {
    StepConfig plain;
    const StepSetting *row = find_by_key(flag.key());
    return row ? text_of(*row, row->of(plain)) : now;
}

/// Every flag whose value is not that of the checkpoint.
std::vector<Change> changes(const TrainSettings &s, const ResumePoint &point) {
    std::vector<Change> list;
    for_each_setting(s, [&](const Flag &flag, ValueRef value) {
        const auto before = point.settings.find(flag.name);
        const std::string now = text_of(flag, value);
        const std::string then = before == point.settings.end() ? text_before(flag, now) : before->second;
        if (flag.on_resume == OnResume::by_content || then == now) return;
        list.push_back({flag.name, then, now, flag.on_resume});
    });
    return list;
}

}  // namespace

std::string no_checkpoint_words(const fs::path &run) {
    return fmt::format(
        "warning: --resume found no checkpoint in {}: beginning at step 0{}; if the run is elsewhere, "
        "interrupt this one and name its folder with --out",
        run.string(),
        is_there(run / "model.safetensors") ? ", whose first checkpoint replaces the model.safetensors there" : "");
}

void check_same(const TrainSettings &s, const RunData &data, const ResumePoint &point) {
    const fs::path config = s.out / "config.toml";
    const std::string kept = is_there(config) ? read_file(config) : "";
    for (const Change &c : changes(s, point))
        if (c.on_resume == OnResume::fixed)
            fail_usage(
                "--{0} is {1}, but the run in {2} was made with {3}: {4}, or begin another run with another "
                "--out",
                c.flag, c.now, s.out.string(), c.before,
                kept.find("\n" + c.flag + " = ") != std::string::npos
                    ? "leave it out"
                    : fmt::format("give --{} {}, which the run's config.toml does not say (restore it, if it was "
                                  "lost)",
                                  c.flag, c.before));
    if (data.digest != point.data)
        fail_usage("the data ({}) is not what the run in {} was trained on: give the same --data, "
                   "or another --out",
                   data.name, s.out.string());
    const fs::path vocabulary = s.out / "vocab.json";
    if (data.tokenizer && is_there(vocabulary) && read_file(vocabulary) != data.tokenizer->to_json() + "\n")
        fail_usage("the tokenizer is not the one that the run in {} was trained with (its vocab.json): give the same "
                   "--tokenizer, or another --out",
                   s.out.string());
}

std::map<std::string, std::string> changed_flags(const TrainSettings &s, const ResumePoint &point) {
    std::map<std::string, std::string> words;
    for (const Change &c : changes(s, point))
        words[c.flag] = fmt::format("--{} {} -> {}", c.flag, one_line(c.before, 80), one_line(c.now, 80));
    return words;
}

}  // namespace cryolite
