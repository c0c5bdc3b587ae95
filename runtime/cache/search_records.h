#pragma once
// What searches over schedules have measured on this machine and found: CACHE/searches.sqlite, by whole transactions,
// so that a kill loses at most the candidate at work.

#include <optional>
#include <vector>

#include "runtime/cache/database.h"

namespace cryolite {

/// The machine that a time is of: those of another one say no more here than what to try first.
struct SearchMachine {
    std::string id;  ///< digest of the processor, its features and its caches
    int threads = 1;
};

/// A candidate beside what it was measured against.
struct CandidateKey {
    std::string algorithm;  ///< digest of the kernel without its schedule; "step": of a whole one
    std::string base;       ///< symbol of the kernel that it was timed beside, which has the schedule and the compiler
    std::string candidate;  ///< "rows=4 columns=48"; or a line of the step schedule
};

/// What came of it.
struct CandidateRecord {
    double ratio = 0;  ///< of its time and that of the base; 0: it was refused
    double noise = 0;  ///< of the ratio
    bool same_bits = false;
    std::string refused = "";  ///< why
};

/// What a search found for a step.
struct SearchChoice {
    std::string app{}, lines{};
    bool same_bits = false;
    double before = 0, after = 0;  ///< seconds of a step
    int candidates = 0, refused = 0;
    int64_t date = 0;
};

class SearchRecords {
public:
    SearchRecords(const fs::path &folder, SearchMachine machine);

    /// Why nothing can be kept; empty: all is.
    const std::string &hindrance() const { return database_.hindrance(); }

    /// Why nothing can be written, though it can be read; empty: it can.
    std::string why_read_only();

    std::optional<CandidateRecord> find(const CandidateKey &key) const;
    /// Errors: it cannot be written, as on a full disk.
    void remember(const CandidateKey &key, const CandidateRecord &record);

    /// What candidates came to on other machines, or with other threads, beside whatever they were timed there: the
    /// median of their ratios, or nothing known. `refused`: on each.
    struct Elsewhere {
        std::optional<double> ratio = {};
        bool refused = false;
    };
    /// `base`: what the key's base begins with.
    Elsewhere elsewhere(const std::string &algorithm, const std::string &candidate, const std::string &base = "") const;

    /// Seconds of a call of a kernel, as it was timed in a step: by its symbol, which has its loops and the compiler.
    std::optional<double> time_of(const std::string &kernel) const;
    /// Errors: as of `remember`.
    void remember_time(const std::string &kernel, double seconds);

    /// `step`: digest of what a bundle depends on but the program's code.
    std::optional<SearchChoice> choice(const std::string &step) const;
    /// Replaces an older one. Errors: as of `remember`.
    void choose(const std::string &step, const SearchChoice &choice);
    /// Whether there was one.
    bool forget(const std::string &step);

    int count() const;  ///< candidates, of any machine

    static fs::path file(const fs::path &folder);
    static std::string damage(const fs::path &folder);
    static void remove(const fs::path &folder);

private:
    Database database_;
    SearchMachine machine_;
    bool has_times_ = false;  ///< a file of an older version, which may not be written, has none
};

}  // namespace cryolite
