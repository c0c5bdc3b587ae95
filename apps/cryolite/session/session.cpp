#include "apps/cryolite/session/session.h"

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "apps/cryolite/report/notes.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/session/dialects.h"
#include "apps/cryolite/session/memory_choice.h"
#include "apps/cryolite/session/tuned_lines.h"
#include "bundle/target.h"
#include "runtime/cache/tuned_algorithms.h"
#include "runtime/collective/processes.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/make_device.h"
#include "runtime/exec/peak.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"

namespace cryolite {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }
const double process_start = now();

}  // namespace

double since_start() {
    if (const char *text = std::getenv("CRYOLITE_START")) {
        char *end = nullptr;
        const double start = std::strtod(text, &end), passed = now() - start;
        if (end != text && *end == 0 && passed > 0 && passed < 1e6) return passed;
    }
    return now() - process_start;
}

BundleRequest bundle_request(const TrainSettings &s) {
    BundleRequest r{.params = s.params,
                    .step = s,
                    .lines_from = s.schedule.empty() ? s.lines_from : s.schedule.filename().string()};
    if (const int parts = s.batch_parts(); parts > 1) r.params["batch"] = std::to_string(s.param("batch", 1) / parts);
    return r;
}

int threads_of_worker(const TrainSettings &s, const std::vector<int> &cores) {
    if (s.threads > 0) return s.threads;
    return std::max(1, int(cores.size()) / (known_processes().size() > 1 ? 1 : s.workers));
}

BundleResult compile_bundle(const BundleRequest &wanted, const Request &request, const Cache &cache,
                            Progress &progress) {
    defer_signals();
    BundleResult built = get_bundle(
        request.program, wanted, cache,
        [&](int done, int total, int cached) { progress.compiling(done, total, cached); },
        [&](const std::string &words) { progress.preparing(words); });
    if (interrupted()) throw Interrupted("interrupted");
    return built;
}

namespace {

std::string odd_scores(const Plan &plan, const TrainSettings &s) {
    if (s.text) return scores_warning(plan, s.param("vocab", 0), "tokens in the vocabulary");
    return s.numbers_wanted ? "" : scores_warning(plan, s.param("classes", 0), "classes");
}

}  // namespace

std::shared_ptr<const Bundle> open_bundle(TrainSettings &s, const Request &request, Progress &progress, bool trains,
                                          const Emit &emit) {
    // Ctrl-C meanwhile ends the compiler first, and what it half wrote is removed.
    defer_signals();
    const Cache cache(s.cache);
    if (trains) choose_for_memory(s, request, cache, progress);
    const bool looks_up = s.tuned == "auto";
    if (looks_up)
        take_tuned_lines(s, request, cache, threads_of_worker(s, known_processes().cores(core_numbers())), progress);
    BundleRequest wanted = bundle_request(s);
    wanted.any_size = request.command == Command::explain;
    Processes &all = known_processes();
    // All ranks ask together which cores are theirs.
    const int threads = s.dialect == "auto" ? threads_of_worker(s, all.cores(core_numbers())) : 0;
    if (all.rank() > 0) all.barrier();  // rank 0 compiles, the others find it in the cache
    const BundleResult built = [&] {
        try {
            return compile_bundle(wanted, request, cache, progress);
        } catch (const Interrupted &) {
            throw;
        } catch (const Error &e) {
            if (!looks_up || s.tuned == "none" || std::string_view(e.what()).find("tuned:") == std::string_view::npos)
                throw;
            throw Error(
                fmt::format("{}\n`cryolite tune` found these lines before the program changed: forget them with "
                            "cryolite tune {} --forget and the flags of this step, or give --tuned none",
                            e.what(), request.app));
        }
    }();
    auto bundle = std::make_shared<const Bundle>(built.files);
    if (threads > 0)  // rank 0 measures, the others find its records
        bundle = std::make_shared<const Bundle>(built.files, faster_dialects(*bundle, cache, threads, progress));
    if (all.rank() == 0) all.barrier();
    if (trains) check_memory(bundle->plan, s, request);
    all.barrier();  // no rank takes memory before all have checked
    stop_deferring();
    if (s.json) emit(compile_json(built.kernels, built.cached, built.seconds));
    progress.say(fmt::format("kernels: {}, {} ({:.2f} s)", built.kernels,
                             built.cached == built.kernels ? std::string("all from the cache")
                                                           : fmt::format("{} from the cache", built.cached),
                             built.seconds));
    // For a run that is only used, they were printed when it was trained.
    if (trains)
        if (!bundle->plan.loops_cleared)  // what is cleared is not missing
            for (const std::string &note : schedule_notes(bundle->plan)) progress.say(note);
    if (trains || request.command == Command::explain)
        if (const std::string odd = odd_scores(bundle->plan, s); !odd.empty()) progress.say(odd);
    if (trains && request.command == Command::train)
        if (const std::string note = warmup_note(s.rate); !note.empty()) progress.say(note);
    const int asked = s.threads * s.workers, cores = all.size() > 1 ? asked : int(core_numbers().size());
    if (trains && asked > cores)
        progress.say(fmt::format("warning: {} threads on {} core{} wait for each other; --threads {} is as fast or "
                                 "faster",
                                 asked, cores, cores == 1 ? "" : "s", std::max(1, cores / s.workers)));
    return bundle;
}

Session::Session(std::shared_ptr<const Bundle> b, const TrainSettings &s, const WeightFiles &weights)
    : bundle(std::move(b)), workers(s.workers) {
    Processes &all = known_processes();
    const int here = all.size() > 1 ? 1 : workers;
    const std::vector<int> cores = all.cores(core_numbers());
    threads = threads_of_worker(s, cores);
    // Each worker stays on cores of its own, where there are enough of them: its weights and sums stay in their caches.
    const bool apart = workers > 1 && here * threads <= int(cores.size());
    std::vector<Device *> list;
    for (int w = 0; w < here; w++) {
        const auto begin = cores.begin() + (apart ? w * threads : 0);
        const GpuChoice gpu{all.size() > 1 ? all.place_on_host() : w, all.size() > 1};
        devices.push_back(make_device(bundle->plan.device, threads, {begin, begin + (apart ? threads : 0)}, gpu));
        if (devices.back()->gpu())
            devices.back()->use_records(std::make_shared<TunedAlgorithms>(Cache(s.cache).folder()));
        list.push_back(devices.back().get());
    }
    trainer = std::make_unique<Trainer>(bundle, list, all, s.patience);
    trainer->name_tensors([weights, s](const std::string &parameter) { return file_parts(parameter, weights, s); });
}

Session::~Session() {
    if (!trainer || workers == 1 || std::uncaught_exceptions() == 0) return;
    struct Kept {
        std::unique_ptr<Trainer> trainer;
        std::vector<std::unique_ptr<Device>> devices;
    };
    static auto *const kept = new std::vector<Kept>;
    kept->push_back({std::move(trainer), std::move(devices)});
}

std::string Session::threads_in_words() const {
    const std::string each = fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
    if (workers == 1) return each;
    return fmt::format("{} {} of {}", workers, known_processes().size() > 1 ? "processes" : "workers", each);
}

double Session::measure_peak(const TrainSettings &s) const {
    if (bundle->plan.device == "cuda") return 0;                // the peak of a GPU is not known
    const int cores = std::min(own_threads(), usable_cores());  // more threads do not raise the peak
    return cryolite::measure_peak(s, bundle->plan, cores) * known_processes().size();
}

bool peak_is_of_tiles(const TrainSettings &s, const Plan &plan) {
    if (s.device != "cpu" || s.precision == "fp16") return false;
    return s.precision == "bf16" ? multiplies_tiles(s.target) : plan.multiplies_by_tiles();
}

double measure_peak(const TrainSettings &s, const Plan &plan, int threads) {
    return measure_product_peak(threads, s.precision, peak_is_of_tiles(s, plan));
}

std::unique_ptr<Trace> begin_trace(const TrainSettings &s) {
    if (s.trace.empty()) return nullptr;
    const int rank = known_processes().rank(), ranks = known_processes().size();
    Trace::Options options{.process = rank};
    if (ranks > 1) options.name = fmt::format("cryolite, rank {} of {}", rank, ranks);
    fs::path file = s.trace;
    if (rank > 0) file += fmt::format(".rank{}", rank);
    return std::make_unique<Trace>(file, options);
}

std::unique_ptr<Session> open_session(TrainSettings &s, const Request &request, Progress &progress, const Emit &emit) {
    const TraceSpan span("run", "open the bundle");
    auto session = std::make_unique<Session>(open_bundle(s, request, progress, true, emit), s,
                                             request.program.description.weights);
    for (auto &[name, value] : s.numbers) session->trainer->set(name, value);
    session->trainer->set("clip", s.clip);
    session->trainer->set("ema", s.ema);
    if (session->trainer->scales_loss()) {
        session->trainer->set_loss_scale(s.loss_scale);
        session->trainer->set("loss_scale_growth", s.loss_scale_growth);
        session->trainer->set("loss_scale_backoff", s.loss_scale_backoff);
        session->trainer->set("loss_scale_interval", s.loss_scale_interval);
    }
    session->trainer->seed_steps(s.seed);
    if (session->bundle->plan.device == "opencl")  // until the first step is shown
        progress.busy("the driver of OpenCL compiles the kernels");
    return session;
}

std::vector<const PlanCall *> step_calls(const Plan &plan, int accumulate) {
    std::vector<const PlanCall *> calls;
    auto add = [&](const char *name) {
        if (auto at = plan.plans.find(name); at != plan.plans.end())
            for (const PlanCall &c : at->second) calls.push_back(&c);
    };
    for (int run = 0; run < accumulate * plan.parts_of_worker(); run++) {
        add(run == 0 && plan.plans.count(entry::deferred) ? entry::deferred : entry::forward);
        add(plan.backward(run % accumulate, accumulate));
    }
    if (plan.parts) add(entry::step);
    return calls;
}

double step_flops(const Plan &plan, int accumulate) {
    double flops = 0;
    for (const PlanCall *c : step_calls(plan, accumulate))
        flops += c->flops - c->extra_flops;  // work that is done twice counts once
    return flops * plan.workers;
}

StepWork step_work(const Trainer &trainer, int accumulate) {
    return {double(trainer.batch()) * trainer.rows_per_example() * accumulate, step_flops(trainer.plan(), accumulate)};
}

std::vector<double> StepTimes::warm() const {
    if (seconds_.size() <= 4) return seconds_;
    return {seconds_.begin() + 2, seconds_.end()};
}

double StepTimes::best() const {
    const std::vector<double> s = warm();
    return s.empty() ? 0 : *std::min_element(s.begin(), s.end());
}

namespace {
double median_of(std::vector<double> s) {
    if (s.empty()) return 0;
    std::sort(s.begin(), s.end());
    return (s[(s.size() - 1) / 2] + s[s.size() / 2]) / 2;
}
}  // namespace

double StepTimes::median() const { return median_of(warm()); }

double StepTimes::recent() const {
    const size_t few = std::min<size_t>(seconds_.size(), 15);
    return median_of({seconds_.end() - long(few), seconds_.end()});
}

DoneEvent done_event(const StepTimes &times, double first_step_s, const StepWork &work, double peak) {
    DoneEvent e;
    e.first_step_s = first_step_s, e.peak_rss_mb = peak_memory() >> 20;
    if (times.empty()) return e;
    e.best_s = times.best(), e.median_s = times.median();
    e.tok_s = work.tokens / e.median_s, e.best_tok_s = work.tokens / e.best_s;
    e.fraction_of_peak = peak > 0 ? work.flops / e.median_s / (peak * 1e9) : 0;
    return e;
}

}  // namespace cryolite
