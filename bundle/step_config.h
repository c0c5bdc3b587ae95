#pragma once
// The settings of a step, beside its model: each is a member here and a row of the table in step_config.cpp. From the
// row follow the command's flag, the key of a TOML file, the argument of a generator program, the bundle's key, the
// words of `cache why`, and the config.toml of a run.

#include <nlohmann/json_fwd.hpp>

#include "bundle/loss_scale.h"
#include "bundle/number_format.h"
#include "bundle/param_group.h"
#include "bundle/setting.h"

namespace cryolite {

/// The most parts of a batch, where gradients are added in a tree, and so the most workers that can share them.
constexpr int most_batch_parts = 8;

struct StepConfig {
    int accumulate = 1;  ///< micro-batches in a step
    std::string precision = "fp32";
    std::string finite_check = "on";         ///< for 16 bits; off: no update is withheld, and the loss is not scaled
    double loss_scale = initial_loss_scale;  ///< of fp16, in the first step
    double loss_scale_growth = loss_scale_numbers[0].value, loss_scale_backoff = loss_scale_numbers[1].value;
    int loss_scale_interval = int(loss_scale_numbers[2].value);  ///< updates in a row before it grows
    double clip = 0;                                             ///< largest norm of the gradient; 0: any
    std::string optimizer = "adamw";
    std::string update = "auto", group = "auto";
    int head_rows = -1;              ///< rows of a chunk of the head and its loss; 0: whole, -1: the compiler chooses
    std::string recompute = "auto";  ///< as it was given
    uint64_t budget = 0;             ///< bytes that a step may take, which follow from `recompute`; 0: any
    std::string dialect = "halide";
    std::string device = "cpu";
    std::string target = "auto";       ///< what kernels are compiled for (target.h); `export` takes several
    std::string lines = "none";        ///< of the step schedule, as text, after the program's own
    std::string tuned = "none";        ///< lines that a search found, before those of `lines`; auto: to be looked up
    int workers = 1;                   ///< data-parallel replicas, whose gradients are added
    bool deterministic = false;        ///< the same bits for any number of workers
    int parts = 0;                     ///< parts of a batch, whose gradients are added in a tree; 0: one a worker
    std::string freeze = "none";       ///< patterns of names of parameters that are not trained, with commas between
    double ema = 0;                    ///< the decay of an average of the weights, such as 0.999; 0: none is kept
    std::string param_group = "none";  ///< texts of groups of parameters, with semicolons between

    bool clips() const { return clip > 0; }
    /// The row of `precision`; null: it is no format of arrays, such as tf32.
    const FormatRow *format() const;
    /// Whether values of 16 bits are stored.
    bool narrow() const { return format() && format()->is_narrow(); }
    bool scales_loss() const { return format() && format()->scales_loss && finite_check == "on"; }
    bool accumulates() const { return accumulate > 1; }
    bool averages() const { return ema > 0; }
    /// How many parts a batch is cut into: each has its own forward and backward pass.
    int batch_parts() const { return parts ? parts : workers; }
    std::vector<std::string> freeze_patterns() const;
    std::vector<ParamGroup> param_groups() const;
    bool operator==(const StepConfig &) const = default;
};

struct StepSetting : Setting {
    std::variant<bool StepConfig::*, int StepConfig::*, uint64_t StepConfig::*, double StepConfig::*,
                 std::string StepConfig::*>
        member;

    ValueRef of(StepConfig &config) const {
        return std::visit([&](auto at) -> ValueRef { return &(config.*at); }, member);
    }
};

/// A row for each setting. One with `flag` has no flag of its own: its value follows from that flag.
const std::vector<StepSetting> &step_settings();

/// The text of a value that a bundle is made with: "halide" for the dialect "auto".
std::string bundle_text(const StepSetting &setting, const std::string &text);
/// Turns on a setting of which a program is told only that it is on: any value that is not the default will do.
void turn_on(const StepSetting &setting, StepConfig &config);

/// What a bundle depends on in a step, as its key has it: {"clip": true, "head_rows": -1, ...}.
nlohmann::json bundle_key(const StepConfig &config);
/// The same as arguments of its generator program: {"--clip", "--head-rows", "auto", ...}.
std::vector<std::string> program_arguments(const StepConfig &config);
/// The row of a name in `bundle_key`; null: there is none.
const StepSetting *find_by_key(const std::string &key);
/// A value in `bundle_key` as a flag has it: "auto" for -1.
std::string text_of_key(const StepSetting &setting, const nlohmann::json &value);

/// Why such a step is not supported, whatever the model; empty: it is.
std::string why_not(const StepConfig &config);

}  // namespace cryolite
