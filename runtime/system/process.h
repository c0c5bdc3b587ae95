#pragma once
// Child processes under control: a time limit, their output, and how they ended, in words.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

/// Ctrl-C, or a request to end, arrived while a child was running: the command exits with status
/// 130.
struct Interrupted : Error {
    using Error::Error;
};

struct ProcessOptions {
    std::vector<std::string> argv;  ///< argv[0] is looked up in PATH unless it has a slash
    int program = -1;               ///< the program's descriptor, where it is open: argv[0] is only its name then
    double time_limit = 0;          ///< seconds it may run; 0: no limit
    double silence_limit = 0;       ///< seconds it may go without a sign of life; 0: no limit
    uint64_t memory_limit = 0;      ///< bytes that it, and each of its children, may have; 0: no limit
    /// Every whole line of stdout; true where it is a sign of life. Without this function stdout is
    /// kept in `ProcessResult::output`.
    std::function<bool(std::string_view line)> on_line = {};
};

struct ProcessResult {
    int status = 0;      ///< its exit status, when no signal ended it
    int signal = 0;      ///< the signal that ended it, or 0
    double limit = 0;    ///< the limit, in seconds, that it ran past; 0: none
    std::string output;  ///< what it wrote to stdout
    std::string errors;  ///< the last 64 KiB that it wrote to stderr
    double seconds = 0;

    bool ok() const { return status == 0 && signal == 0 && limit == 0; }
    /// Whether it ended by itself with one of the two statuses of errors, 1 or 2 (bad usage), and wrote why.
    bool told_why() const { return (status == 1 || status == 2) && signal == 0 && limit == 0 && !errors.empty(); }
};

/// Runs a program to its end or to its limit, where it and all that it started are killed. It reads an empty stdin,
/// dies with this process, and leaves no core file. SIGINT, SIGTERM and SIGHUP to this process kill it, then reach the
/// handlers that were set here before, then throw Interrupted. Errors: the program cannot be started.
ProcessResult run_process(const ProcessOptions &options);

/// Bytes of memory of this machine, or of the limit that a container sets.
uint64_t physical_memory();

/// A memory limit for each of `processes` running at once: all but a share of the memory of this
/// machine, and 2 GB at least. 0, no limit, where a sanitizer's own needs would pass any.
uint64_t memory_share(int processes);

/// "exit status 3", "it crashed (Segmentation fault)", "it ran longer than the limit of 120 s".
std::string how_it_ended(const ProcessResult &result);

/// The end of a text, at most `most` bytes, from the beginning of a line and without a final
/// newline.
std::string last_lines(const std::string &text, size_t most = 2000);

}  // namespace cryolite
