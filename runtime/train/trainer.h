#pragma once
// Training: weights, optimizer state, steps and evaluation, and their files. Several workers train together, each with
// its device and its part of every batch.

#include <array>
#include <functional>

#include "bundle/loss_scale.h"
#include "runtime/collective/processes.h"
#include "runtime/data/loader.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/worker_threads.h"
#include "runtime/io/error.h"
#include "runtime/train/row_weights.h"
#include "runtime/train/weight_tensors.h"

namespace cryolite {

/// A weight that is to be written is infinite or NaN; the message names it.
struct NotFiniteWeight : Error {
    using Error::Error;
};

/// The results of a step.
struct StepResult {
    uint64_t step = 0;                ///< its number, from 1
    double loss = 0;                  ///< the mean loss
    std::vector<double> terms;        ///< the values of `Plan::terms`, before the model's loss weighs them
    uint64_t withheld_in_a_row = 0;   ///< withheld updates in a row up to this one, as a gradient was not finite
    double loss_scale = 1;            ///< the loss scale that it leaves to the next step; 1: there is none
    uint64_t low_scale_in_a_row = 0;  ///< steps in a row up to this one that left the loss scale below 1
};

class Trainer {
public:
    Trainer(std::shared_ptr<const Bundle> bundle, Device &device)
        : Trainer(std::move(bundle), {&device}, known_processes()) {}
    /// A worker for each device, as many as the bundle is for; or one in each of several processes. Waiting for another
    /// worker throws LostWorker when that one has given no sign of life for `patience` seconds. That holds for the
    /// workers of this process; `processes` have a patience of their own.
    Trainer(std::shared_ptr<const Bundle> bundle, const std::vector<Device *> &devices, Processes &processes,
            double patience = default_patience);

    /// Draws every parameter by its initialisation rule, a pure function of the seed and the parameter's name. Sets the
    /// seed of steps, too.
    void initialise(uint64_t seed);
    /// What a step draws at random (dropout) is a function of this seed and of the step's number.
    void seed_steps(uint64_t seed) { seed_ = seed; }
    /// Sets how files of weights store a parameter of this name: as these parts, or whole where there are none. Until
    /// it is called, all are whole.
    void name_tensors(TensorParts parts) { tensor_parts_ = std::move(parts); }
    /// Loads parameters by name from what TensorFiles reads; `renamed` maps a name in the file to the model's, or to ""
    /// to ignore it. Errors: a tensor is missing, is not the model's or has another shape (name, expected, found);
    /// nothing is changed then. A value is not finite.
    void load_parameters(const fs::path &path, const TensorNames &renamed);

    /// Sets a number that kernels read ("lr", "beta1", ...). False: the optimizer has none of this name. `share`: the
    /// value divided by its largest over the run. A group of parameters with a value of its own gets this share of it.
    bool set(const std::string &scalar, double value, double share = 1);

    /// One optimizer step over `accumulate` micro-batches drawn by `next`. Returns the mean loss; where rows have
    /// different weights, the weighted mean over all rows of the step. Errors: TargetError; no weight has changed then.
    double step(const std::function<const Batch &()> &next, int accumulate);
    /// As `step`. Where the device runs ahead of the host, the step is only started, and the results of the one before
    /// are returned; null: there is none. Valid until the next call.
    const StepResult *advance(const std::function<const Batch &()> &next, int accumulate);
    /// The results of the last step, where `advance` has not returned them; null: it has. Waits for that step.
    const StepResult *rest();
    int unread() const { return unread_; }  ///< steps that were started, whose results are not read
    /// StepResult::terms of the last step that was read.
    const std::vector<double> &terms() const { return result_.terms; }
    uint64_t steps() const { return steps_; }
    void set_steps(uint64_t n) { steps_ = n; }

    /// After LostWorker: whether this process has all parameters and state as after `steps()` steps, and they can be
    /// written.
    bool settled() const;
    /// After LostWorker: whether a lost thread may still use this trainer and its devices, so that they must stay
    /// alive.
    bool left_behind() const { return worker_threads_.left_behind(); }

    /// Does the updates that the step schedule has deferred to the next forward pass. Evaluating, and reading or
    /// writing files of weights, does so by itself.
    void flush();

    /// The model's loss over the first `examples` of a batch (the rest is padding), as of a batch of that size. Where
    /// rows have different weights, it is relative to the mean weight of the rows of `among` (null: of these examples),
    /// so that the mean over batches, weighted by their examples, is that over all their rows. Errors: as
    /// `check_examples`; TargetError.
    double evaluate(const Batch &batch, int examples, const RowWeights *among = nullptr);
    /// The values of `Plan::terms` in the last evaluation; empty: evaluation does not compute them.
    const std::vector<double> &evaluated_terms() const { return evaluated_terms_; }
    /// Adds the rows of these examples to `weights`.
    void count_rows(RowWeights &weights, const Batch &batch, int examples) const;
    /// Throws, naming the layer, where the loss is no mean over rows and `examples` is not a multiple of a worker's
    /// batch.
    void check_examples(int examples) const;
    /// The model's output for the first examples of a batch: [rows, classes] row-major. This process alone computes it.
    std::span<const float> predict(const Batch &batch, int examples);
    int classes() const;
    int batch() const;  ///< sequences or examples in a micro-batch, over all workers
    int rows_per_example() const;
    /// Whether the targets are numbers to predict, not tokens or labels.
    bool predicts_numbers() const { return plan().buffers[size_t(targets_)].type == "float32"; }

    /// Whether the optimizer keeps an average of each weight that is trained.
    bool averages() const { return plan().scalar("ema") >= 0; }
    /// Calls `use` while the weights are their averages (unchanged before the first update), then restores the same
    /// bits. All processes call it together. Errors: no averages are kept.
    void with_averages(const std::function<void()> &use);

    /// Writes or reads row-major values of a parameter, its gradient or its state. A split master is one number here.
    void put(int buffer, std::span<const float> row_major);
    void get(int buffer, std::span<float> row_major);
    /// How many updates were withheld because a gradient was not finite, over all steps of the weights.
    uint64_t withheld();
    /// Withheld updates in a row up to the last step; `set_withheld_in_a_row` restores the number of a checkpoint.
    uint64_t withheld_in_a_row() const { return result_.withheld_in_a_row; }
    void set_withheld_in_a_row(uint64_t n) { result_.withheld_in_a_row = n; }

    /// Whether the loss has a scale.
    bool scales_loss() const { return scaler_ >= 0; }
    /// The loss scale of the next step; 1: there is none. Waits for the device, which StepResult::loss_scale does not.
    double loss_scale() { return scaler_ < 0 ? 1 : double(loss_scaler().scale); }
    /// Sets the loss scale before the first step. Errors: no power of two from 1 to 2^24; the plan has none.
    void set_loss_scale(double scale);
    /// Steps in a row up to the last one that left the loss scale below 1. Waits for the device.
    uint64_t low_scale_in_a_row() { return scaler_ < 0 ? 0 : uint64_t(loss_scaler().steps[1]); }

    /// Resets the optimizer's state, the loss scale and the counts of steps and updates; keeps the weights.
    void forget_steps();
    /// From now on checks the values that every call writes: slow, with the same bits. Clears the results of the last
    /// step.
    void watch_values();
    /// The first value since then, over all workers, that was not finite. The same in every process; waits for all.
    std::optional<NotFinite> first_not_finite();

    /// Writes a file and returns its SHA-256. Errors: NotFiniteWeight.
    std::string write_parameters(const fs::path &path);
    std::string write_state(const fs::path &path);
    /// As `write_parameters`, of the averages of the weights.
    std::string write_averages(const fs::path &path);
    /// Called by a process that writes no files while rank 0 writes both: sends this process's shard of the state.
    void send_state();
    /// Errors: as `check_state`; nothing has changed then.
    void read_state(const fs::path &path);
    /// Changes nothing. Errors: a tensor is missing or has another shape; a count is below 0; the loss scale is one
    /// that no step leaves.
    void check_state(const fs::path &path) const;
    /// The values of `here` in all processes of the run, by rank. Waits for all.
    std::vector<double> of_all(double here);
    /// Whether `here` is true in any process. Waits for all.
    bool any(bool here);

    /// The executor of a worker of this process.
    Executor &executor(int worker = 0) { return *executors_[size_t(worker)]; }
    const Plan &plan() const { return executors_[0]->plan(); }
    /// From now on adds the time of each call of a step to `seconds`; null: off. `busy`: as in Executor::run.
    void profile(std::vector<double> *seconds, bool busy = false) { profile_ = seconds, busy_ = busy; }

private:
    Processes &processes_;
    WorkerThreads worker_threads_;
    std::vector<std::unique_ptr<Collective>>
        collectives_;  ///< by worker of this process; empty: there is only one worker in all
    std::vector<std::unique_ptr<Executor>> executors_;
    bool apart_ = false;                      ///< each worker has a device of its own
    std::vector<std::vector<Share>> shares_;  ///< by buffer of optimizer state in several memories: who has which part
    std::vector<double> scalars_;             ///< those of all parameters, then those of groups, as the buffer has them
    std::vector<double> values_;              ///< by part of a batch
    std::vector<double> evaluated_;           ///< by evaluated buffer, then by part: its sum over examples
    std::vector<double> evaluated_terms_;
    std::vector<double> sums_;  ///< by worker
    RowWeights weights_;        ///< of the step, or of the batch that is evaluated
    std::vector<Batch> held_;   ///< the micro-batches of a step, where the rows of all are counted first
    std::vector<float> output_, row_major_, storage_;
    /// The loss scale as kernels keep it, the same on each worker.
    struct LossScaler {
        float scale = 1;
        std::array<int32_t, 2> steps = {};  ///< updates in a row since it changed; steps in a row that left it below 1
    };
    /// A step that was started and whose results are not read.
    struct Started {
        uint64_t step = 0;
        std::vector<uint64_t> marks;  ///< by worker of this process: the end of the step
        int accumulate = 0;
        std::vector<float> losses;  ///< by worker of this process, its part, micro-batch, the loss and its terms
        std::array<int32_t, 2> updates = {};  ///< done and withheld
        LossScaler scaler;
    };
    std::array<Started, 2> started_;  ///< by the step's number modulo 2: the last two steps
    int unread_ = 0;                  ///< of `started_`
    StepResult result_;
    std::vector<uint16_t> high_, low_;
    TensorParts tensor_parts_;
    void drop_staging();
    bool is_whole_master(int buffer) const;
    std::vector<double> *profile_ = nullptr;
    bool busy_ = false;
    std::vector<FiniteWatch> watches_;  ///< by worker of this process, where values are watched
    uint64_t steps_ = 0, withheld_ = 0, seed_ = 0;
    bool pending_ = false;  ///< updates wait for the next forward pass
    int input_ = -1, targets_ = -1;
    int count_ = -1;   ///< updates done and withheld; -1: none can be withheld
    int mode_ = -1;    ///< the input that tells layers the mode of the pass; -1: no layer reads it
    int scaler_ = -1;  ///< the loss scale, its counters after it; -1: there is none
    double first_scale_ = initial_loss_scale;

    /// What kernels count, as a file of the state stores it.
    struct Counters {
        std::array<int32_t, 2> updates = {};
        LossScaler scaler;
    };
    Counters counters_of(const SafetensorsFile &file) const;
    void fetch_loss_scaler(LossScaler &to);
    LossScaler loss_scaler();
    void put_loss_scaler(const LossScaler &s);

    int first() const { return processes_.rank(); }  ///< number of this process's first worker
    int workers() const { return plan().workers; }   ///< in all processes
    int targets_per_example() const;
    int parts() const { return plan().parts_of_worker(); }  ///< parts of a batch that each worker has
    int own_batch() const { return batch() / plan().batch_parts(); }
    /// The index, among all parts of a batch, of part k of a worker of this process.
    int part_of(int worker, int k) const { return (first() + worker) * parts() + k; }
    void all(const std::function<void(int)> &work);
    void share_state();
    Executor *holder_of(const Share &share);
    void check_size(const Batch &batch) const;
    void upload_constants(Executor &e) const;
    void count(const Batch &batch);
    bool draw_ahead(const std::function<const Batch &()> &next, int accumulate);
    void tell_mean_weights(int worker, const RowWeights &weights);
    void tell_mode(int worker, bool training, int64_t parts = 0);
    void feed(int worker, const Batch &batch, int part);
    void run(int worker, const char *plan, size_t &call);
    void run_all(int worker, const char *plan);
    void run_head(int worker, const char *head);
    void start_step(const std::function<const Batch &()> &next, int accumulate);
    const StepResult *read_step();
    double loss(int worker, int buffer);
    void fetch_losses(int worker, float *to);
    double mean_of(const Started &s, size_t term);
    /// How many of the first `examples` are in this part of the batch.
    int examples_of(int part, int examples) const;
    std::vector<int> evaluated_buffers() const;
    void weigh_rows(int worker, int examples);
    double sum_of_parts();
    void fetch_output(int worker, std::span<float> to);
    std::string write(const fs::path &path, Role role);
    TensorSpec spec_of(int buffer) const;
};

}  // namespace cryolite
