#include "apps/cryolite/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr const char *state_format = "cryolite run 1";

void make_folder(const fs::path &path) {
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_directory(path, error))
        fail_usage("--out {} is a file, expected a folder", path.string());
    fs::create_directories(path, error);
    if (error) {
        fs::path there = path;  // the nearest folder that exists decides
        for (std::error_code ignored; !there.empty() && !fs::exists(there, ignored);) there = there.parent_path();
        fail("cannot create the run's folder {} in {}: {}; name a folder of your own with --out DIR, or work in one",
             path.string(), there.empty() ? "." : there.string(), error.message());
    }
    if (access(path.c_str(), W_OK | X_OK) != 0) fail_file("write to the run's folder", path, errno);
}

/// RUN/name becomes a copy of the checkpoint's file, in one step. Not a link to it, unless it cannot be copied (a full
/// disk): what rewrites a model in place would damage the checkpoint.
void copy_result(const fs::path &from, const fs::path &to) {
    const fs::path temporary = temporary_beside(to);
    std::error_code error, ignored;
    fs::copy_file(from, temporary, error);
    if (!error) {
        sync_path(temporary);
    } else {
        fs::remove(temporary, ignored);
        error.clear();
        fs::create_hard_link(from, temporary, error);
    }
    if (!error) fs::rename(temporary, to, error);
    if (error) {
        fs::remove(temporary, ignored);
        fail_file("write", to, error.value());
    }
}

}  // namespace

fs::path default_folder(const std::string &app) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char date[32];
    std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", &local);
    const std::string name = fmt::format("{}-{}", fs::path(app).stem().string(), date);
    fs::path path = fs::path("runs") / name;
    for (int n = 2; fs::exists(path); n++) path = fs::path("runs") / fmt::format("{}-{}", name, n);
    return path;
}

RunFolder::RunFolder(const TrainSettings &s, bool writes)
    : path_(s.out.empty() ? default_folder(s.app) : s.out), writes_(writes) {
    if (!writes_) return;
    make_folder(path_);
    hold(s.resume);
}

RunFolder::~RunFolder() {
    if (lock_ >= 0) ::close(lock_);
    if (writes_ && !began_) ::rmdir(path_.c_str());
}

void RunFolder::hold(bool resume) {
    lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) fail_file("open the run's folder", path_, errno);
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        fail("another process is training in {}; wait for it or name another --out",
             path_.string());
    std::error_code error;
    if (resume) {
        remove_leftovers(path_);
        remove_checkpoint_leftovers(path_);
    } else if (!fs::is_empty(path_, error) || error) {
        fail_usage(
            "--out {} is not empty: go on with the run in it (--resume) or name another folder",
            path_.string());
    }
}

std::optional<ResumePoint>
RunFolder::resume_point(const std::function<void(const std::string &)> &skipped) {
    auto tell = [&](const Checkpoint &c, const std::string &why) {
        damaged_.insert(c.step);
        skipped(fmt::format("skipped the checkpoint {}: {}", c.path.string(), why));
    };
    std::optional<Checkpoint> found = newest_good_checkpoint(path_, tell);
    if (!found) return std::nullopt;
    ResumePoint p;
    p.checkpoint = found->path, p.step = found->step;
    const fs::path file = found->path / "state.json";
    try {
        const json j = json::parse(read_file(file));
        if (j.at("format") != state_format)
            fail("{} is of another release ({})", file.string(), j.at("format").dump());
        p.position = j.at("position");
        p.withheld = j.value("withheld", uint64_t{0});
        if (p.withheld == 0) p.good = p.step;
        else if (j.at("good").is_number()) p.good = j["good"];
        p.data = j.at("data"), p.program = j.at("program");
        p.settings = j.at("settings").get<std::map<std::string, std::string>>();
        p.settings["steps"] = std::to_string(j.at("steps").get<uint64_t>());
    } catch (const json::exception &e) {
        fail("{} is damaged: {}", file.string(), e.what());
    }
    return p;
}

void RunFolder::begin(const TrainSettings &s, const RunData &data, uint64_t step) {
    began_ = true;
    if (!writes_) return;
    write_file_atomic(path_ / "config.toml", config_toml(s));
    if (data.tokenizer) save_tokenizer(*data.tokenizer, path_ / "vocab.json");
    metrics_.emplace(path_ / "metrics.jsonl", step);
    read_metrics();
}

/// What the run has measured so far, for its plot.
void RunFolder::read_metrics() {
    const std::string text = read_file(path_ / "metrics.jsonl");
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
        const json j =
            json::parse(text.begin() + long(begin), text.begin() + long(end), nullptr, false);
        if (!j.is_object() || !j.contains("step")) continue;
        if (j.contains("loss") && j["loss"].is_number())
            plot_.train.push_back({j["step"], j["loss"]});
        if (j.contains("val_loss") && j["val_loss"].is_number())
            plot_.validation.push_back({j["step"], j["val_loss"]});
    }
}

void RunFolder::record(const StepEvent &e) {
    if (!writes_) return;
    metrics_->write(to_json(e));
    plot_.train.push_back({double(e.step), e.loss});
}

void RunFolder::record(const EvalEvent &e) {
    if (!writes_) return;
    metrics_->write(to_json(e));
    plot_.validation.push_back({double(e.step), e.val_loss});
}

fs::path RunFolder::write(Trainer &trainer, const RunState &state) {
    if (!writes_) return trainer.send_state(), fs::path();
    auto text = [](const std::string &content) {
        return [content](const fs::path &path) {
            FileWriter file(path);
            file.write(as_bytes(content));
            file.finish();
            return sha256_hex(content);
        };
    };
    const json about = {{"format", state_format},
                        {"step", state.step},
                        {"position", state.position},
                        {"withheld", state.withheld},
                        {"good", state.good ? json(*state.good) : json(nullptr)},
                        {"steps", state.settings->steps()},
                        {"data", state.data->digest},
                        {"program", state.program->id},
                        {"settings", flags_of(*state.settings)}};
    std::vector<CheckpointFile> files = {
        {"model.safetensors", [&](const fs::path &p) { return trainer.write_parameters(p); }},
        {"config.json", text(model_config(*state.settings, *state.program))},
        {"optimizer.safetensors", [&](const fs::path &p) { return trainer.write_state(p); }},
        {"state.json", text(about.dump(2) + "\n")}};
    const Checkpoint written = write_checkpoint(path_, state.step, files);
    damaged_.erase(state.step);
    if (state.withheld == 0)
        prune_checkpoints(path_, written, state.settings->keep, damaged_);  // before the copies take their room
    for (const char *name : {"model.safetensors", "config.json"})
        copy_result(written.path / name, path_ / name);
    return written.path;
}

void RunFolder::write_plot(const std::string &title) const {
    if (!writes_) return;
    LossPlot plot = plot_;
    plot.title = title;
    write_file_atomic(path_ / "loss.svg", loss_svg(plot));
}

void RunFolder::write_sample(const std::string &text) const {
    if (!writes_) return;
    write_file_atomic(path_ / "sample.txt", text);
}

namespace {

struct Change {
    std::string flag, before, now;
    OnResume on_resume;
};

/// Every flag whose value is not that of the checkpoint.
std::vector<Change> changes(const TrainSettings &s, const ResumePoint &point) {
    std::vector<Change> list;
    for (auto &[flag, value] : flags_of(s)) {
        const auto before = point.settings.find(flag);
        if (before == point.settings.end() || value == "nan" || before->second == value) continue;
        const Flag *known = find_flag(flag);
        list.push_back({flag, before->second, value, known ? known->on_resume : OnResume::fixed});
    }
    return list;
}

}  // namespace

void check_same(const TrainSettings &s, const RunData &data, const ResumePoint &point) {
    for (const Change &c : changes(s, point))
        if (c.on_resume == OnResume::fixed)
            fail_usage("--{} is {}, but the run in {} was made with {}: leave it out, or begin another run with another "
                       "--out", c.flag, c.now, s.out.string(), c.before);
    if (data.digest != point.data)
        fail_usage("the data ({}) is not what the run in {} was trained on: give the same --data, "
                   "or another --out",
                   data.name, s.out.string());
}

std::map<std::string, std::string> changed_flags(const TrainSettings &s, const ResumePoint &point) {
    std::map<std::string, std::string> words;
    for (const Change &c : changes(s, point))
        words[c.flag] = fmt::format("--{} {} -> {}", c.flag, c.before, c.now);
    return words;
}

std::string model_config(const TrainSettings &s, const Program &program) {
    json j;
    // GPT-2's <|endoftext|> is its last token; other vocabularies have none.
    const json end = s.tokenizer == "gpt2" ? json(50256) : json(nullptr);
    if (program.description.name == "gpt" && s.params.count("positions")) {
        j = {{"architectures", {"GPT2LMHeadModel"}},
             {"model_type", "gpt2"},
             {"activation_function", "gelu_new"},
             {"n_layer", s.param("layers", 0)},
             {"n_head", s.param("heads", 0)},
             {"n_embd", s.param("width", 0)},
             {"n_positions", s.param("positions", 0)},
             {"n_ctx", s.param("context", 0)},
             {"n_inner", 4 * s.param("width", 0)},
             {"vocab_size", s.param("vocab", 0)},
             {"layer_norm_epsilon", 1e-5},
             {"initializer_range", 0.02},
             {"tie_word_embeddings", true},
             {"scale_attn_weights", true},
             {"attn_pdrop", 0.0},
             {"embd_pdrop", 0.0},
             {"resid_pdrop", 0.0},
             {"bos_token_id", end},
             {"eos_token_id", end},
             {"torch_dtype", "float32"}};
    } else {
        j = {{"model_type", "cryolite"},
             {"program", program.description.name},
             {"params", s.params}};
    }
    return j.dump(2) + "\n";
}

}  // namespace cryolite
