#pragma once

#include <string>
#include <vector>

namespace cryolite {

/// One way to run the step: flags on top of what was given.
struct TimedVariant {
    std::string name;
    std::vector<std::string> flags;
    bool half = false;  ///< with half of the memory for activations that its group's first variant has
};

/// Variants that take turns; the first is what the others are compared with.
struct AblationGroup {
    std::string name;
    std::vector<TimedVariant> variants;
};

/// The groups of one number format or, if `precision` is empty, of each.
std::vector<AblationGroup> ablation_groups(const std::string &precision);

/// bench --ablate: times a step with every directive of the step schedule on and off and, in 16-bit formats, with and
/// without loss scaling and the check that gradients are finite. It does so at 32, 64, 256 and 1024 rows, or at those
/// of --context; in each format, or in that of --precision; in as many rounds of three steps as --steps says, or 3.
/// Returns the exit status. `arguments`: those of bench, without --ablate.
int run_ablation(const std::vector<std::string> &arguments);

}  // namespace cryolite
