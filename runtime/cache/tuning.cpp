#include "runtime/cache/tuning.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "runtime/io/error.h"
#include "runtime/io/streams.h"

namespace cryolite {

namespace {

constexpr int version = 1;  // of the table

constexpr const char *table = R"(
    CREATE TABLE tuning (target TEXT, machine TEXT, threads INTEGER, operation TEXT, dialect TEXT, implementation TEXT,
                         seconds REAL NOT NULL, date INTEGER NOT NULL,
                         PRIMARY KEY (target, machine, threads, operation, dialect)) WITHOUT ROWID;
    PRAGMA user_version = 1)";

/// A statement with its values: one row at most.
class Statement {
public:
    Statement(sqlite3 *database, const char *text) {
        if (sqlite3_prepare_v2(database, text, -1, &statement_, nullptr) != SQLITE_OK)
            fail("{}", sqlite3_errmsg(database));
    }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement &) = delete;

    void bind(const std::string &text) {
        sqlite3_bind_text(statement_, ++at_, text.c_str(), int(text.size()), SQLITE_TRANSIENT);
    }
    void bind(int64_t n) { sqlite3_bind_int64(statement_, ++at_, n); }
    void bind(double x) { sqlite3_bind_double(statement_, ++at_, x); }
    void bind(const TuningKey &k) {
        bind(k.target), bind(k.machine), bind(int64_t(k.threads)), bind(k.operation), bind(k.dialect),
            bind(k.implementation);
    }
    /// Whether there is a row.
    bool step() {
        const int code = sqlite3_step(statement_);
        if (code != SQLITE_ROW && code != SQLITE_DONE) fail("{}", sqlite3_errmsg(sqlite3_db_handle(statement_)));
        return code == SQLITE_ROW;
    }
    double real() const { return sqlite3_column_double(statement_, 0); }
    int whole() const { return sqlite3_column_int(statement_, 0); }
    std::string text() const {
        const auto *t = reinterpret_cast<const char *>(sqlite3_column_text(statement_, 0));
        return t ? t : "";
    }

private:
    sqlite3_stmt *statement_ = nullptr;
    int at_ = 0;
};

/// An error's own message for callers, after closing.
[[noreturn]] void close_and_fail(sqlite3 *database, const std::string &why) {
    sqlite3_close(database);
    throw Error(why);
}

sqlite3 *open(const fs::path &file, int flags) {
    sqlite3 *database = nullptr;
    if (sqlite3_open_v2(file.c_str(), &database, flags | SQLITE_OPEN_NOFOLLOW, nullptr) != SQLITE_OK)
        close_and_fail(database, database ? sqlite3_errmsg(database) : "no memory");
    sqlite3_busy_timeout(database, 5000);
    return database;
}

int table_version(sqlite3 *database) {
    Statement s(database, "PRAGMA user_version");
    return s.step() ? s.whole() : 0;
}

/// Throws where it is not a whole database with our table; an empty one is no table yet.
void check(sqlite3 *database) {
    Statement whole(database, "PRAGMA quick_check(1)");
    if (!whole.step() || whole.text() != "ok") fail("{}", whole.text());
    const int found = table_version(database);
    if (found != 0 && found != version) fail("it is of version {}, expected {}", found, version);
    if (found == version) Statement(database, "SELECT seconds, date FROM tuning WHERE implementation = ''");
}

/// As of everything in the cache: ours alone to write.
std::string not_ours(const fs::path &file) {
    struct stat status {};
    if (lstat(file.c_str(), &status) != 0) return "";
    if (!S_ISREG(status.st_mode)) return "it is not a regular file";
    if (status.st_uid != geteuid() || (status.st_mode & 022)) return "others may write it";
    return "";
}

}  // namespace

std::string Tuning::damage(const fs::path &folder) {
    const fs::path path = file(folder);
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) return "";
    if (std::string why = not_ours(path); !why.empty()) return why;
    sqlite3 *database = nullptr;
    std::string why;
    try {
        check(database = open(path, SQLITE_OPEN_READONLY));
    } catch (const Error &e) {
        why = e.what();
    }
    sqlite3_close(database);
    return why;
}

void Tuning::remove(const fs::path &folder) {
    for (const char *end : {"", "-journal", "-wal", "-shm"}) {
        std::error_code ignored;
        fs::remove(file(folder).string() + end, ignored);
    }
}

Tuning::Tuning(const fs::path &folder) {
    const fs::path path = file(folder);
    if (const std::string why = damage(folder); !why.empty()) {
        tell("cache: {} is damaged ({}); it is begun again", path.string(), why);
        remove(folder);
    }
    try {
        if (const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); made >= 0)
            close(made);
        database_ = open(path, SQLITE_OPEN_READWRITE);
        // Another process may begin it at the same time: whoever is second finds the table.
        if (table_version(database_) == 0 &&
            sqlite3_exec(database_, fmt::format("BEGIN IMMEDIATE; {}; COMMIT", table).c_str(), nullptr, nullptr,
                         nullptr) != SQLITE_OK) {
            sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
            if (table_version(database_) != version) fail("{}", sqlite3_errmsg(database_));
        }
    } catch (const Error &e) {
        tell("cache: what is measured is not remembered in {}: {}", path.string(), e.what());
        sqlite3_close(database_);
        database_ = nullptr;
    }
}

Tuning::~Tuning() { sqlite3_close(database_); }

std::optional<double> Tuning::seconds(const TuningKey &key) const {
    if (!database_) return std::nullopt;
    try {
        Statement s(database_,
                    "SELECT seconds FROM tuning WHERE target = ? AND machine = ? AND threads = ? AND operation = ? "
                    "AND dialect = ? AND implementation = ?");
        s.bind(key);
        if (s.step() && s.real() > 0) return s.real();
    } catch (const Error &e) {
        tell("cache: tuning.sqlite: {}", e.what());
    }
    return std::nullopt;
}

void Tuning::remember(const TuningKey &key, double seconds) {
    if (!database_) return;
    try {
        Statement s(database_, "INSERT OR REPLACE INTO tuning VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
        s.bind(key), s.bind(seconds), s.bind(int64_t(time(nullptr)));
        s.step();
    } catch (const Error &e) {
        tell("cache: what was measured is not remembered: {}", e.what());
    }
}

int Tuning::count() const {
    if (!database_) return 0;
    Statement s(database_, "SELECT count(*) FROM tuning");
    return s.step() ? s.whole() : 0;
}

}  // namespace cryolite
