#include "runtime/cache/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

/// Closes the database and throws `why`.
[[noreturn]] void close_and_fail(sqlite3 *handle, const std::string &why) {
    sqlite3_close(handle);
    throw Error(why);
}

sqlite3 *open_database(const fs::path &file, int flags) {
    sqlite3 *handle = nullptr;
    if (sqlite3_open_v2(file.c_str(), &handle, flags | SQLITE_OPEN_NOFOLLOW, nullptr) != SQLITE_OK)
        close_and_fail(handle, handle ? sqlite3_errmsg(handle) : "no memory");
    sqlite3_busy_timeout(handle, 5000);
    return handle;
}

/// Why others may write the file, which everything in the cache must rule out; empty: they may not, or it is missing.
std::string not_ours(const fs::path &file) {
    struct stat status {};
    if (lstat(file.c_str(), &status) != 0) return "";
    if (!S_ISREG(status.st_mode)) return "it is not a regular file";
    if (status.st_uid != geteuid() || (status.st_mode & 022)) return "others may write it";
    return "";
}

}  // namespace

Database::Statement::Statement(sqlite3 *handle, const char *text) {
    if (sqlite3_prepare_v2(handle, text, -1, &statement_, nullptr) != SQLITE_OK) fail("{}", sqlite3_errmsg(handle));
}

Database::Statement::~Statement() { sqlite3_finalize(statement_); }

Database::Statement &Database::Statement::bind(const std::string &text) {
    sqlite3_bind_text(statement_, ++at_, text.c_str(), int(text.size()), SQLITE_TRANSIENT);
    return *this;
}

Database::Statement &Database::Statement::bind(int64_t n) {
    sqlite3_bind_int64(statement_, ++at_, n);
    return *this;
}

Database::Statement &Database::Statement::bind(double x) {
    sqlite3_bind_double(statement_, ++at_, x);
    return *this;
}

bool Database::Statement::step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) fail("{}", sqlite3_errmsg(sqlite3_db_handle(statement_)));
    return code == SQLITE_ROW;
}

double Database::Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

int64_t Database::Statement::whole(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Database::Statement::text(int column) const {
    const auto *t = reinterpret_cast<const char *>(sqlite3_column_text(statement_, column));
    return t ? t : "";
}

int Database::version_of(sqlite3 *handle) {
    Statement s(handle, "PRAGMA user_version");
    return s.step() ? int(s.whole()) : 0;
}

/// Throws where it is not a whole database with our tables. An empty one, without tables yet, is accepted.
void Database::check(sqlite3 *handle, const Form &form) {
    Statement whole(handle, "PRAGMA quick_check(1)");
    if (!whole.step() || whole.text() != "ok") fail("{}", whole.text());
    const int found = version_of(handle);
    if (found != 0 && found != form.version) fail("it is of version {}, expected {}", found, form.version);
    if (found == form.version) Statement(handle, form.probe);
}

std::string Database::damage(const fs::path &folder, const Form &form) {
    const fs::path path = folder / form.name;
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) return "";
    if (std::string why = not_ours(path); !why.empty()) return why;
    sqlite3 *handle = nullptr;
    std::string why;
    try {
        // Opened for writing: SQLite then undoes what a killed process left half done, which is no damage.
        check(handle = open_database(path, SQLITE_OPEN_READWRITE), form);
    } catch (const Error &e) {
        why = e.what();
    }
    sqlite3_close(handle);
    return why;
}

void Database::remove(const fs::path &folder, const Form &form) {
    for (const char *end : {"", "-journal", "-wal", "-shm"}) {
        std::error_code ignored;
        fs::remove((folder / form.name).string() + end, ignored);
    }
}

Database::Database(const fs::path &folder, const Form &form) {
    const fs::path path = folder / form.name;
    if (const std::string why = damage(folder, form); !why.empty()) {
        tell("cache: {} is damaged ({}); it is begun again", path.string(), why);
        remove(folder, form);
    }
    try {
        if (const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); made >= 0)
            close(made);
        handle_ = open_database(path, SQLITE_OPEN_READWRITE);
        // Another process may begin it at the same time: the second one finds the tables.
        const std::string begin =
            fmt::format("BEGIN IMMEDIATE; {}; PRAGMA user_version = {}; COMMIT", form.tables, form.version);
        if (version_of(handle_) == 0 && sqlite3_exec(handle_, begin.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
            const std::string why = sqlite3_errmsg(handle_);
            sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
            if (version_of(handle_) != form.version) fail("{}", why);
        }
    } catch (const Error &e) {
        hindrance_ = e.what();
        tell("cache: measured times cannot be stored in {}, so the next run measures again: {}", path.string(),
             hindrance_);
        sqlite3_close(handle_);
        handle_ = nullptr;
    }
}

Database::~Database() { sqlite3_close(handle_); }

}  // namespace cryolite
