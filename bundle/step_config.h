#pragma once
// What a step is made with, beside its model: every setting that a bundle depends on is a member here and a row of
// the table in step_config.cpp. The command's flags, a TOML file's keys, what a generator program is told, a bundle's
// key, what `cache why` says of it and the config.toml of a run all follow from the row.

#include <nlohmann/json_fwd.hpp>

#include "bundle/loss_scale.h"
#include "bundle/number_format.h"
#include "bundle/param_group.h"
#include "bundle/setting.h"

namespace cryolite {

/// Parts that a batch is cut into at most, where gradients are added in a tree: as many workers can share them.
constexpr int most_batch_parts = 8;

struct StepConfig {
    int accumulate = 1;  ///< micro-batches in a step
    std::string precision = "fp32";
    std::string finite_check = "on";  ///< in 16 bits; off: an update is done whatever its gradient, the loss unscaled
    double loss_scale = initial_loss_scale;  ///< of fp16, in the first step
    double loss_scale_growth = loss_scale_numbers[0].value, loss_scale_backoff = loss_scale_numbers[1].value;
    int loss_scale_interval = int(loss_scale_numbers[2].value);  ///< updates in a row before it grows
    double clip = 0;                                             ///< largest norm of the gradient; 0: any
    std::string optimizer = "adamw";
    std::string update = "auto", group = "auto";
    int head_rows = -1;              ///< of a chunk of the head and its loss; 0: whole, -1: as the compiler chooses
    std::string recompute = "auto";  ///< as it was given
    uint64_t budget = 0;             ///< bytes that a step may take, which follow from that; 0: any
    std::string dialect = "halide";
    std::string device = "cpu";
    std::string target = "auto";       ///< what kernels are compiled for (target.h); `export` takes several
    std::string lines = "none";        ///< of the step schedule, as text, after the program's own
    std::string tuned = "none";        ///< lines that a search found, before those of `lines`; auto: to be looked up
    int workers = 1;                   ///< whose gradients are added
    bool deterministic = false;        ///< the same bits for any number of workers
    int parts = 0;                     ///< of a batch, whose gradients are added in a tree; 0: one for each worker
    std::string freeze = "none";       ///< patterns of names of parameters that are not trained, with commas between
    double ema = 0;                    ///< how much of the average of weights stays in a step; 0: none is kept
    std::string param_group = "none";  ///< texts of groups of parameters, with semicolons between

    bool clips() const { return clip > 0; }
    /// The row of its precision; null: it is no format of arrays, as tf32.
    const FormatRow *format() const;
    /// Whether values of 16 bits are stored.
    bool narrow() const { return format() && format()->is_narrow(); }
    bool scales_loss() const { return format() && format()->scales_loss && finite_check == "on"; }
    bool accumulates() const { return accumulate > 1; }
    bool averages() const { return ema > 0; }
    /// What a batch is cut into: each part has its own forward and backward pass.
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

/// A row for each. Those with `flag` have no flag of their own: they follow from that one.
const std::vector<StepSetting> &step_settings();

/// What of a value its bundle is made with: "halide" for the dialect "auto".
std::string bundle_text(const StepSetting &setting, const std::string &text);
/// For one of which a bundle knows only whether it is on: what a program goes by that is told no more.
void turn_on(const StepSetting &setting, StepConfig &config);

/// What of a step its bundle depends on, as its key has it: {"clip": true, "head_rows": -1, ...}.
nlohmann::json bundle_key(const StepConfig &config);
/// The same as arguments of its generator program: {"--clip", "--head-rows", "auto", ...}.
std::vector<std::string> program_arguments(const StepConfig &config);
/// The row of a name in `bundle_key`; null: it is of none.
const StepSetting *find_by_key(const std::string &key);
/// A value there as a flag has it: "auto" for -1.
std::string text_of_key(const StepSetting &setting, const nlohmann::json &value);

/// Why there is no such step yet, whatever the model; empty: there is.
std::string why_not(const StepConfig &config);

}  // namespace cryolite
