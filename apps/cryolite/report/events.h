#pragma once
// The JSON lines of --json and metrics.jsonl: what scripts read, so their fields and digits are a
// contract (apps/cryolite/README.md).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

struct StepEvent {
    uint64_t step = 0;  ///< from 1
    double loss = 0;    ///< mean over micro-batches, before the update
    double tok_s = 0, step_s = 0, lr = 0;
    uint64_t withheld = 0;  ///< updates in a row, up to this step's, withheld because a gradient was not finite
    std::vector<std::pair<std::string, double>> losses =
        {};                 ///< those that the loss is made of, where these are several, and the model's metrics
    double loss_scale = 0;  ///< of the next step; 0: the loss is not scaled
};

struct EvalEvent {
    uint64_t step = 0;
    double val_loss = 0;
    std::optional<double> accuracy = {};  ///< of classifiers
    std::optional<double> rmse = {};      ///< where numbers are predicted: sqrt(mean of squared errors), in their unit
    std::optional<double> r2 =
        {};                    ///< 1 - sum of squared errors / that of the mean's; none where all targets are equal
    bool of_averages = false;  ///< of the weights' averages, not of the weights
    size_t batches = 0, of_batches = 0;    ///< evaluated, of all; 0: all were
    int classes = 0;                       ///< of `confusion`
    std::vector<uint64_t> confusion = {};  ///< of classifiers: rows by label and answer, for a picture; not in the line
    std::vector<std::pair<std::string, double>> losses = {};  ///< as a step's: with the model's metrics
};
/// ", accuracy 98.61 %", ", RMSE 0.123, R2 0.987", ", of 20 of 435 batches"; empty: there is nothing beside the loss.
std::string metric_words(const EvalEvent &e);

/// Counts how often the host waited for the device, from the third step on. The first two steps load kernels and
/// capture graphs, and wait for that.
struct HostWaits {
    std::optional<uint64_t> count = std::nullopt;

    /// `waits`: as Device::waits or Device::step_waits counts them.
    void after_step(std::optional<uint64_t> waits) {
        if (waits && ++steps_ <= 2) before_ = *waits;
        if (waits) count = *waits - before_;
    }

private:
    uint64_t steps_ = 0, before_ = 0;
};

struct DoneEvent {
    double first_step_s = 0;  ///< from the script's start to the end of the first step
    double best_s = 0, median_s = 0, tok_s = 0, best_tok_s = 0;
    uint64_t peak_rss_mb = 0;
    double fraction_of_peak = 0;
    std::optional<uint64_t> host_waits = std::nullopt;  ///< as HostWaits counts them: for all that was started
    std::optional<uint64_t> step_waits = std::nullopt;  ///< for the step before
};

std::string compile_json(int kernels, int cached, double seconds);
std::string to_json(const StepEvent &e);
std::string to_json(const EvalEvent &e);
std::string to_json(const DoneEvent &e);
std::string peer_json(const std::string &name, double best_s, double median_s, double ratio, uint64_t peak_rss_mb);

/// Nobody reads stdout any more: it is closed, or its reader went away.
struct NoReader : Error {
    using Error::Error;
};

/// Writes one line to stdout, at once, from rank 0 alone. Errors: NoReader, or another Error, as on a full disk. Then a
/// part of the line may be there, and the next one begins on a line of its own.
void print_line(const std::string &json);

}  // namespace cryolite
