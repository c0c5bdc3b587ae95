#pragma once
// Ctrl-C, SIGTERM and SIGHUP (the terminal is closed): the current step is finished and a checkpoint written. A second
// Ctrl-C, or a second SIGTERM, ends the process at once. One that comes within half a second counts as the same stop,
// as `timeout` sends two. A second SIGHUP never ends the process: a terminal and its shell send one each.

namespace cryolite {

constexpr int interrupted_status = 130;

/// From now on the first signal ends the process with status 130: there is nothing to save yet. A SIGHUP that is
/// ignored at the start (nohup) stays ignored. SIGPIPE and SIGXFSZ are ignored, so that the write returns the error.
void watch_signals();
/// From now on the first signal only sets a flag, which the training loop reads between steps, and prints `words` on
/// stderr, as a step may take minutes. `words`: a string literal, or null to print nothing.
void defer_signals(const char *words = nullptr);
/// From now on a signal ends the process again, as after `watch_signals`.
void stop_deferring();
bool interrupted();

/// What a Ctrl-C or SIGTERM means, by when the first of its kind came: the first, one that belongs to it, or one that
/// ends the process at once. Each SIGHUP is a first one. For signal handlers.
enum class Stop { first, same, again };
Stop stop_of(int number);

/// Does what a signal does: the loop ends after the current step. It is called when nobody reads our output any more.
void interrupt();

}  // namespace cryolite
