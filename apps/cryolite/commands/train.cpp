// cryolite train: the training loop, with its reports, evaluations and checkpoints.

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>

#include <fmt/ranges.h>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/commands/sample/sampler.h"
#include "apps/cryolite/endings/divergence.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/endings/supervisor.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/session/evaluate.h"
#include "apps/cryolite/session/session.h"
#include "runtime/collective/processes.h"
#include "runtime/exec/peak.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

class Training {
public:
    Training(Request request, TrainSettings settings)
        : request_(std::move(request)), s_(std::move(settings)), trace_(begin_trace(s_)),
          data_(open_data(s_, request_)), folder_(s_, processes().rank() == 0) {
        processes().set_patience(s_.patience);
    }

    int run() {
        try {
            return train();
        } catch (const LostWorker &e) {
            end_without(e);
        }
    }

private:
    int train() {
        begin();
        uint64_t step = start_;
        try {
            if (evaluate_first_) validate(step);
            while (step < s_.steps() && !stopped()) one_step(step++);
            if (const StepResult *last = trainer().rest()) report(*last);
            if (!stopped() && must_evaluate(step)) validate(step);
        } catch (const DataError &e) {
            data_failed(e, "Restore the data, then go on: ");
        } catch (const TargetError &e) {
            data_failed(e, "To go on without such targets: ");
        }
        if (last_.step != step) save(step);
        folder_.write_plot(title());
        if (trace_) progress_.say(trace_->finish());
        if (stopped()) return end_early(step);
        finish(step);
        return 0;
    }

    using Clock = std::chrono::steady_clock;
    Request request_;
    TrainSettings s_;
    std::unique_ptr<Trace> trace_;
    RunData data_;
    RunFolder folder_;
    Progress progress_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Loader> loader_;
    StepTimes times_;
    HostWaits waits_, step_waits_;
    uint64_t start_ = 0, evaluated_ = ~uint64_t{0};
    uint64_t position_ = 0;  ///< the next micro-batch, after the last whole step
    LastCheckpoint last_;
    bool stopping_ = false, lost_lines_ = false, evaluate_first_ = false;
    StepWork work_;
    double peak_ = 0, first_step_s_ = 0;
    Clock::time_point began_;
    std::optional<Clock::time_point> reported_;  ///< when the timing of the step that is reported next began

    Trainer &trainer() { return *session_->trainer; }
    /// Whether an evaluation belongs after this step, and was not made.
    bool must_evaluate(uint64_t step) const {
        return s_.eval_every && data_.has_validation() && evaluated_ != step &&
               (step % s_.eval_every == 0 || step == s_.steps());
    }
    /// All processes of a run stop after the same step.
    bool stopped() const { return processes().size() > 1 ? stopping_ : interrupted(); }
    std::string title() const { return fmt::format("{} on {}", model_name(request_), data_.name); }
    std::string resume_words() const {
        const int ranks = processes().size();
        return (ranks > 1 ? fmt::format("mpirun -n {} ", ranks) : "") + resume_command(folder_.path());
    }

    void begin() {
        std::optional<ResumePoint> point;
        processes().barrier();  // all have read the run's folder, before rank 0 changes it
        folder_.hold(s_);
        processes().barrier();  // rank 0 has the folder
        if (s_.resume) {
            point = folder_.resume_point([&](const std::string &why) { progress_.say(why); });
            if (!point) progress_.say(no_checkpoint_words(folder_.path()));
            if (point) check_same(s_, data_, *point);
            if (point && point->checkpoint.step > s_.steps())
                fail_usage("--steps {} is less than the {} steps that the run in {} has done", s_.steps(),
                           point->checkpoint.step, folder_.path().string());
        }
        progress_.say(fmt::format("data: {}: {}", data_.name, data_.about));
        if (!point) check_init(s_, request_);
        session_ = open_session(s_, request_, progress_, [this](const std::string &json) { emit(json); });
        check_evaluation(trainer(), data_, s_);
        if (point)
            go_on(*point);
        else
            begin_weights(trainer(), s_, request_);
        if (const auto steps = trainer().of_all(double(start_));
            std::ranges::count(steps, steps[0]) != std::ssize(steps))
            fail("the processes of this run see different checkpoints in {}: --out has to be a folder that their hosts "
                 "share",
                 folder_.path().string());
        position_ = point ? point->position : 0;
        loader_ = std::make_unique<Loader>(data_.source(s_), position_);
        work_ = step_work(trainer(), s_.accumulate);
        // Only one of several processes prints.
        defer_signals(processes().rank() > 0
                          ? nullptr
                          : "\nstopping after this step, with a checkpoint; once more stops at once\n");
        folder_.begin(s_, data_, point);
        describe();
        began_ = Clock::now();
    }

    void go_on(const ResumePoint &point) {
        const auto &[path, step] = point.checkpoint;
        if (point.program != request_.program.id) progress_.say(program_changed);
        read_tensors(trainer(), path);
        trainer().set_steps(step);
        trainer().set_withheld_in_a_row(point.withheld);
        start_ = step;
        evaluate_first_ = point.evaluate && s_.eval_every && data_.has_validation();
        if (!evaluate_first_) evaluated_ = step;
        last_ = {step, point.good, point.position};
        progress_.say(fmt::format("going on after step {} from {}", step, path.string()));
        if (const auto changed = changed_flags(s_, point); !changed.empty()) {
            const auto values = std::views::values(changed);
            const bool rate = std::ranges::any_of(std::array{"lr", "min-lr", "warmup", "steps"},
                                                  [&](const char *flag) { return changed.contains(flag); });
            progress_.say(fmt::format("note: changed from here on: {}{}", fmt::join(values, ", "),
                                      rate ? "; the learning rate takes another course" : ""));
        }
    }

    void describe() {
        const Plan &plan = trainer().plan();
        progress_.say(fmt::format(
            "{}: {} parameters{}, {} a step, {}, {}, {} on {}", title(), grouped(uint64_t(plan.parameters())),
            plan.trained_parameters() == plan.parameters()
                ? ""
                : fmt::format(", {} of them trained", grouped(uint64_t(plan.trained_parameters()))),
            fmt::format("{} {}", grouped(uint64_t(work_.tokens)), s_.text ? "tokens" : "rows"), s_.optimizer,
            s_.precision, session_->threads_in_words(), session_->devices[0]->name()));
        progress_.say(fmt::format("run: {}", folder_.path().string()));
    }

    void one_step(uint64_t index) {
        const double lr = s_.rate.at(index);
        trainer().set("lr", lr, lr / s_.rate.high);
        const uint64_t step = index + 1;
        const bool must_save = s_.checkpoint_every && step % s_.checkpoint_every == 0;
        if (!reported_) reported_ = Clock::now();
        const StepResult *result = trainer().advance([&]() -> const Batch & { return loader_->next(); }, s_.accumulate);
        position_ = loader_->position();
        if (result) report(*result);
        if (must_evaluate(step) || must_save)
            if (const StepResult *last = trainer().rest()) report(*last);
        if (must_evaluate(step)) validate(step);
        if (trace_) trace_->keep_up();
        // While updates are withheld, the weights stay what they were.
        if (must_save && trainer().withheld_in_a_row() == 0) save(step);
        stopping_ = trainer().any(interrupted());
    }

    /// Reports the results of a step. If the device runs ahead, the next step has been started by then.
    void report(const StepResult &result) {
        const auto now = Clock::now();
        const double seconds = std::chrono::duration<double>(now - *reported_).count();
        reported_ = trainer().unread() ? std::optional(now) : std::nullopt;
        if (times_.empty()) first_step_s_ = since_start();
        const uint64_t step = result.step, withheld = result.withheld_in_a_row;
        const double loss = result.loss, lr = s_.rate.at(step - 1);
        if (!std::isfinite(loss)) diverged(step, "loss", loss);
        if (withheld == 1)
            progress_.say(fmt::format("step {}: a gradient is not finite; the update is withheld, and no checkpoint is "
                                      "written until there is one again",
                                      step));
        times_.add(seconds);
        waits_.after_step(session_->devices[0]->waits());
        step_waits_.after_step(session_->devices[0]->step_waits());
        StepEvent e{step, loss, work_.tokens / seconds, seconds, lr, withheld};
        for (size_t t = 0; t < result.terms.size(); t++)
            e.losses.emplace_back(trainer().plan().terms[t].loss, result.terms[t]);
        if (trainer().scales_loss()) e.loss_scale = result.loss_scale;
        record(e);
        emit(to_json(e));
        if (peak_ == 0) peak_ = session_->measure_peak(s_);  // after the first step, which should not wait for it
        show(e);
        if (s_.give_up_after && withheld >= s_.give_up_after) give_up(step);
        if (s_.give_up_after && result.low_scale_in_a_row >= s_.give_up_after) give_up_scaling(result);
    }

    /// Writes a step's line of metrics. If that fails, what was trained is saved before the run ends.
    void record(const StepEvent &e) {
        const TraceSpan span("run", "write metrics", int64_t(e.step));
        try {
            folder_.record(e);
        } catch (const Error &) {
            if (processes().size() == 1) save(trainer().steps());
            throw;
        }
    }

    void show(const StepEvent &e) {
        Progress::Step p{e, s_.steps()};
        p.event.step_s = times_.recent(), p.event.tok_s = work_.tokens / p.event.step_s;
        p.fraction = peak_ > 0 ? work_.flops / p.event.step_s / (peak_ * 1e9) : 0;
        const double passed = std::chrono::duration<double>(Clock::now() - began_).count();
        p.left_s = passed / double(e.step - start_) * double(s_.steps() - e.step);
        p.unit = s_.text ? "tok" : "rows";
        progress_.step(p);
    }

    void emit(const std::string &json) {
        if (!s_.json || interrupted()) return;
        try {
            print_line(json);
        } catch (const NoReader &e) {  // nobody reads the output: the run ends, with a checkpoint
            progress_.say(e.what());
            interrupt();
        } catch (const Error &e) {
            if (!lost_lines_)
                progress_.say(fmt::format("{}; the run goes on, and its metrics.jsonl has the lines", e.what()));
            lost_lines_ = true;
        }
    }

    [[noreturn]] void diverged(uint64_t step, const char *what, double value, bool evaluating = false) {
        stop_at(fmt::format("the {} is {} at step {}", what, std::isnan(value) ? "nan" : "infinite", step), step,
                last_.step, evaluating);
    }

    [[noreturn]] void give_up(uint64_t step) {
        const uint64_t row = trainer().withheld_in_a_row();
        stop_at(fmt::format("the updates of steps {} to {} were withheld, as gradients were not finite: {} in a row "
                            "(--give-up-after {})",
                            step - row + 1, step, row, s_.give_up_after),
                step, last_.good);
    }

    /// A scale below 1 makes adjoints smaller than without scaling, so that fp16 loses the small ones.
    [[noreturn]] void give_up_scaling(const StepResult &result) {
        stop_at(fmt::format("the scale of the loss is {} and was below 1 for {} steps in a row, as gradients were not "
                            "finite (--give-up-after {}); --precision bf16 needs no scale",
                            result.loss_scale, result.low_scale_in_a_row, s_.give_up_after),
                result.step, last_.good);
    }

    /// Ends a run whose values are not finite: says which was the first, and how to go on from step `from`.
    [[noreturn]] void stop_at(const std::string &why, uint64_t step, std::optional<uint64_t> from,
                              bool evaluating = false) {
        folder_.write_plot(title());
        end_diverged({trainer(), data_, s_, request_, progress_, folder_.path(), last_, step, evaluating,
                      loader_->position(), resume_words()},
                     why, from);
    }

    std::string last_checkpoint() const {
        if (!last_.step) return "no checkpoint was written before";
        return fmt::format("the last checkpoint in {} is of step {}", folder_.path().string(), *last_.step);
    }

    void validate(uint64_t step) {
        const TraceSpan span("run", "evaluate", int64_t(step));
        std::optional<EvalEvent> e;
        auto stop = [&](size_t done, size_t all) { return progress_.evaluating(step, done, all), stopped(); };
        auto measure = [&] { e = evaluate(trainer(), data_, s_, step, stop); };
        s_.evaluate_ema ? trainer().with_averages(measure) : measure();
        if (!e) return;
        evaluated_ = step;
        if (!std::isfinite(e->val_loss)) diverged(step, "validation loss", e->val_loss, true);
        folder_.record(*e);
        emit(to_json(*e));
        progress_.say(fmt::format("step {}: validation loss {}{}{}", step, loss_text(e->val_loss),
                                  losses_words(e->losses), metric_words(*e)));
        folder_.write_plot(title());
        folder_.write_confusion(title(), *e, data_.class_names);
    }

    /// Ends a run whose data cannot be used any more, after a checkpoint of what was trained. With several processes
    /// there is no checkpoint: it needs all ranks, and others may not have failed.
    [[noreturn]] void data_failed(const Error &e, const char *then) {
        if (const StepResult *last = trainer().rest()) report(*last);
        const uint64_t done = trainer().steps();
        if (processes().size() == 1 && last_.step != done) save(done);
        folder_.write_plot(title());
        fail("{}\n{}. {}{}", e.what(), last_checkpoint(), then, resume_words());
    }

    void save(uint64_t step) {
        const TraceSpan span("checkpoint", "checkpoint", int64_t(step));
        const uint64_t withheld = trainer().withheld_in_a_row();
        const std::optional<uint64_t> good = withheld == 0 ? step : last_.good;
        std::optional<Checkpoint> written;
        try {
            if (processes().rank() > 0) {
                trainer().send_state();
                if (s_.save_ema) trainer().with_averages([] {});
            } else {
                std::vector<CheckpointFile> files = {
                    {"model.safetensors", [&](const fs::path &p) { return trainer().write_parameters(p); }},
                    {"optimizer.safetensors", [&](const fs::path &p) { return trainer().write_state(p); }}};
                if (s_.save_ema)
                    files.push_back({averages_file, [&](const fs::path &p) { return trainer().write_averages(p); }});
                written = folder_.write(
                    {step, position_, withheld, good, must_evaluate(step), &s_, &data_, &request_.program}, files);
            }
        } catch (const NotFiniteWeight &e) {
            if (processes().size() == 1) stop_at(e.what(), step, last_.step);
            throw;
        } catch (const Error &e) {
            fail("{}\nthe checkpoint of step {} was not written; {}. To go on: {}", e.what(), step, last_checkpoint(),
                 resume_words());
        }
        last_ = {step, good, position_};
        if (written) folder_.settle(*written, withheld ? 0 : s_.keep);
    }

    /// Ends a run that has lost a worker. Saves the last whole step, if this process has one.
    [[noreturn]] void end_without(const LostWorker &lost) {
        if (session_ && trainer().settled()) {
            folder_.write_plot(title());
            if (last_.step != trainer().steps() && trainer().withheld_in_a_row() == 0) save(trainer().steps());
        }
        fail("{}; {}. To go on: {}", lost.what(), last_checkpoint(), resume_words());
    }

    int end_early(uint64_t step) {
        progress_.say(
            fmt::format("interrupted after step {}; a checkpoint was written. To go on: {}", step, resume_words()));
        return interrupted_status;
    }

    void finish(uint64_t step) {
        peak_ = std::max(peak_, session_->measure_peak(s_));
        DoneEvent done = done_event(times_, first_step_s_, work_, peak_);
        done.host_waits = waits_.count, done.step_waits = step_waits_.count;
        if (times_.empty())
            progress_.say(fmt::format("the run has its {} steps already; to go on, give a larger --steps", step));
        else
            progress_.say(fmt::format("done: {} step{} in {}; the median of all: {}, {} {}/s{}; {} at most",
                                      times_.count(), times_.count() == 1 ? "" : "s",
                                      clock_text(std::chrono::duration<double>(Clock::now() - began_).count()),
                                      step_time_text(done.median_s), grouped(uint64_t(done.tok_s)),
                                      s_.text ? "tokens" : "rows",
                                      peak_ > 0 ? fmt::format(", {:.0f} % of peak", 100 * done.fraction_of_peak) : "",
                                      human_bytes(peak_memory())));
        if (const uint64_t withheld = trainer().withheld_in_a_row())
            progress_.say(fmt::format("warning: the last {} updates were withheld, as gradients were not finite; the "
                                      "weights are those of step {}",
                                      withheld, step - withheld));
        defer_signals();  // no step is left to stop after
        if (data_.sample && data_.tokenizer && processes().rank() == 0) sample();
        const std::string more = data_.tokenizer ? "; more text: " + sample_command(folder_.path()) : "";
        progress_.say(fmt::format("the run is in {}{}", folder_.path().string(), more));
        emit(to_json(done));
    }

    void sample() {
        const std::string text = short_sample(trainer(), *data_.tokenizer, s_.seed, interrupted, progress_);
        folder_.write_sample(text + "\n");
        progress_.say("\n" + text + "\n");
    }
};

}  // namespace

int run_train(const std::vector<std::string> &arguments) {
    processes();
    Request request = read_request(Command::train, arguments);
    TrainSettings settings = understand(request);
    if (supervised(settings)) return run_supervised(settings, arguments);
    return Training(std::move(request), std::move(settings)).run();
}

}  // namespace cryolite
