#pragma once
// What a search has found so far, in the cache as soon as it is confirmed: a kill loses nothing of it.

#include <functional>

#include "runtime/cache/search_records.h"

namespace cryolite {

/// What a search from scratch begins with.
extern const std::string scratch_lines;

/// Whether a search found anything.
bool has_lines(const SearchChoice &c);

class KeptChoice {
public:
    /// `step`: by which records know it.
    KeptChoice(SearchRecords &records, std::string step, bool same_bits);

    /// Keeps it, unless an earlier search's choice gained more. Errors: those of SearchRecords::choose.
    void so_far(const SearchChoice &c);
    /// At the end. An earlier search's choice stays where this one found nothing, or `beats` says that it is not faster
    /// than the earlier one. Whether the earlier one stays. Errors: those of SearchRecords::choose.
    bool end(const SearchChoice &c, const std::function<bool(const SearchChoice &earlier)> &beats);

private:
    SearchRecords &records_;
    const std::string step_;
    std::optional<SearchChoice> earlier_;  ///< what this search may not lose
    bool written_ = false;
};

/// Whether c gains more than another, each beside the shipped step as it was timed then.
bool gains_more(const SearchChoice &c, const SearchChoice &other);

}  // namespace cryolite
