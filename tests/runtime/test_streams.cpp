#include "runtime/system/streams.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

/// 0 where `work` is true in a process of its own, whose streams may be closed.
int false_in_child(const std::function<bool()> &work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

}  // namespace

TEST_CASE("streams: words for people never fail") {
    CHECK(false_in_child([] {
              const int full = open("/dev/full", O_WRONLY);
              dup2(full, STDERR_FILENO);
              tell("step {}", 1);
              return write_stream(full, "x").error == ENOSPC;
          }) == 0);
    CHECK(false_in_child([] {
              close(STDERR_FILENO);
              tell("step {}", 1);
              return write_stream(STDERR_FILENO, "x").error == EBADF;
          }) == 0);
    CHECK(false_in_child([] {
              int ends[2];
              signal(SIGPIPE, SIG_IGN);
              if (pipe(ends) != 0) return false;
              close(ends[0]);
              return write_stream(ends[1], "x").error == EPIPE;
          }) == 0);
}

TEST_CASE("streams: a non-blocking pipe gets all of it") {
    int ends[2];
    REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
    const std::string text(300'000, 'x');  // more than a pipe holds
    const pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        size_t got = 0;
        char bytes[4096];
        for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) != 0;)
            if (n > 0)
                got += size_t(n);
            else
                usleep(1000);
        _exit(got == text.size() ? 0 : 1);
    }
    CHECK(write_stream(ends[1], text).written == text.size());
    close(ends[0]), close(ends[1]);
    int status = 0;
    waitpid(reader, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("streams: no file gets the number of a stream that was closed") {
    Scratch scratch;
    const std::string path = scratch / "file";
    CHECK(false_in_child([&] {
              for (int stream : {0, 1, 2}) close(stream);
              hold_standard_streams();
              char byte = 0;
              const bool kept = read(STDIN_FILENO, &byte, 1) < 0 && write_stream(STDOUT_FILENO, "x").error == EBADF;
              return kept && open(path.c_str(), O_WRONLY | O_CREAT, 0600) > 2;
          }) == 0);
}

}  // namespace cryolite::test
