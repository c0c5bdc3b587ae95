#include "runtime/cache/search_records.h"

#include <algorithm>
#include <ctime>

#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

constexpr Database::Form searches_form = {
    "searches.sqlite", 1,
    "CREATE TABLE candidates (machine TEXT, threads INTEGER, algorithm TEXT, base TEXT, candidate TEXT, "
    "ratio REAL NOT NULL, noise REAL NOT NULL, same_bits INTEGER NOT NULL, refused TEXT NOT NULL, "
    "date INTEGER NOT NULL, PRIMARY KEY (machine, threads, algorithm, base, candidate)) WITHOUT ROWID; "
    "CREATE TABLE choices (machine TEXT, threads INTEGER, step TEXT, app TEXT NOT NULL, lines TEXT NOT NULL, "
    "same_bits INTEGER NOT NULL, before REAL NOT NULL, after REAL NOT NULL, candidates INTEGER NOT NULL, "
    "refused INTEGER NOT NULL, date INTEGER NOT NULL, PRIMARY KEY (machine, threads, step)) WITHOUT ROWID",
    "SELECT candidates.ratio, candidates.refused, choices.lines FROM candidates, choices LIMIT 0"};

Database::Statement &bind(Database::Statement &s, const SearchMachine &m, const CandidateKey &k) {
    return s.bind(m.id).bind(m.threads).bind(k.algorithm).bind(k.base).bind(k.candidate);
}

/// A record that cannot be read counts as missing, with a message.
template <typename Read> auto read_or_none(Read read) -> decltype(read()) {
    try {
        return read();
    } catch (const Error &e) {
        tell("cache: searches.sqlite: {}", e.what());
        return std::nullopt;
    }
}

}  // namespace

fs::path SearchRecords::file(const fs::path &folder) { return folder / searches_form.name; }
std::string SearchRecords::damage(const fs::path &folder) { return Database::damage(folder, searches_form); }
void SearchRecords::remove(const fs::path &folder) { Database::remove(folder, searches_form); }

SearchRecords::SearchRecords(const fs::path &folder, SearchMachine machine)
    : database_(folder, searches_form), machine_(std::move(machine)) {
    if (!database_) return;
    try {  // files that older versions began lack this table
        Database::Statement(database_,
                            "CREATE TABLE IF NOT EXISTS times (machine TEXT, threads INTEGER, kernel TEXT, seconds "
                            "REAL NOT NULL, date INTEGER NOT NULL, PRIMARY KEY (machine, threads, kernel)) WITHOUT "
                            "ROWID")
            .step();
        has_times_ = true;
    } catch (const Error &) {  // writing a time reports it
    }
}

std::string SearchRecords::why_read_only() {
    try {  // deletes nothing, but has to begin a write
        Database::Statement(database_, "DELETE FROM choices WHERE 0").step();
    } catch (const Error &e) {
        return e.what();
    }
    return "";
}

std::optional<CandidateRecord> SearchRecords::find(const CandidateKey &key) const {
    if (!database_) return std::nullopt;
    return read_or_none([&]() -> std::optional<CandidateRecord> {
        Database::Statement s(database_,
                              "SELECT ratio, noise, same_bits, refused FROM candidates WHERE machine = ? AND "
                              "threads = ? AND algorithm = ? AND base = ? AND candidate = ?");
        if (!bind(s, machine_, key).step()) return std::nullopt;
        return CandidateRecord{s.real(0), s.real(1), s.whole(2) != 0, s.text(3)};
    });
}

void SearchRecords::remember(const CandidateKey &key, const CandidateRecord &r) {
    if (!database_) fail("{}", hindrance());
    Database::Statement s(database_, "INSERT OR REPLACE INTO candidates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    bind(s, machine_, key).bind(r.ratio).bind(r.noise).bind(int(r.same_bits)).bind(r.refused);
    s.bind(int64_t(time(nullptr))).step();
}

SearchRecords::Elsewhere SearchRecords::elsewhere(const std::string &algorithm, const std::string &candidate,
                                                  const std::string &base) const {
    Elsewhere e;
    if (!database_) return e;
    const auto ratios = read_or_none([&]() -> std::optional<std::vector<double>> {
        Database::Statement s(database_, "SELECT ratio, refused FROM candidates WHERE algorithm = ? AND candidate = ? "
                                         "AND substr(base, 1, length(?)) = ? AND NOT (machine = ? AND threads = ?)");
        s.bind(algorithm).bind(candidate).bind(base).bind(base).bind(machine_.id).bind(machine_.threads);
        std::vector<double> list;
        while (s.step()) s.text(1).empty() ? list.push_back(s.real(0)) : void(e.refused = true);
        return list;
    });
    if (!ratios || ratios->empty()) return e;
    std::vector<double> list = *ratios;
    std::ranges::sort(list);
    const size_t middle = list.size() / 2;
    return {list.size() % 2 ? list[middle] : (list[middle - 1] + list[middle]) / 2, false};
}

std::optional<double> SearchRecords::time_of(const std::string &kernel) const {
    if (!has_times_) return std::nullopt;
    return read_or_none([&]() -> std::optional<double> {
        Database::Statement s(database_, "SELECT seconds FROM times WHERE machine = ? AND threads = ? AND kernel = ?");
        if (!s.bind(machine_.id).bind(machine_.threads).bind(kernel).step()) return std::nullopt;
        return s.real(0);
    });
}

void SearchRecords::remember_time(const std::string &kernel, double seconds) {
    if (!database_) fail("{}", hindrance());
    Database::Statement s(database_, "INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?)");
    s.bind(machine_.id).bind(machine_.threads).bind(kernel).bind(seconds).bind(int64_t(time(nullptr))).step();
}

std::optional<SearchChoice> SearchRecords::choice(const std::string &step) const {
    if (!database_) return std::nullopt;
    return read_or_none([&]() -> std::optional<SearchChoice> {
        Database::Statement s(database_,
                              "SELECT app, lines, same_bits, before, after, candidates, refused, date FROM choices "
                              "WHERE machine = ? AND threads = ? AND step = ?");
        if (!s.bind(machine_.id).bind(machine_.threads).bind(step).step()) return std::nullopt;
        return SearchChoice{s.text(0), s.text(1),       s.whole(2) != 0, s.real(3),
                            s.real(4), int(s.whole(5)), int(s.whole(6)), s.whole(7)};
    });
}

void SearchRecords::choose(const std::string &step, const SearchChoice &c) {
    if (!database_) fail("{}", hindrance());
    Database::Statement s(database_, "INSERT OR REPLACE INTO choices VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    s.bind(machine_.id).bind(machine_.threads).bind(step).bind(c.app).bind(c.lines).bind(int(c.same_bits));
    s.bind(c.before).bind(c.after).bind(c.candidates).bind(c.refused).bind(int64_t(time(nullptr))).step();
}

bool SearchRecords::forget(const std::string &step) {
    if (!database_) fail("{}", hindrance());
    const bool there = choice(step).has_value();
    Database::Statement s(database_, "DELETE FROM choices WHERE machine = ? AND threads = ? AND step = ?");
    s.bind(machine_.id).bind(machine_.threads).bind(step).step();
    return there;
}

int SearchRecords::count() const {
    if (!database_) return 0;
    Database::Statement s(database_, "SELECT count(*) FROM candidates");
    return s.step() ? int(s.whole()) : 0;
}

}  // namespace cryolite
