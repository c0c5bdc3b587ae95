#pragma once
// What `tune` found for a step, and the digest by which a step is known.

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/session/settings.h"
#include "client/programs.h"
#include "runtime/cache/search_records.h"

namespace cryolite {

/// This machine: its processor with all features, the sizes of its caches, and the hardware of the device, if that is
/// not the CPU. Errors: there is no such device here.
SearchMachine search_machine(int threads, const std::string &device);

/// A digest of what the bundle of these settings depends on, but for the program's code and the lines that a search may
/// find: a program that is compiled again keeps its choice.
std::string step_digest(const TrainSettings &settings, const Request &request, const Cache &cache);

/// If --tuned is auto, sets it to the lines that were found for this step with `threads` threads, and says so; if there
/// are none, sets it to none. Processes of one run take what rank 0 finds.
void take_tuned_lines(TrainSettings &settings, const Request &request, const Cache &cache, int threads,
                      Progress &progress);

}  // namespace cryolite
