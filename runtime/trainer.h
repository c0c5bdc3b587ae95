#pragma once
// Training on one device: weights, optimizer state, steps, evaluation, and all of it to and from files.

#include <functional>

#include "runtime/data/loader.h"
#include "runtime/executor.h"
#include "runtime/safetensors.h"

namespace cryolite {

class Trainer {
public:
    Trainer(std::shared_ptr<const Bundle> bundle, Device &device);

    /// Draws every parameter by its rule: a pure function of the seed and the parameter's name.
    void initialise(uint64_t seed);
    /// Loads parameters by name; `renamed` maps a name in the file to ours ("" : ignore it). Errors: a tensor that is
    /// missing, one that the model has not, or one of another shape (name, expected, found).
    void load_parameters(const fs::path &path, const std::function<std::string(const std::string &)> &renamed);

    /// Sets a number that kernels read ("lr", "beta1", ...). False where the optimizer has none of this name.
    bool set(const std::string &scalar, double value);

    /// One optimizer step over micro-batches drawn by `next`, `accumulate` of them. Returns the mean loss.
    double step(const std::function<const Batch &()> &next, int accumulate);
    uint64_t steps() const { return steps_; }
    void set_steps(uint64_t n) { steps_ = n; }

    /// Does the updates that the step schedule has put off to the next forward pass. Evaluating, and reading or writing
    /// weights, does so by itself.
    void flush();

    /// Mean loss over `rows` of the batch's rows (the rest is padding).
    double evaluate(const Batch &batch, int rows);
    /// The model's output for a batch: [rows, classes] row-major.
    std::span<const float> predict(const Batch &batch);
    int classes() const;
    int batch() const;  ///< sequences or examples in a micro-batch
    int rows_per_example() const;

    /// Row-major values of a parameter, its gradient or its state. The two halves of a weight are one number here.
    void put(int buffer, std::span<const float> row_major);
    void get(int buffer, std::span<float> row_major);
    /// Updates that were withheld, in the life of the weights, because a gradient was not finite.
    uint64_t withheld();

    /// Errors: a weight that is not finite, by name.
    std::string write_parameters(const fs::path &path);
    std::string write_state(const fs::path &path);
    void read_state(const fs::path &path);

    Executor &executor() { return executor_; }
    const Plan &plan() const { return executor_.plan(); }
    /// Adds the time of each call of the next steps; null: off.
    void profile(std::vector<double> *seconds) { profile_ = seconds; }

private:
    Executor executor_;
    std::vector<double> scalars_;
    std::vector<float> output_, row_major_, storage_, losses_;
    std::vector<uint16_t> half_, remainder_;
    std::vector<double> *profile_ = nullptr;
    uint64_t steps_ = 0;
    bool pending_ = false;  ///< updates wait for the next forward pass
    int input_ = -1, targets_ = -1;
    int count_ = -1;        ///< updates done and withheld; -1: none can be

    void feed(const Batch &batch);
    void run(const char *plan, size_t &call);
    double loss();
    void fetch_output();
    std::string write(const fs::path &path, const std::string &role);
    void read(int buffer, const SafetensorsFile &file, const TensorEntry &entry);
    TensorShape shape_of(int buffer) const;
};

}  // namespace cryolite
