// cryolite bench: the time of a step, kernel by kernel on request, and beside PyTorch's.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/explain/ablate.h"
#include "apps/cryolite/peers/peers.h"
#include "apps/cryolite/report/kernel_times.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/inputs/random_batches.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/report/cost_model.h"
#include "apps/cryolite/report/units.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/tuned_lines.h"
#include "apps/cryolite/tune/search.h"
#include "runtime/collective/processes.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/exec/peak.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"

namespace cryolite {

namespace {

class Bench {
public:
    explicit Bench(const std::vector<std::string> &arguments)
        : request_(read_request(Command::bench, arguments)), s_(understand(request_)) {
        for (const std::string &note : idle_flag_notes(request_)) progress_.say(note);
        if (s_.peers && request_.program.description.peer.empty())
            fail_usage("--peers: {} names no PyTorch script that does the same work, as gpt does", request_.app);
        if (s_.peers && s_.profile)
            fail_usage("--profile and --peers: choose one, as timing every kernel slows the steps");
        if (s_.peers && s_.accumulate > 1) fail_usage("--peers compares single micro-batches: leave out --accumulate");
        if (s_.peers && s_.precision == "fp16")
            fail_usage("--peers compares fp32 and bf16: leave out --precision fp16");
        if (s_.peers && s_.finite_check != "on")
            fail_usage("--peers compares steps as they are trained with: leave out --finite-check off");
        if (s_.peers && s_.freeze != "none")
            fail_usage("--peers trains every parameter in PyTorch: leave out --freeze");
        if (s_.peers && s_.param_group != "none")
            fail_usage("--peers trains all parameters at one rate in PyTorch: leave out --param-group");
        if (s_.peers && known_processes().size() > 1)
            fail_usage("--peers under mpirun: PyTorch would run in every process; use --workers N without mpirun");
        processes().set_patience(s_.patience);
        s_.validation.clear();
        trace_ = begin_trace(s_);
        data_ = s_.data.empty() ? random_data(s_, request_) : open_data(s_, request_);
    }

    int run() {
        session_ = open_session(s_, request_, progress_);
        begin_weights(trainer(), s_, request_);
        loader_ =
            std::make_unique<Loader>(s_.data.empty() ? random_batches(trainer().plan(), s_.seed) : data_.source(s_));
        work_ = step_work(trainer(), s_.accumulate);
        describe();
        defer_signals(after_step);
        for (int k = 0; k < 2; k++) step(false);
        peak_ = session_->measure_peak(s_);
        return s_.peers ? with_peers() : alone();
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr const char *after_step = "\nstopping after this step; once more stops at once\n";
    Request request_;
    TrainSettings s_;
    std::unique_ptr<Trace> trace_;
    RunData data_;
    Progress progress_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Loader> loader_;
    StepTimes times_, waits_;  ///< waits_: the share of a step in which threads wait
    std::vector<double> kernels_;
    StepWork work_;
    double peak_ = 0, first_step_s_ = 0;
    Clock::time_point began_ = Clock::now();

    Trainer &trainer() { return *session_->trainer; }

    void describe() {
        progress_.say(fmt::format("{}: {} parameters, {} {} a step, {}, {}, {}, {}", model_name(request_),
                                  grouped(uint64_t(trainer().plan().parameters())), grouped(uint64_t(work_.tokens)),
                                  s_.text ? "tokens" : "rows", s_.optimizer, s_.precision, session_->threads_in_words(),
                                  data_.name));
    }

    void step(bool timed) {
        if (interrupted()) throw Interrupted("interrupted");
        const uint64_t index = trainer().steps();
        const double lr = s_.rate.at(timed ? index - 2 : 0);
        trainer().set("lr", lr);
        const auto start = Clock::now();
        const double loss = trainer().step([&]() -> const Batch & { return loader_->next(); }, s_.accumulate);
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        if (index == 0) first_step_s_ = since_start();
        if (trace_) trace_->keep_up();
        if (!timed) return;
        times_.add(seconds);
        const StepEvent e{times_.count(), loss, work_.tokens / seconds, seconds, lr, trainer().withheld_in_a_row()};
        if (s_.json) print_line(to_json(e));
        const double passed = std::chrono::duration<double>(Clock::now() - began_).count();
        progress_.step({e, s_.steps(), peak_ > 0 ? work_.flops / seconds / (peak_ * 1e9) : 0,
                        passed / double(e.step) * double(s_.steps() - e.step), s_.text ? "tok" : "rows"});
    }

    int alone() {
        began_ = Clock::now();
        Device &device = trainer().executor().device();
        for (uint64_t k = 0; k < s_.steps(); k++) {
            const double idle = device.idle_seconds();
            const auto start = Clock::now();
            step(true);
            const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
            waits_.add((device.idle_seconds() - idle) / device.threads() / seconds);
        }
        if (s_.profile) {  // kernel by kernel, each alone: after the steps that count
            trainer().profile(&kernels_);
            for (uint64_t k = 0; k < s_.steps(); k++) step(false);
        }
        finish();
        return 0;
    }

    void finish() {
        if (trace_) progress_.say(trace_->finish());
        peak_ = std::max(peak_, session_->measure_peak(s_));
        if (s_.profile) keep_times();
        if (s_.profile)
            progress_.say(
                kernel_table(trainer().plan(), kernels_, s_.accumulate, times_.count()) +
                fmt::format("\nof the median step, threads waited for each other {:.1f} %, of the best {:.1f} %",
                            100 * waits_.median(), 100 * waits_.best()));
        const DoneEvent done = done_event(times_, first_step_s_, work_, peak_);
        progress_.say(fmt::format(
            "cryolite: best {}, median {}, {} {}/s{}, {:.0f} MB", milliseconds(done.best_s),
            milliseconds(done.median_s), grouped(uint64_t(done.tok_s)), s_.text ? "tokens" : "rows",
            peak_ > 0 ? fmt::format(", {:.0f} % of {:.0f} GFLOP/s", 100 * done.fraction_of_peak, peak_) : "",
            1e-6 * double(peak_memory())));
        if (s_.json) print_line(to_json(done));
    }

    /// Keeps the times of kernels that had none on this machine, for `explain --html` and for searches.
    void keep_times() {
        const Plan &plan = trainer().plan();
        if (plan.device != "cpu" || plan.workers > 1 || times_.count() == 0) return;
        SearchRecords records(Cache(s_.cache).folder(),
                              search_machine(threads_of_worker(s_, core_numbers()), s_.device));
        if (!records.hindrance().empty()) return;
        const std::vector<const PlanCall *> calls = step_calls(plan, s_.accumulate);
        std::map<std::string, int> count;
        CallTimes taken;
        for (size_t i = 0; i < calls.size() && i < kernels_.size(); i++) {
            if (calls[i]->kernel < 0) continue;
            const std::string key = cost_key(plan.kernels[size_t(calls[i]->kernel)]);
            count[key]++, taken.seconds[key] += kernels_[i] / double(times_.count());
        }
        std::vector<StepKernel> kernels;
        for (const auto &[key, n] : count) kernels.push_back({.key = key, .calls = n}), taken.seconds[key] /= n;
        remember_times(records, kernels, taken);
    }

    /// Cryolite and its peers run in rounds by turns, so that other load on the machine meets all of them.
    int with_peers() {
        constexpr uint64_t rounds = 3;
        const uint64_t steps = (s_.steps() + rounds - 1) / rounds;
        defer_signals("\nstopping; once more stops at once\n");  // PyTorch may be installed first
        Peers peers(s_, request_.program.description.peer, session_->own_threads(), progress_);
        defer_signals(after_step);
        began_ = Clock::now();
        for (uint64_t r = 0; r < rounds; r++) {
            if (r > 0) step(false);  // not timed, as the steps of the others have emptied the caches
            for (uint64_t k = 0; k < steps && times_.count() < s_.steps(); k++) step(true);
            peers.round(steps);
        }
        finish();
        for (const PeerResult &p : peers.results()) {
            const double ratio = p.median_s / times_.median();
            progress_.say(fmt::format("{}: best {}, median {}; cryolite is {:.2f} "
                                      "times as fast by the best, {:.2f} by the median; {} at most",
                                      p.name, milliseconds(p.best_s), milliseconds(p.median_s),
                                      p.best_s / times_.best(), ratio, human_bytes(p.peak_rss_mb << 20)));
            if (s_.json) print_line(peer_json(p.name, p.best_s, p.median_s, ratio, p.peak_rss_mb));
        }
        if (!peers.missing().empty()) progress_.say(peers.missing());
        return peers.missing().empty() ? 0 : 1;
    }
};

}  // namespace

int run_bench(const std::vector<std::string> &arguments) {
    std::vector<std::string> rest = arguments;
    if (std::erase(rest, "--ablate")) return run_ablation(rest);
    processes();
    return Bench(arguments).run();
}

}  // namespace cryolite
