#pragma once

#include <string>
#include <vector>

namespace cryolite {

/// One way to run the step: flags on top of what was given.
struct TimedVariant {
    std::string name;
    std::vector<std::string> flags;
    bool half = false;  ///< as the first of its group, with half of the memory for activations
};

/// Variants that take turns; the first is what the others are compared with.
struct AblationGroup {
    std::string name;
    std::vector<TimedVariant> variants;
};

/// Of one format where that is named, else of each.
std::vector<AblationGroup> ablation_groups(const std::string &precision);

/// bench --ablate: every directive of the step schedule on and off, and in 16 bits the check of gradients with the
/// scale of the loss, at 32, 64, 256 and 1024 rows, or at those of --context; in each format, or in that of
/// --precision; in as many rounds of three steps as --steps says, or 3. Returns the exit status. `arguments`: those of
/// bench, without --ablate.
int run_ablation(const std::vector<std::string> &arguments);

}  // namespace cryolite
