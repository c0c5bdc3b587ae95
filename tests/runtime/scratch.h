#pragma once
// What the runtime's tests share: a folder that goes away, files of the checkout, the message of an
// error, children.

#include "runtime/io/error.h"
#include "runtime/io/files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace cryolite::test {

/// A new folder, removed at the end of the test; in memory where there is such a place, since the
/// code under test waits for the disk at every file it syncs.
struct Scratch {
    fs::path path;
    Scratch() {
        const bool memory = ::access("/dev/shm", W_OK) == 0;
        const fs::path where = memory ? fs::path("/dev/shm") : fs::temp_directory_path();
        std::string name = (where / "cryolite-test-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    Scratch(const Scratch &) = delete;
    fs::path operator/(const fs::path &name) const { return path / name; }
};

/// A file of the checkout; the build defines where that is.
inline fs::path source_file(const fs::path &name) { return fs::path(CRYOLITE_SOURCE_DIR) / name; }

/// Writes without any of the care under test.
inline fs::path write_plainly(const fs::path &path, std::string_view bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(out.good());
    return path;
}

/// The message of the Error that `action` throws; empty when it throws none.
template <typename Action> std::string error_of(Action &&action) {
    try {
        action();
    } catch (const Error &e) {
        return e.what();
    }
    return "";
}

/// What `action`, which throws nothing, writes to the standard error.
template <typename Action> std::string stderr_of(Action &&action) {
    const Scratch scratch;
    const int before = ::dup(STDERR_FILENO),
              file = ::open((scratch / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(before >= 0);
    REQUIRE(::dup2(file, STDERR_FILENO) == STDERR_FILENO);
    action();
    ::dup2(before, STDERR_FILENO);
    ::close(before), ::close(file);
    return read_file(scratch / "err");
}

/// Runs `action` in a child; its exit status. The child is forked by a new thread: forked by one that has used OpenMP,
/// it would wait without end for the other threads, which no child has.
template <typename Action> int in_child(Action &&action) {
    pid_t pid = -1;
    std::thread([&] {
        pid = ::fork();
        if (pid != 0) return;
        try {
            action();
            ::_exit(0);
        } catch (const std::exception &e) {
            fmt::print(stderr, "{}\n", e.what());
            ::_exit(1);
        }
    }).join();
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace cryolite::test

/// The error's message must contain `part`; shows the message when it does not.
#define CHECK_ERROR(action, part)                                                                                      \
    do {                                                                                                               \
        const std::string cryolite_message = ::cryolite::test::error_of([&] { action; });                              \
        CAPTURE(cryolite_message);                                                                                     \
        CHECK(::cryolite::test::contains(cryolite_message, part));                                                     \
    } while (false)
