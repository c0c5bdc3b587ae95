#pragma once
// A search as a page: what `tune --report` writes.

#include "apps/cryolite/tune/search.h"

namespace cryolite {

/// The time of a kernel in a step, added up over equal blocks.
struct KernelTime {
    std::string name;
    double seconds = 0;
    double roof_seconds = 0;  ///< the least that the machine's roofline allows
};

/// A step by its kernels.
struct StepProfile {
    double seconds = 0;
    std::vector<KernelTime> kernels;
};

struct SearchReport {
    std::string title, summary;
    StepProfile before, after;  ///< as it was shipped, and with what was found
    struct Moment {
        double seconds = 0;  ///< since the search began
        SearchNews news;
    };
    std::vector<Moment> moments;
    std::vector<std::string> lines;  ///< of the winner; none: nothing is better than what is shipped
    std::string not_taken;           ///< why what was found is not taken; empty: it is
};

/// The page as one file: see `html_page`.
std::string search_page(const SearchReport &report);

}  // namespace cryolite
