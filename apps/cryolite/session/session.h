#pragma once
// From a request to something that trains: the program's bundle, a device, a trainer on it.

#include <functional>
#include <memory>

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/inputs/init_file.h"
#include "apps/cryolite/session/settings.h"
#include "runtime/device/device.h"
#include "runtime/system/trace.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// The files of a bundle, compiled now or found in the cache. It may be for another processor. Ctrl-C ends the compiler
/// first, and what it half wrote is removed; signals stay deferred.
BundleResult compile_bundle(const BundleRequest &wanted, const Request &request, const Cache &cache,
                            Progress &progress);

/// The bundle of these settings, compiled now or found in the cache. `trains`: chooses what fits into memory
/// (memory_choice.h), and prints which layers have no loop schedule. `emit`: gets the compile event, if --json is
/// given.
using Emit = std::function<void(const std::string &json)>;
std::shared_ptr<const Bundle> open_bundle(TrainSettings &settings, const Request &request, Progress &progress,
                                          bool trains = true, const Emit &emit = print_line);

struct Session {
    std::shared_ptr<const Bundle> bundle;
    std::vector<std::unique_ptr<Device>> devices;  ///< one for each worker of this process
    std::unique_ptr<Trainer> trainer;
    int workers = 1;  ///< in all processes
    int threads = 1;  ///< of each

    /// `weights`: how files of other programs, and so this trainer's, split parameters.
    Session(std::shared_ptr<const Bundle> bundle, const TrainSettings &settings, const WeightFiles &weights);
    /// After a failure of several workers it frees nothing: a worker that hangs, or a message of another process, may
    /// still write there. The process ends.
    ~Session();
    int own_threads() const { return threads * int(devices.size()); }
    /// "2 workers of 1 thread"
    std::string threads_in_words() const;
    /// The peak of all workers in the format of a run's products, in 1e9 FLOP/s; 0: not known, of a GPU.
    double measure_peak(const TrainSettings &settings) const;
};

/// A session that trains, with what does not change in a run: the optimizer's numbers, the clipping norm and
/// the seed of steps.
std::unique_ptr<Session> open_session(TrainSettings &settings, const Request &request, Progress &progress,
                                      const Emit &emit = print_line);

/// Begins the trace that --trace asks for, before anything else is done; null: none is wanted. Each rank of mpirun has
/// a file, FILE and FILE.rank1, ... Errors: as `Trace`.
std::unique_ptr<Trace> begin_trace(const TrainSettings &settings);

/// FLOPs of a step over all workers, without what is rematerialised: for the fraction of the machine's peak.
double step_flops(const Plan &plan, int accumulate);

/// What a step of all workers does.
struct StepWork {
    double tokens = 0;  ///< or rows of a table
    double flops = 0;   ///< as `step_flops` has them
};
StepWork step_work(const Trainer &trainer, int accumulate);

/// The calls of one step, in the order in which they run.
std::vector<const PlanCall *> step_calls(const Plan &plan, int accumulate);

/// Times of the steps of a run.
class StepTimes {
public:
    void add(double seconds) { seconds_.push_back(seconds); }
    bool empty() const { return seconds_.empty(); }
    size_t count() const { return seconds_.size(); }
    /// The best and the median time. If there are more than four steps, the first two do not count, as they touch
    /// memory for the first time.
    double best() const;
    double median() const;
    double recent() const;  ///< median of the last few

private:
    std::vector<double> seconds_;
    std::vector<double> warm() const;
};

/// `peak`: FLOP/s of the machine, in 1e9.
DoneEvent done_event(const StepTimes &times, double first_step_s, const StepWork &work, double peak);

/// Seconds since the script began (CRYOLITE_START), or since this process did.
double since_start();

/// Whether a step is compared with the peak of tiles: in bf16 where the target has them, as libraries use them too; in
/// fp32 where a kernel of the plan multiplies by them.
bool peak_is_of_tiles(const TrainSettings &settings, const Plan &plan);

/// The peak of this machine in the way in which a step's products are multiplied, in 1e9 FLOP/s.
double measure_peak(const TrainSettings &settings, const Plan &plan, int threads);

/// Threads of each worker, on the cores of this process.
int threads_of_worker(const TrainSettings &settings, const std::vector<int> &cores);

/// What the generator program is asked for.
BundleRequest bundle_request(const TrainSettings &settings);

}  // namespace cryolite
