#pragma once
// Ctrl-C, SIGTERM and SIGHUP (the terminal is closed): the current step is finished and a checkpoint written; a
// second Ctrl-C or SIGTERM ends the process at once, a second SIGHUP does not: a terminal and its shell send one each.

namespace cryolite {

constexpr int interrupted_status = 130;

/// From now on the first signal ends the process with status 130: there is nothing to save yet. A SIGHUP that is
/// ignored at the start (nohup) stays ignored. SIGPIPE and SIGXFSZ are: whoever writes gets the error.
void watch_signals();
/// From now on the first signal only sets a flag, which the training loop reads between steps, and prints `words` on
/// stderr: a step may take minutes. A literal, or null to print nothing.
void defer_signals(const char *words = nullptr);
/// As after `watch_signals` again.
void stop_deferring();
bool interrupted();
/// As a signal would: the loop ends after the current step. For when nobody reads our output.
void interrupt();

}  // namespace cryolite
