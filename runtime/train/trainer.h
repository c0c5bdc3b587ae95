#pragma once
// Training: weights, optimizer state, steps, evaluation, and all of it to and from files. Several workers, each with
// its
// device and its part of every batch, do it together.

#include <array>
#include <functional>

#include "bundle/loss_scale.h"
#include "runtime/collective/processes.h"
#include "runtime/data/loader.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/worker_threads.h"
#include "runtime/files/safetensors.h"
#include "runtime/io/error.h"
#include "runtime/train/row_weights.h"

namespace cryolite {

/// A weight that is to be written is infinite or no number; it is named.
struct NotFiniteWeight : Error {
    using Error::Error;
};

/// A tensor of a file that is a part of a parameter: its parts lie one after another along its outermost extent, in
/// proportion to their shares.
struct TensorPart {
    std::string name;
    int64_t share = 1;
};

/// What a step came to.
struct StepResult {
    uint64_t step = 0;               ///< its number, from 1
    double loss = 0;                 ///< the mean loss
    std::vector<double> terms;       ///< what each of `Plan::terms` was: as the model's loss has it before it weighs it
    uint64_t withheld_in_a_row = 0;  ///< updates up to this one, because a gradient was not finite
    double loss_scale = 1;           ///< the factor of the loss that it leaves to the next step; 1 where there is none
    uint64_t low_scale_in_a_row = 0;  ///< steps up to this one that have left it below 1
};

class Trainer {
public:
    Trainer(std::shared_ptr<const Bundle> bundle, Device &device)
        : Trainer(std::move(bundle), {&device}, known_processes()) {}
    /// A worker for each device, as many as the bundle is for; or one in each of several processes. Whatever waits for
    /// another worker throws LostWorker when that one has given no sign of life for `patience` seconds (of this
    /// process;
    /// `processes` have their own).
    Trainer(std::shared_ptr<const Bundle> bundle, const std::vector<Device *> &devices, Processes &processes,
            double patience = default_patience);

    /// Draws every parameter by its rule: a pure function of the seed and the parameter's name. Steps have this seed,
    /// too.
    void initialise(uint64_t seed);
    /// What a step draws at random (dropout) follows from this, and from the number of the step.
    void seed_steps(uint64_t seed) { seed_ = seed; }
    /// How the files of weights have parameters: each, by its name, as these parts; none: whole. Until it is called,
    /// all are whole.
    void name_tensors(std::function<std::vector<TensorPart>(const std::string &parameter)> parts) {
        file_names_ = std::move(parts);
    }
    /// Loads parameters by name from what TensorFiles reads; `renamed` maps a name in the file to ours ("" : ignore
    /// it). Errors: a tensor that is missing, one that the model has not, or one of another shape (name, expected,
    /// found); nothing is changed then. One with a value that is not finite.
    void load_parameters(const fs::path &path, const std::function<std::string(const std::string &)> &renamed);

    /// Sets a number that kernels read ("lr", "beta1", ...). False where the optimizer has none of this name. Groups of
    /// parameters that have their own get this share of it: where it goes up and down, how far it is from its largest.
    bool set(const std::string &scalar, double value, double share = 1);

    /// One optimizer step over micro-batches drawn by `next`, `accumulate` of them. Returns the mean loss; where rows
    /// count
    /// differently, that of all rows of the step. Errors: TargetError; no weight has changed then.
    double step(const std::function<const Batch &()> &next, int accumulate);
    /// As `step`, but where the device runs ahead of the host's reading, the step is only started, and this is what the
    /// one before came to; null: there is none. Valid until the next call.
    const StepResult *advance(const std::function<const Batch &()> &next, int accumulate);
    /// What the last step came to, where `advance` has not said so; null: it has. Waits for that step.
    const StepResult *rest();
    int unread() const { return unread_; }  ///< steps that were started and not read
    /// StepResult::terms of the last step that was read.
    const std::vector<double> &terms() const { return result_.terms; }
    uint64_t steps() const { return steps_; }
    void set_steps(uint64_t n) { steps_ = n; }

    /// After LostWorker: whether parameters and state are those after `steps()` steps, all of them here, and can be
    /// written.
    bool settled() const;
    /// After LostWorker: whether a thread that is lost may still use this trainer and its devices, so that they must
    /// stay.
    bool left_behind() const { return worker_threads_.left_behind(); }

    /// Does the updates that the step schedule has put off to the next forward pass. Evaluating, and reading or writing
    /// weights, does so by itself.
    void flush();

    /// The model's loss over the first `examples` of a batch (the rest is padding), as a batch of so many would have
    /// it; where
    /// rows count differently, over what a row `among` more counts on average (null: these alone), so that the mean
    /// over
    /// batches, by examples, is that of all their rows. Errors: as `check_examples`; TargetError.
    double evaluate(const Batch &batch, int examples, const RowWeights *among = nullptr);
    /// What each of `Plan::terms` was in the last evaluation; none: it has not told them.
    const std::vector<double> &evaluated_terms() const { return evaluated_terms_; }
    /// Counts the rows of these examples.
    void count_rows(RowWeights &weights, const Batch &batch, int examples) const;
    /// Throws, naming the layer, where the loss is no mean over rows and so many examples are not whole batches of
    /// workers.
    void check_examples(int examples) const;
    /// The model's output for the first examples of a batch: [rows, classes] row-major. In this process alone.
    std::span<const float> predict(const Batch &batch, int examples);
    int classes() const;
    int batch() const;  ///< sequences or examples in a micro-batch, over all workers
    int rows_per_example() const;
    /// Whether the targets are numbers to predict, not tokens or labels.
    bool predicts_numbers() const { return plan().buffers[size_t(targets_)].type == "float32"; }

    /// Whether the optimizer keeps an average of each weight that is trained.
    bool averages() const { return plan().scalar("ema") >= 0; }
    /// Calls `use` while the weights are their averages, after which they are what they were, bit by bit; as they are
    /// before the first update. In all processes together. Errors: no averages are kept.
    void with_averages(const std::function<void()> &use);

    /// Row-major values of a parameter, its gradient or its state. A split master is one number here.
    void put(int buffer, std::span<const float> row_major);
    void get(int buffer, std::span<float> row_major);
    /// Updates that were withheld, in the life of the weights, because a gradient was not finite.
    uint64_t withheld();
    /// Those of the last steps, in a row, up to now; `set_withheld_in_a_row` goes on with the number of a checkpoint.
    uint64_t withheld_in_a_row() const { return result_.withheld_in_a_row; }
    void set_withheld_in_a_row(uint64_t n) { result_.withheld_in_a_row = n; }

    /// Whether the loss has a scale.
    bool scales_loss() const { return scaler_ >= 0; }
    /// The factor of the loss in the next step; 1 where there is none. Waits for the device, which StepResult does not.
    double loss_scale() { return scaler_ < 0 ? 1 : double(loss_scaler().scale); }
    /// What it is before the first step. Errors: no power of two from 1 to 2^24; the plan has none.
    void set_loss_scale(double scale);
    /// The last steps, in a row, that have left it below 1. Waits, too.
    uint64_t low_scale_in_a_row() { return scaler_ < 0 ? 0 : uint64_t(loss_scaler().steps[1]); }

    /// The optimizer's state, and the counts of steps and updates, are as before the first step; the weights are not.
    void forget_steps();
    /// From now on every call is followed by a look at what it wrote: slow, and the same bits. The results of the last
    /// step are gone.
    void watch_values();
    /// The first value since then, over all workers, that was not finite. The same in every process; waits for all.
    std::optional<NotFinite> first_not_finite();

    /// Errors: NotFiniteWeight.
    std::string write_parameters(const fs::path &path);
    std::string write_state(const fs::path &path);
    /// As the parameters' file, of their averages.
    std::string write_averages(const fs::path &path);
    /// What a process that writes no files does while rank 0 writes both: sends its shard of the state.
    void send_state();
    /// Errors: as `check_state`; nothing has changed then.
    void read_state(const fs::path &path);
    /// Changes nothing. Errors: a tensor that is missing or of another shape; a count below 0; a scale of the loss that
    /// no step leaves.
    void check_state(const fs::path &path) const;
    /// The value of every process of the run. Waits for all.
    std::vector<double> of_all(double here);
    /// Whether it is so in any of them.
    bool any(bool here);

    /// That of a worker of this process.
    Executor &executor(int worker = 0) { return *executors_[size_t(worker)]; }
    const Plan &plan() const { return executors_[0]->plan(); }
    /// Adds the time of each call of the next steps; null: off. `busy`: as Executor::run has it.
    void profile(std::vector<double> *seconds, bool busy = false) { profile_ = seconds, busy_ = busy; }

private:
    Processes &processes_;
    WorkerThreads worker_threads_;
    std::vector<std::unique_ptr<Collective>>
        collectives_;  ///< by worker of this process; none where there is one in all
    std::vector<std::unique_ptr<Executor>> executors_;
    bool apart_ = false;                      ///< each worker has a device of its own
    std::vector<std::vector<Share>> shares_;  ///< by buffer: of optimizer state in several memories
    std::vector<double> scalars_;             ///< those of all parameters, then those of groups, as the buffer has them
    std::vector<double> values_;              ///< by part of a batch
    std::vector<double> evaluated_;           ///< by what is told, then by part: its sum over examples
    std::vector<double> evaluated_terms_;
    std::vector<double> sums_;  ///< by worker
    RowWeights weights_;        ///< of the step, or of the batch that is evaluated
    std::vector<Batch> held_;   ///< the micro-batches of a step, where all are counted first
    std::vector<float> output_, row_major_, storage_;
    /// As kernels keep it, each worker the same.
    struct LossScaler {
        float scale = 1;
        std::array<int32_t, 2> steps = {};  ///< updates in a row since it changed; steps in a row that left it below 1
    };
    /// A step whose results are on their way.
    struct Started {
        uint64_t step = 0;
        std::vector<uint64_t> marks;  ///< by worker of this process: the end of the step
        int accumulate = 0;
        std::vector<float> losses;  ///< by worker of this process, its part, micro-batch, the loss and its terms
        std::array<int32_t, 2> updates = {};  ///< done and withheld
        LossScaler scaler;
    };
    std::array<Started, 2> started_;  ///< by the step's number: the last one, and that before
    int unread_ = 0;                  ///< of them
    StepResult result_;
    std::vector<uint16_t> high_, low_;
    std::function<std::vector<TensorPart>(const std::string &)> file_names_;
    void drop_staging();
    bool is_whole_master(int buffer) const;
    std::vector<double> *profile_ = nullptr;
    bool busy_ = false;
    std::vector<FiniteWatch> watches_;  ///< by worker of this process, where values are watched
    uint64_t steps_ = 0, withheld_ = 0, seed_ = 0;
    bool pending_ = false;  ///< updates wait for the next forward pass
    int input_ = -1, targets_ = -1;
    int count_ = -1;   ///< updates done and withheld; -1: none can be
    int mode_ = -1;    ///< the input that tells layers of the pass; -1: none asks
    int scaler_ = -1;  ///< the scale of the loss, its counters after it; -1: it has none
    double first_scale_ = initial_loss_scale;

    /// What kernels count, as a file of the state has it.
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
    int parts() const { return plan().parts_of_worker(); }  ///< of a batch, that each worker has
    int own_batch() const { return batch() / plan().batch_parts(); }
    /// Of a worker of this process its part number k, among all parts of a batch.
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
    /// Of so many examples, those of a worker's part of the batch.
    int examples_of(int part, int examples) const;
    std::vector<int> evaluated_buffers() const;
    void weigh_rows(int worker, int examples);
    double sum_of_parts();
    void fetch_output(int worker, std::span<float> to);
    std::string write(const fs::path &path, Role role);
    TensorShape shape_of(int buffer) const;
    std::vector<TensorSpec> parts_of(int buffer) const;
};

}  // namespace cryolite
