#include "apps/cryolite/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include <nlohmann/json.hpp>

#include "apps/cryolite/inputs/init_folder.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/run_summary.h"
#include "runtime/files/confusion.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// Makes the folder that a run's folder is to be in, where it is missing.
void make_parent(const fs::path &path) {
    const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
    fs::path there = parent;  // the nearest folder that exists, for the message
    for (std::error_code ignored; !there.empty() && !fs::exists(there, ignored);) there = there.parent_path();
    if (there.empty()) there = ".";
    std::error_code error;
    fs::create_directories(parent, error);
    if (!error && access(parent.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::generic_category());
    if (error)
        fail("cannot create the run's folder {} in {}: {}; name a folder of your own with --out DIR, or work in one",
             path.string(), there.string(), error.message());
    for (fs::path made = parent; made != there && made.has_relative_path(); made = made.parent_path())
        sync_path(made.has_parent_path() ? made.parent_path() : ".");
}

/// The names in a folder, without what killed processes left.
std::vector<std::string> names_in(const fs::path &folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (const std::string name = entry->path().filename().string(); !name.starts_with(".tmp-"))
            names.push_back(name);
    if (error) fail_file("read the folder", folder, error.value());
    return names;
}

/// Throws UsageError unless --resume can go on with a run in the folder, or begin one as it is empty.
void check_resumable(const fs::path &path) {
    const std::vector<std::string> names = names_in(path);
    if (names.empty() || is_run(path) || !list_checkpoints(path).empty()) return;
    fail_usage(
        "--resume: {} is not the folder of a run: it has {}{}, but no config.toml that a run wrote; nothing there was "
        "changed. Name the run's folder, or a new one, with --out",
        path.string(), names[0], names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "");
}

}  // namespace

std::vector<const char *> results_of(const Checkpoint &checkpoint) {
    std::vector<const char *> names(result_files.begin(), result_files.end());
    if (is_there(checkpoint.path / averages_file)) names.push_back(averages_file);
    return names;
}

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
    if (!path_.has_filename()) path_ = path_.parent_path();  // "runs/x/"
}

RunFolder::~RunFolder() {
    if (!began_ && configured_) ::unlink((path_ / "config.toml").c_str());
    if (!began_ && made_) ::rmdir(path_.c_str());
    if (lock_ >= 0) ::close(lock_);
}

void RunFolder::hold(const TrainSettings &s) {
    if (!writes_) return;
    if (!is_there(path_)) return make(s);
    std::error_code error;
    if (!fs::is_directory(path_, error)) fail_usage("--out {} is a file, expected a folder", path_.string());
    if (access(path_.c_str(), W_OK | X_OK) != 0) fail_file("write to the run's folder", path_, errno);
    if (const fs::path checkpoints = path_ / "checkpoints";
        fs::is_directory(checkpoints, error) && access(checkpoints.c_str(), W_OK | X_OK) != 0)
        fail_file("write to the run's folder", checkpoints, errno);
    lock(path_);
    if (s.resume)
        check_resumable(path_);
    else if (!fs::is_empty(path_, error) || error)
        fail_usage("--out {} is not empty: go on with the run in it (--resume) or name another folder", path_.string());
    if (is_there(path_ / "config.toml") || !list_checkpoints(path_).empty()) return;
    write_file_atomic(path_ / "config.toml", config_toml(s));
    configured_ = true;
}

/// A new folder gets its name only when its config.toml is in it, so that it is always known for a run's.
void RunFolder::make(const TrainSettings &s) {
    make_parent(path_);
    TemporaryFolder folder(path_);
    lock(folder.path());
    write_file_atomic(folder.path() / "config.toml", config_toml(s), 0644, FolderSync::later);
    made_ = configured_ = folder.publish(TemporaryFolder::IfExists::keep, Written::synced);
    if (!made_) fail("another process has just made {}; name another --out", path_.string());
}

void RunFolder::lock(const fs::path &folder) {
    lock_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) fail_file("open the run's folder", folder, errno);
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        fail("another process is training in {}; wait for it or name another --out", path_.string());
}

std::optional<ResumePoint> RunFolder::resume_point(const std::function<void(const std::string &)> &say) {
    std::vector<std::string> words;
    std::optional<ResumePoint> point = find_resume_point(path_, [&](const Checkpoint &c, const std::string &why) {
        damaged_.insert(c.step);
        words.push_back(fmt::format("skipped the checkpoint {}: {}", c.path.string(), why));
    });
    for (const std::string &line : words) say(line);
    return point;
}

void RunFolder::begin(const TrainSettings &s, const RunData &data, const std::optional<ResumePoint> &point) {
    began_ = true;
    if (!writes_) return;
    remove_leftovers(path_);
    remove_checkpoint_leftovers(path_);
    update("config.toml", config_toml(s));
    if (data.tokenizer) update("vocab.json", data.tokenizer->to_json() + "\n");
    // With tokenizer.json and the config.json that came with the weights, transformers can open the run.
    if (fs::path(s.tokenizer).is_absolute()) {
        const std::string text = read_file(s.tokenizer_file());
        if (vocabulary_type(text).empty()) update("tokenizer.json", text);
        const fs::path beside = fs::path(s.tokenizer).parent_path();
        for (const char *name : {"tokenizer_config.json", "special_tokens_map.json"})
            if (is_there(beside / name)) update(name, read_file(beside / name));
    }
    if (const char *name = "generation_config.json"; !s.init.empty() && is_there(s.init / name))
        update(name, read_file(s.init / name));
    const fs::path config = point ? point->checkpoint.path / "config.json" : fs::path();
    begun_ = point && is_there(config) ? read_file(config) : config_of_init(s);
    metrics_.emplace(path_ / "metrics.jsonl", point ? point->checkpoint.step : 0);
    make_private_dirs(path_ / "checkpoints", 0755);
    if (point)  // the last process may have been killed between a checkpoint and its copy
        for (const char *name : results_of(point->checkpoint))
            if (!verify_copy(path_ / name, point->checkpoint).empty()) copy_result(point->checkpoint, name);
    read_metrics(point ? point->metrics : std::vector<std::string>());
    sync_path(path_);
}

/// Writes a file, if its text is another one. The caller has to sync the folder.
void RunFolder::update(const char *name, const std::string &text) const {
    if (const fs::path path = path_ / name; !is_there(path) || read_file(path) != text)
        write_file_atomic(path, text, 0644, FolderSync::later);
}

/// What the run has measured so far, for its plot; `more`: lines that metrics.jsonl may lack.
void RunFolder::read_metrics(const std::vector<std::string> &more) {
    std::string text = read_file(path_ / "metrics.jsonl");
    for (const std::string &line : more) {
        if (text.find(line + '\n') != std::string::npos) continue;
        measured(line);
        text += line + '\n';
    }
    read_losses(text, plot_);
}

void RunFolder::measured(const std::string &line) {
    unwritten_.push_back(line);
    write_metrics();
}

void RunFolder::write_metrics() {
    while (!unwritten_.empty()) {
        metrics_->write(unwritten_.front());
        unwritten_.erase(unwritten_.begin());
    }
}

void RunFolder::record(const StepEvent &e) {
    if (!writes_) return;
    plot_.train.push_back({double(e.step), e.loss});
    measured(to_json(e));
}

void RunFolder::record(const EvalEvent &e) {
    if (!writes_) return;
    plot_.validation.push_back({double(e.step), e.val_loss});
    measured(to_json(e));
}

Checkpoint RunFolder::write(const RunState &state, std::vector<CheckpointFile> files) {
    auto text = [](const std::string &content) {
        return [content](const fs::path &path) {
            FileWriter file(path);
            file.write(as_bytes(content));
            file.finish();
            return sha256_hex(content);
        };
    };
    unsynced_.clear();
    try {
        write_metrics();
        metrics_->sync();  // what was measured up to a checkpoint is there before it
    } catch (const Error &e) {
        unsynced_ = e.what();  // no reason to lose the checkpoint too
    }
    const json about = {{"format", run_state_format},
                        {"step", state.step},
                        {"position", state.position},
                        {"withheld", state.withheld},
                        {"good", state.good ? json(*state.good) : json(nullptr)},
                        {"evaluate", state.evaluate},
                        {"steps", state.settings->steps()},
                        {"data", state.data->digest},
                        {"program", state.program->id},
                        {"settings", flags_of(*state.settings)},
                        {"metrics", unwritten_}};
    files.push_back({"config.json", text(model_config(*state.settings, *state.program, begun_))});
    files.push_back({"state.json", text(about.dump(2) + "\n")});
    const Checkpoint written = write_checkpoint(path_, state.step, files);
    damaged_.erase(state.step);
    return written;
}

/// RUN/name becomes a copy of the checkpoint's file, in one step; the folder is still to be synced. Not a link to it,
/// unless it cannot be copied (a full disk): what rewrites a model in place would damage the checkpoint.
void RunFolder::copy_result(const Checkpoint &checkpoint, const char *name) const {
    const fs::path from = checkpoint.path / name, to = path_ / name, temporary = temporary_beside(to);
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

void RunFolder::settle(const Checkpoint &written, int keep) {
    try {
        if (keep) prune_checkpoints(path_, written, keep, damaged_);  // before the copies take their room
        for (const char *name : results_of(written))
            if (name == std::string_view("model.safetensors") || !verify_copy(path_ / name, written).empty())
                copy_result(written, name);
        sync_path(path_);
        if (!unsynced_.empty()) fail("{}", unsynced_);
    } catch (const Error &e) {
        fail("{}\n{} is whole, but its copies in the run's folder are not up to date: --resume updates them", e.what(),
             written.path.string());
    }
}

void RunFolder::write_plot(const std::string &title) const {
    if (!writes_) return;
    LossPlot plot = plot_;
    plot.title = title;
    write_file_atomic(path_ / "loss.svg", loss_svg(plot));
}

void RunFolder::write_confusion(const std::string &title, const EvalEvent &e,
                                const std::vector<std::string> &names) const {
    if (!writes_ || e.confusion.empty()) return;
    const bool named = names.size() == size_t(e.classes);  // a model may have more outputs than the data have classes
    write_file_atomic(path_ / "confusion.svg",
                      confusion_svg(fmt::format("{}, step {}{}", title, e.step, metric_words(e)), e.classes,
                                    e.confusion, named ? names : std::vector<std::string>{}));
}

void RunFolder::write_sample(const std::string &text) const {
    if (!writes_) return;
    write_file_atomic(path_ / "sample.txt", text);
}

}  // namespace cryolite
