#pragma once
// The search itself: which candidates are tried, and which of them win. How they are compiled and timed is the
// measurer's.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/cache/search_records.h"

namespace cryolite {

/// A number of a kernel's loops, as the generator program declares it (schedules/tunables.h).
struct LoopNumber {
    std::string name;
    int value = 0, usual = 0;
    std::vector<int> legal;
    bool same_order = true;  ///< other values add in the same order
};

using LoopNumbers = std::map<std::string, int>;
/// "columns=48 rows=4"
std::string text_of(const LoopNumbers &numbers);

/// A kernel of a step, with all stages whose loops it is.
struct SearchKernel {
    std::string name;  ///< in the plan, of the first
    std::string symbol, algorithm;
    std::vector<std::string> loops_of;  ///< "h.0.mlp.c_fc, forward"
    std::vector<LoopNumber> numbers{};
    double share = 0;  ///< of the step's time
    double roof = 0;   ///< its part of what the machine's roofline allows
};

/// The lines that give a kernel such numbers. Stages whose names differ in a block's number are one line, with a star,
/// unless another kernel of `all` has such a stage.
std::vector<std::string> loop_lines(const SearchKernel &kernel, const LoopNumbers &numbers,
                                    const std::vector<SearchKernel> &all);

/// A candidate that is compiled.
struct MadeKernel {
    std::string folder;  ///< of its library
    std::string symbol;
    std::string refused;  ///< why there is none
};

/// Times of a candidate and of what it is to beat, run in turn.
struct Timing {
    double before = 0, after = 0;  ///< seconds
    double noise = 0;              ///< of after / before
    bool same_bits = false;
    bool busy = false;         ///< the machine changed its speed meanwhile: the times say nothing, and are not kept
    std::string refused = "";  ///< why the candidate must not be taken, whatever its time

    double ratio() const { return before > 0 ? after / before : 0; }
};

/// Compiles and times in processes of their own: whatever a candidate does, it ends in a `refused`.
class Measurer {
public:
    virtual ~Measurer() = default;
    virtual std::vector<MadeKernel> make(const SearchKernel &kernel, const std::vector<std::string> &numbers) = 0;
    virtual Timing time_kernel(const SearchKernel &kernel, const MadeKernel &before, const MadeKernel &after) = 0;
    /// Whole steps with these lines and with those.
    virtual Timing time_step(const std::string &before, const std::string &after) = 0;
};

/// What is told of a search while it goes on.
struct SearchNews {
    enum What { of_candidate, of_kernel, of_line } what = of_candidate;
    std::string of{};         ///< the kernel, or the line
    std::string candidate{};  ///< the numbers
    double share = 0, ratio = 0;
    double roof = 0, roof_now = 0;  ///< of the kernel: as it was shipped, and as it is best
    double step = 1;                ///< the step's time with all that was taken, as part of the shipped one's
    std::string refused{};
    bool known = false;  ///< it was measured by an earlier search
    bool taken = false;
    int tried = 0, left = 0, refusals = 0;  ///< of this kernel, so far
};

struct SearchOptions {
    bool same_bits = false;
    bool from_scratch = false;  ///< no kernel has loops but automatic ones
    std::string step;           ///< by which records know it: SearchRecords::choose
    std::function<double()> seconds_left = {};
    std::function<bool()> stopped = {};  ///< by Ctrl-C
    std::function<void(const SearchNews &)> tell = {};
};

struct SearchResult {
    std::vector<std::string> lines;  ///< in the order in which they were found
    int candidates = 0, refused = 0, known = 0;
    double step = 1;  ///< as SearchNews has it
};

/// "a; b"
std::string joined(const std::vector<std::string> &lines);

class Search {
public:
    Search(Measurer &measurer, SearchRecords &records, SearchOptions options);

    /// Kernels by their share of the step, then lines of the step schedule, then automatic loops instead of written
    /// ones, which take long to compile; each is one change of what was best before. Ends early, with what is best so
    /// far, when no time is left or it is stopped.
    const SearchResult &run(std::vector<SearchKernel> kernels, std::vector<std::string> moves);
    /// So far.
    const SearchResult &result() const { return result_; }

private:
    struct Trial {
        LoopNumbers numbers;
        MadeKernel made;
        CandidateRecord record;
    };

    Measurer &measurer_;
    SearchRecords &records_;
    SearchOptions options_;
    SearchResult result_;
    std::map<std::string, LoopNumbers> found_;  ///< that were taken, by the kernel's symbol

    bool over() const;
    void tell(SearchNews news) const;
    void kernel(const SearchKernel &k, const std::vector<SearchKernel> &all, const std::vector<LoopNumber> &numbers);
    std::vector<LoopNumbers> neighbours(const SearchKernel &k, const LoopNumbers &from, const LoopNumber &of) const;
    std::vector<LoopNumber> numbers_of(const SearchKernel &k, bool automatic) const;
    std::vector<Trial> try_all(const SearchKernel &k, const MadeKernel &incumbent,
                               const std::vector<LoopNumbers> &candidates, SearchNews &news);
    bool wins(const CandidateRecord &r) const;
    bool wins_again(const SearchKernel &k, const MadeKernel &incumbent, const Trial &t);
    bool take_lines(const std::vector<std::string> &lines, const std::vector<std::string> &instead_of);
    void move(const std::string &line, std::vector<std::string> &more);
};

}  // namespace cryolite
