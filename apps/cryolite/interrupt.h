#pragma once
// Ctrl-C and SIGTERM: the current step is finished and a checkpoint written; a second signal ends
// the process at once.

namespace cryolite {

constexpr int interrupted_status = 130;

/// From now on the first signal ends the process with status 130: there is nothing to save yet.
void watch_signals();
/// While `on`, the first signal only sets a flag, which the training loop reads between steps.
void defer_signals(bool on = true);
bool interrupted();
/// As a signal would: the loop ends after the current step. For when nobody reads our output.
void interrupt();

}  // namespace cryolite
