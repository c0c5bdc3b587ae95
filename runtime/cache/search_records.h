#pragma once
// What searches over schedules have measured and found: CACHE/searches.sqlite. Each record is a transaction, so a kill
// loses at most the candidate that is being measured.

#include <optional>
#include <vector>

#include "runtime/cache/database.h"

namespace cryolite {

/// The machine of a measured time. Times of other machines only tell which candidates to try first.
struct SearchMachine {
    std::string id;  ///< digest of the processor, its features and its caches
    int threads = 1;
};

/// A candidate, and what it was measured against.
struct CandidateKey {
    std::string algorithm;  ///< digest of the kernel without its schedule; "step": a whole step
    std::string base;       ///< symbol of the kernel it was timed against: depends on the schedule and the compiler
    std::string candidate;  ///< "rows=4 columns=48"; or a line of the step schedule
};

/// The result of measuring a candidate.
struct CandidateRecord {
    double ratio = 0;  ///< its time divided by the base's; 0: it was refused
    double noise = 0;  ///< of the ratio
    bool same_bits = false;
    std::string refused = "";  ///< why it was refused; empty: it was not
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

    /// Why no record can be kept; empty: they can.
    const std::string &hindrance() const { return database_.hindrance(); }

    /// Why records can be read but not written; empty: they can be written.
    std::string why_read_only();

    std::optional<CandidateRecord> find(const CandidateKey &key) const;
    /// Errors: it cannot be written, as on a full disk.
    void remember(const CandidateKey &key, const CandidateRecord &record);

    /// Results of a candidate on other machines, or with other numbers of threads, against any base: the median of its
    /// ratios, or nothing where none is known. `refused`: there are results, and all were refusals.
    struct Elsewhere {
        std::optional<double> ratio = {};
        bool refused = false;
    };
    /// `base`: takes only records whose base begins with this text.
    Elsewhere elsewhere(const std::string &algorithm, const std::string &candidate, const std::string &base = "") const;

    /// Seconds of a call of a kernel, timed in a step. The kernel's symbol depends on its loops and the compiler.
    std::optional<double> time_of(const std::string &kernel) const;
    /// Errors: as of `remember`.
    void remember_time(const std::string &kernel, double seconds);

    /// `step`: digest of all that a bundle depends on, but for the program's code.
    std::optional<SearchChoice> choice(const std::string &step) const;
    /// Replaces an older one. Errors: as of `remember`.
    void choose(const std::string &step, const SearchChoice &choice);
    /// Removes the choice. False: there was none.
    bool forget(const std::string &step);

    int count() const;  ///< candidates of all machines

    static fs::path file(const fs::path &folder);
    static std::string damage(const fs::path &folder);
    static void remove(const fs::path &folder);

private:
    Database database_;
    SearchMachine machine_;
    bool has_times_ = false;  ///< false: an older version made the file, which cannot be written
};

}  // namespace cryolite
