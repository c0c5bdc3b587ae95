#include "runtime/cache/tuning.h"

#include <ctime>

#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

constexpr Database::Form tuning_form = {
    "tuning.sqlite", 1,
    "CREATE TABLE tuning (target TEXT, machine TEXT, threads INTEGER, operation TEXT, dialect TEXT, "
    "implementation TEXT, seconds REAL NOT NULL, date INTEGER NOT NULL, "
    "PRIMARY KEY (target, machine, threads, operation, dialect)) WITHOUT ROWID",
    "SELECT seconds, date FROM tuning WHERE implementation = ''"};

Database::Statement &bind_place(Database::Statement &s, const TuningKey &k) {
    return s.bind(k.target).bind(k.machine).bind(k.threads).bind(k.operation).bind(k.dialect);
}
Database::Statement &bind(Database::Statement &s, const TuningKey &k) {
    return bind_place(s, k).bind(k.implementation);
}

}  // namespace

std::string Tuning::damage(const fs::path &folder) { return Database::damage(folder, tuning_form); }

void Tuning::remove(const fs::path &folder) { Database::remove(folder, tuning_form); }

Tuning::Tuning(const fs::path &folder) : database_(folder, tuning_form) {}

std::optional<double> Tuning::seconds(const TuningKey &key) const {
    if (!database_) return std::nullopt;
    try {
        Database::Statement s(database_, "SELECT seconds FROM tuning WHERE target = ? AND machine = ? AND threads = ? "
                                         "AND operation = ? AND dialect = ? AND implementation = ?");
        if (bind(s, key).step() && s.real() > 0) return s.real();
    } catch (const Error &e) {
        tell("cache: tuning.sqlite: {}", e.what());
    }
    return std::nullopt;
}

std::string Tuning::implementation(const TuningKey &key) const {
    if (!database_) return "";
    try {
        Database::Statement s(database_, "SELECT implementation FROM tuning WHERE target = ? AND machine = ? AND "
                                         "threads = ? AND operation = ? AND dialect = ?");
        if (bind_place(s, key).step()) return s.text();
    } catch (const Error &e) {
        tell("cache: tuning.sqlite: {}", e.what());
    }
    return "";
}

void Tuning::remember(const TuningKey &key, double seconds) {
    if (!database_) return;
    try {
        Database::Statement s(database_, "INSERT OR REPLACE INTO tuning VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
        bind(s, key).bind(seconds).bind(int64_t(time(nullptr))).step();
    } catch (const Error &e) {
        tell("cache: a measured time could not be stored: {}", e.what());
    }
}

int Tuning::count() const {
    if (!database_) return 0;
    Database::Statement s(database_, "SELECT count(*) FROM tuning");
    return s.step() ? int(s.whole()) : 0;
}

}  // namespace cryolite
