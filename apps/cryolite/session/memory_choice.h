#pragma once
// Compares the memory that a run takes with what this process may use, before any work is done.

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/session/settings.h"
#include "bundle/plan.h"

namespace cryolite {

/// If the step does not fit as it was asked for, chooses settings that fit, of those that --update auto and --recompute
/// auto leave open, and says so. The settings then have the choice as if it had been given; all processes of a run have
/// the same. A budget is rounded to a sixteenth, so that another amount of free memory mostly finds the same bundle in
/// the cache. Errors: UsageError with what takes how much and what would help; for `explain`, `memory_note` says it.
void choose_for_memory(TrainSettings &settings, const Request &request, const Cache &cache, Progress &progress);

/// Checks that the compiled plan fits. Errors: UsageError, as above; not for `explain`.
void check_memory(const Plan &plan, const TrainSettings &settings, const Request &request);

/// "26.9 GB for all of a run; 23.1 GB are free on this machine"
std::string memory_words(const Plan &plan, const TrainSettings &settings);

}  // namespace cryolite
