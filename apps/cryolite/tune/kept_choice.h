#pragma once
// Writes what a search finds to the cache as soon as it is confirmed, so that a kill loses nothing of it.

#include <functional>

#include "runtime/cache/search_records.h"

namespace cryolite {

/// The lines that a search from scratch begins with.
extern const std::string scratch_lines;

/// Whether a search found anything.
bool has_lines(const SearchChoice &c);

class KeptChoice {
public:
    /// `step`: the digest by which the records know the step.
    KeptChoice(SearchRecords &records, std::string step, bool same_bits);

    /// An earlier search's choice that changes bits, which one that keeps them replaces whatever it finds; or none.
    const std::optional<SearchChoice> &replaced() const { return replaced_; }
    /// Keeps `c`, unless its step is no faster yet, or an earlier search's choice gained more. Errors: those of
    /// SearchRecords::choose.
    void so_far(const SearchChoice &c);
    /// Keeps `c` at the end of the search, unless an earlier search's choice stays: it does if this search found
    /// nothing, or if `beats` says that `c` is not faster. Returns the one that is kept now. Errors: those of
    /// SearchRecords::choose.
    SearchChoice end(const SearchChoice &c, const std::function<bool(const SearchChoice &earlier)> &beats);

private:
    SearchRecords &records_;
    const std::string step_;
    std::optional<SearchChoice> earlier_;  ///< an earlier search's choice, which this search must not lose
    std::optional<SearchChoice> replaced_;
    bool written_ = false;
};

/// Whether `c` gains more than `other`, each beside the shipped step as its own search timed it.
bool gains_more(const SearchChoice &c, const SearchChoice &other);

}  // namespace cryolite
