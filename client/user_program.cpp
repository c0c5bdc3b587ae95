#include "client/user_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"
#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// Puts the installation's folder for $FOLDER in paths, because an installation may be moved.
void make_absolute(json &value, const std::string &folder) {
    if (value.is_structured())
        for (json &member : value) make_absolute(member, folder);
    if (!value.is_string()) return;
    static constexpr std::string_view mark = "$FOLDER";
    auto text = value.get<std::string>();
    if (const size_t at = text.find(mark); at != std::string::npos) value = text.replace(at, mark.size(), folder);
}

/// The files in a rule that the compiler wrote: "target: a b\ c \<newline> d".
std::vector<fs::path> dependencies(const std::string &rule) {
    std::vector<fs::path> files;
    std::string word;
    for (size_t i = rule.find(": ") + 2; i <= rule.size(); ++i) {
        const char c = i < rule.size() ? rule[i] : '\n';
        if (c == '\\' && i + 1 < rule.size() && rule[i + 1] == '\n') {
            ++i;
        } else if ((c == '\\' || c == '$') && i + 1 < rule.size()) {
            word += rule[++i];  // "\ ", "\#", "$$"
            continue;
        } else if (c != ' ' && c != '\n') {
            word += c;
            continue;
        }
        if (!word.empty()) files.push_back(word);
        word.clear();
    }
    return files;
}

std::string digest_or_nothing(const fs::path &path) {
    try {
        return sha256_file(path);
    } catch (const Error &) {
        return "";
    }
}

/// The header that changed since the entry was made; empty: none did.
std::string changed_header(const CacheEntry &entry) {
    const json about = json::parse(entry.about, nullptr, false);
    if (!about.is_object() || !about.contains("includes")) return "what it includes";
    for (const auto &[path, digest] : about["includes"].items())
        if (json(digest_or_nothing(path)) != digest) return path;
    return "";
}

std::vector<std::string> compile_command(const json &flags, const fs::path &source, const fs::path &folder) {
    std::vector<std::string> words = {flags.at("compiler")};
    auto add = [&](const char *prefix, const json &values) {
        for (const std::string value : values)
            if (!value.empty()) words.push_back(prefix + value);
    };
    add("", flags.at("options"));
    add("-D", flags.at("definitions"));
    add("-I", flags.at("include"));
    for (const std::string path : flags.at("system_include"))
        if (!path.empty()) words.insert(words.end(), {"-isystem", path});
    words.insert(words.end(),
                 {"-MMD", "-MT", "program", "-MF", folder / "includes.d", "-o", folder / "program", source});
    add("", flags.at("libraries"));
    return words;
}

/// Refuses a name that is not UTF-8: the cache keeps it in JSON, which is.
void check_name(const fs::path &path) {
    if (const std::string name = fs::absolute(path).string(); first_not_utf8(name) != std::string::npos)
        fail_usage("the name {} is not UTF-8: rename the file or its folder", shown(name, 400));
}

/// Compiles into `folder`; returns the text about the cache's entry.
std::string compile(const json &flags, const fs::path &source, const fs::path &folder) {
    const std::string before = sha256_file(source);
    ProcessResult result;
    try {
        result = run_process({.argv = compile_command(flags, source, folder),
                              .time_limit = program_time_limit(),
                              .memory_limit = memory_share(1)});
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {
        fail("{}: it is needed to compile {}; install a C++20 compiler (apt-get install g++)", e.what(),
             source.string());
    }
    // The likely cause: blocks in a std::vector, which moves its elements.
    const bool moved = result.errors.find("deleted function") != std::string::npos &&
                       result.errors.find("cryolite::Layer::Layer(const cryolite::Layer&)") != std::string::npos;
    std::string said = result.errors;
    const size_t most = moved ? 1500 : 6000;  // the first message matters most, and less where the cause is known
    if (said.size() > most) said = said.substr(0, said.rfind('\n', most)) + "\n...";
    if (!result.ok()) {
        std::string how;
        if (result.limit > 0 || result.signal) how = " (" + how_it_ended(result) + ")";
        fail("cannot compile {}{}:{}\n{}", source.string(), how,
             moved ? " layers, and structs of layers, cannot be copied or moved: keep blocks in a std::deque, not in a "
                     "std::vector"
                   : "",
             last_lines(said, 8000));
    }
    if (!said.empty()) tell("{}", last_lines(said, 8000));
    if (sha256_file(source) != before) fail("{} changed while it was compiled: run again", source.string());
    json includes = json::object();
    for (const fs::path &path : dependencies(read_file(folder / "includes.d"))) {
        check_name(path);
        includes[fs::absolute(path).string()] = sha256_file(path);
    }
    fs::remove(folder / "includes.d");
    return json{{"source", fs::absolute(source).string()}, {"includes", includes}}.dump();
}

void check_source(const fs::path &source) {
    struct stat status {};
    try {
        if (stat(source.c_str(), &status) != 0) fail_file("read", source, errno);
        if (access(source.c_str(), R_OK) != 0) fail_file("read", source, errno);
    } catch (const Error &e) {
        throw UsageError(e.what());
    }
    check_name(source);
    if (!S_ISREG(status.st_mode)) fail_usage("{} is not a file: name a .cpp", source.string());
    if (status.st_size == 0) fail_usage("{} is empty: see docs/tutorial.md for a first model", source.string());
}

}  // namespace

json build_flags() {
    const fs::path path = build_folder() / "user_program.json";
    try {
        json flags = json::parse(read_file(path));
        make_absolute(flags, build_folder().string());
        return flags;
    } catch (const json::exception &e) {
        fail("{} is damaged: remove it and run ./cryolite again ({})", path.string(), e.what());
    } catch (const Error &e) {
        fail("cannot compile programs: {}\nBuild again with ./cryolite", e.what());
    }
}

fs::path build_folder() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) fail("cannot find where this command was built: {}", error.message());
    return self.parent_path().parent_path();
}

double program_time_limit() {
    double seconds = 120;
    if (const char *text = getenv("CRYOLITE_TIME_LIMIT")) {
        const std::string_view value = text;
        auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
        if (error != std::errc() || end != value.data() + value.size() || !(seconds > 0 && seconds < 1e6))
            fail_usage("CRYOLITE_TIME_LIMIT is {}, expected seconds", shown(value));
    }
    return seconds;
}

std::shared_ptr<const OpenFile> user_program(const fs::path &source, const Cache &cache) {
    check_source(source);
    const json flags = build_flags();
    json parts = {{"source", fs::absolute(source).lexically_normal().string()},
                  {"content", sha256_file(source)},
                  {"flags", flags}};
    // These libraries define what the headers declare: the compiler of this build, and the contract of both halves.
    for (const size_t i : {0, 1}) parts["libraries"].push_back(sha256_file(std::string(flags.at("libraries").at(i))));
    const std::string key = sha256_hex(parts.dump());
    auto current = [&]() -> std::shared_ptr<const OpenFile> {
        std::optional<CacheEntry> entry = cache.find("programs", key);
        if (!entry || !entry->files.contains("program") || !changed_header(*entry).empty()) return nullptr;
        return entry->files.at("program");
    };
    if (auto program = current()) return program;
    const CacheLock lock = cache.lock("programs", key, "another process that compiles " + source.string());
    if (auto program = current()) return program;
    if (isatty(STDERR_FILENO)) tell("Compiling {}", source.string());
    return cache
        .publish(
            "programs", key, [&](const fs::path &folder) { return compile(flags, source, folder); }, true)
        .files.at("program");
}

}  // namespace cryolite
