#pragma once
// What a run takes, held against the memory that this process may have, before any work is done.

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/session/settings.h"
#include "bundle/plan.h"

namespace cryolite {

/// Where the step does not fit as it was asked for: chooses what does, of what --update auto and --recompute auto leave
/// open, and says so. The settings then have the choice as if it had been given; all processes of a run have the same.
/// A budget is rounded to a sixteenth, so that a cache stays of use whatever is free just now.
/// Errors: UsageError with who holds what and what would help; not for `explain`, whose `memory_note` says it.
void choose_for_memory(TrainSettings &settings, const Request &request, const Cache &cache, Progress &progress);

/// The same of what was compiled. Errors: as above.
void check_memory(const Plan &plan, const TrainSettings &settings, const Request &request);

/// "26.9 GB for all of a run; 23.1 GB are free on this machine"
std::string memory_words(const Plan &plan, const TrainSettings &settings);

}  // namespace cryolite
