#include "runtime/io/files.h"
#include "tests/runtime/scratch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace cryolite::test {

namespace {

int entries_in(const fs::path &folder) {
    return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Files of this process may have `bytes` at most while this lives: a full disk one can have
/// anywhere.
struct FileSizeLimit {
    struct rlimit before {};
    void (*handler)(int);
    explicit FileSizeLimit(rlim_t bytes) : handler(::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before);
        const struct rlimit now = {bytes, before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &now);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before);
        ::signal(SIGXFSZ, handler);
    }
};

/// Another user's rights while this lives, when the tests run as root.
struct Unprivileged {
    const bool root = ::geteuid() == 0;
    Unprivileged() { REQUIRE((!root || ::seteuid(65534) == 0)); }
    ~Unprivileged() { REQUIRE((!root || ::seteuid(0) == 0)); }
};

}  // namespace

TEST_CASE("files: reading says what is wrong with a path") {
    Scratch scratch;
    CHECK(read_file(write_plainly(scratch / "a", std::string("x\0y", 3))) == std::string("x\0y", 3));
    CHECK(read_file(write_plainly(scratch / "empty", "")).empty());
    for (const char *name : {"none", "none/"})
        CHECK_ERROR(read_file(scratch / name), std::string(name) + ": No such file or directory; check the spelling");
    CHECK_ERROR(read_file(scratch / "no/folder"), "its folder does not exist");
    CHECK_ERROR(read_file(scratch.path), "it is a folder");
    CHECK_ERROR(read_file("/dev/zero"), "it is a device");
    CHECK_ERROR(read_file(scratch / "a/b"), "a part of the path is a file");
    CHECK_ERROR(read_file(scratch / std::string(300, 'n')), "File name too long");
    fs::permissions(scratch.path, fs::perms::owner_all);
    Unprivileged user;
    if (user.root) CHECK_ERROR(read_file(scratch / "a"), "Permission denied; give this user permission");
}

TEST_CASE("files: a mapping needs a regular file") {
    Scratch scratch;
    MappedFile file(write_plainly(scratch / "a", "hello"));
    CHECK(as_text(file.bytes()) == "hello");
    MappedFile moved = std::move(file);
    CHECK(as_text(moved.bytes()) == "hello");
    CHECK(MappedFile(write_plainly(scratch / "empty", "")).size() == 0);
    REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
    CHECK_ERROR(MappedFile(scratch / "pipe"), "it is a pipe");
    CHECK_ERROR(read_file(scratch / "pipe"), "it is a pipe");
    CHECK(read_file("/proc/self/status").starts_with("Name:"));  // a size of 0, but content
    CHECK_ERROR(MappedFile(scratch.path), "it is a folder");
    CHECK_ERROR(MappedFile(scratch / "none"), "No such file");
}

TEST_CASE("files: SHA-256 of known texts") {
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    Scratch scratch;
    CHECK(sha256_file(write_plainly(scratch / "a", "abc")) == sha256_hex("abc"));
    Sha256 pieces;
    pieces.update(as_bytes("a"));
    pieces.update(as_bytes("bc"));
    CHECK(pieces.hex() == sha256_hex("abc"));
}

TEST_CASE("files: an atomic write replaces, or leaves everything as it was") {
    Scratch scratch;
    const fs::path path = scratch / "state";
    write_file_atomic(path, "one");
    write_file_atomic(path, "two");
    CHECK(read_file(path) == "two");
    CHECK(entries_in(scratch.path) == 1);
    CHECK_ERROR(write_file_atomic(scratch / "no/state", "x"), "its folder does not exist");
    CHECK_ERROR(write_file_atomic(scratch.path, "x"), "cannot replace");
    {
        FileSizeLimit full(1000);
        CHECK_ERROR(write_file_atomic(path, std::string(5000, 'x')), "state: File too large; ");
    }
    CHECK(read_file(path) == "two");
    CHECK(entries_in(scratch.path) == 1);
    CHECK_ERROR(FileWriter("/dev/full").write(as_bytes("x")),
                "/dev/full: No space left on device; 1 bytes more needed");
    CHECK(fs::exists("/dev/full"));
    fs::permissions(scratch.path, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
    {
        Unprivileged user;
        CHECK_ERROR(write_file_atomic(path, "three"), "Permission denied; give this user permission");
    }
    fs::permissions(scratch.path, fs::perms::owner_all);
    CHECK(read_file(path) == "two");
}

TEST_CASE("files: a writer that is not finished leaves no file") {
    Scratch scratch;
    { FileWriter(scratch / "half").write(as_bytes("x")); }
    CHECK(entries_in(scratch.path) == 0);
    FileWriter writer(scratch / "whole");
    writer.write(as_bytes("x"));
    writer.finish();
    CHECK(writer.written() == 1);
    CHECK(read_file(scratch / "whole") == "x");
}

TEST_CASE("files: a process killed in the middle of a write leaves the old or the new file") {
    Scratch scratch;
    const fs::path path = scratch / "state";
    write_file_atomic(path, std::string(1 << 20, 'a'));
    for (int round = 0; round < 5; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            for (char c = 'b';; c = c == 'z' ? 'a' : static_cast<char>(c + 1))
                write_file_atomic(path, std::string(1 << 20, c));
        }
        ::usleep(5000 + 7000 * round);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        const std::string content = read_file(path);
        CHECK(content.size() == 1 << 20);
        CHECK(std::count(content.begin(), content.end(), content[0]) == 1 << 20);
        remove_leftovers(scratch.path);
        CHECK(entries_in(scratch.path) == 1);
    }
}

TEST_CASE("folders: private, published whole, kept or replaced, removed") {
    Scratch scratch;
    make_private_dirs(scratch / "a/b/c");
    make_private_dirs(scratch / "a/b/c");
    CHECK(fs::status(scratch / "a/b").permissions() == fs::perms::owner_all);
    write_plainly(scratch / "file", "");
    CHECK_ERROR(make_private_dirs(scratch / "file"), "something that is no folder is in the way");
    CHECK_ERROR(make_private_dirs(scratch / "file/x"), "a part of the path is a file");
    CHECK_ERROR(TemporaryFolder("/proc/entry"), "cannot create folder /proc/entry: ");

    const fs::path final_path = scratch / "entry";
    const auto publish = [&](std::string_view text, TemporaryFolder::IfExists if_exists) {
        TemporaryFolder folder(final_path);
        write_plainly(folder.path() / "content", text);
        return folder.publish(if_exists);
    };
    CHECK(publish("1", TemporaryFolder::IfExists::keep));
    CHECK_FALSE(publish("2", TemporaryFolder::IfExists::keep));
    CHECK(read_file(final_path / "content") == "1");
    CHECK(publish("3", TemporaryFolder::IfExists::replace));
    CHECK(read_file(final_path / "content") == "3");
    { TemporaryFolder dropped(final_path); }
    CHECK(entries_in(scratch.path) == 3);  // a, file, entry
    fs::create_directories(scratch / ".tmp-old-1/x");
    CHECK(remove_leftovers(scratch.path) == 1);
    remove_folder(final_path);
    CHECK(entries_in(scratch.path) == 2);
}

TEST_CASE("error: what a file says is shown safely") {
    CHECK(shown("a\"b\n\xff") == "\"a\\\"b\\x0a\\xff\"");
    CHECK(shown(std::string(100, 'x'), 3) == "\"xxx...\"");
    CHECK(human_bytes(999) == "999 bytes");
    CHECK(human_bytes(1500) == "1.5 kB");
    CHECK(human_bytes(999'960) == "1.0 MB");
    CHECK(human_bytes(6'000'000'000) == "6.0 GB");
}

}  // namespace cryolite::test
