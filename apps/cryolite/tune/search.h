#pragma once
// The search itself: which candidates are tried, loops of kernels and lines of the step schedule, and which of them
// win. How they are compiled and timed is the measurer's.

#include <functional>
#include <map>
#include <optional>
#include <set>
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

/// Of any kernel: automatic loops instead of written ones (docs/tune.md).
inline const std::string automatic_number = "automatic";

using LoopNumbers = std::map<std::string, int>;
/// "columns=48 rows=4"
std::string text_of(const LoopNumbers &numbers);

/// A kernel of a step, with all stages whose loops it is.
struct SearchKernel {
    std::string name;  ///< in the plan, of the first
    std::string symbol, algorithm;
    std::vector<std::string> loops_of;  ///< "h.0.mlp.c_fc, forward"
    std::vector<LoopNumber> numbers{};
    double share = 0;     ///< of the step's time
    double roof = 0;      ///< its part of what the machine's roofline allows
    std::string lines{};  ///< of the search, that the step has which it is of
};
/// What a kernel is known by, whatever its loops.
std::string name_of(const SearchKernel &kernel);

/// A kernel as a step calls it.
struct StepKernel {
    std::string key;       ///< by which its time is known
    int calls = 0;         ///< of a step
    double predicted = 0;  ///< seconds of a call, by the cost model
    bool operator==(const StepKernel &other) const { return key == other.key && calls == other.calls; }
};

/// A line that a step could have beside those that it has.
struct LineMove {
    std::string line;
    std::string refused{};              ///< by which rule of legality
    std::vector<StepKernel> kernels{};  ///< of the step with it, sorted by their keys
};

/// The kernels of a step, sorted by their keys.
struct StepKernels {
    std::vector<StepKernel> list{};
    std::string refused{};  ///< why the step cannot be compiled
};

/// Seconds of a call of each kernel of a step, by its key.
struct CallTimes {
    std::map<std::string, double> seconds{};
    std::string refused{};  ///< why it cannot be run; none of both: the machine is too busy
};

/// The lines that give a kernel such numbers. Stages whose names differ in a block's number are one line, with a star,
/// unless another kernel of `all` has such a stage.
std::vector<std::string> loop_lines(const SearchKernel &kernel, const LoopNumbers &numbers,
                                    const std::vector<SearchKernel> &all);

/// A candidate that is compiled.
struct MadeKernel {
    std::string folder;  ///< of its library
    std::string symbol;
    std::string refused;      ///< why there is none
    std::string unsure = {};  ///< why it was not compared with the unscheduled kernel
    double limit = 0;         ///< share of the peak that its inner loops allow; 0: not known
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

/// The one in the middle, or the upper one of two; 0 of none.
double median(std::vector<double> list);

/// Compiles and times in processes of their own: whatever a candidate does, it ends in a `refused`. `lines`: those that
/// the search has found.
class Measurer {
public:
    virtual ~Measurer() = default;
    /// Those of the step that have numbers.
    virtual std::vector<SearchKernel> kernels(const std::string &lines) = 0;
    /// All of the step.
    virtual StepKernels step(const std::string &lines) = 0;
    /// What legality says of lines that the step could have beside these, `without` some: as many as it judges in so
    /// many seconds.
    virtual std::vector<LineMove> moves(const std::string &lines, const std::set<std::string> &without,
                                        double seconds) = 0;
    /// Each call measures.
    virtual CallTimes time_calls(const std::string &lines) = 0;
    /// `made` is told of each as soon as it is known, by its place in `numbers`.
    using Made = std::function<void(size_t, const MadeKernel &)>;
    virtual std::vector<MadeKernel> make(const SearchKernel &kernel, const std::vector<std::string> &numbers,
                                         const Made &made) = 0;
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
    /// Of a line: the step's time as the sum of its kernels', before those were timed. Of numbers: the kernel's time,
    /// by the limit of its inner loops; 0: not known.
    double predicted = 0;
    double roof = 0, roof_now = 0;  ///< of the kernel: as it was shipped, and as it is best
    double step = 1;                ///< the step's time with all that was taken, as part of the shipped one's
    std::string refused{};
    std::string unsure{};  ///< why it was compared with the shipped kernel alone, not with the unscheduled one
    bool known = false;    ///< it was measured by an earlier search
    bool taken = false;
    int tried = 0, refusals = 0;  ///< of this kernel, so far; of a line: of all lines
    int left = 0;                 ///< candidates: of this kernel; once it is searched, and of a line: of the search
    int kept = 0;                 ///< of all lines, so far
};

struct SearchResult {
    std::vector<std::string> lines;  ///< in the order in which they were found
    int candidates = 0, refused = 0, known = 0;
    int unsure = 0;  ///< of the candidates: compared with the shipped kernel alone
    int lines_tried = 0, lines_refused = 0, lines_kept = 0;  ///< of the candidates: lines of the step schedule
    double step = 1;                                         ///< as SearchNews has it
};

struct SearchOptions {
    bool same_bits = false;
    bool from_scratch = false;  ///< no kernel has loops but automatic ones
    std::string step;           ///< by which records know it: SearchRecords::choose
    std::function<double()> seconds_left = {};
    std::function<bool()> stopped = {};  ///< by Ctrl-C
    std::function<void(const SearchNews &)> tell = {};
    std::function<void(const SearchResult &)> keep = {};  ///< what is best so far, as soon as more is confirmed
};

/// "a; b"
std::string joined(const std::vector<std::string> &lines);

/// Keeps the times of kernels of a step that were never timed. What its others took when they were timed tells how fast
/// the machine is meanwhile.
void remember_times(SearchRecords &records, const std::vector<StepKernel> &kernels, const CallTimes &times);
/// Of a step: the times that are kept, or else those that are predicted.
double seconds_of(const SearchRecords &records, const std::vector<StepKernel> &kernels);

class Search {
public:
    Search(Measurer &measurer, SearchRecords &records, SearchOptions options);

    /// What promises most for its time is next: the loops of a kernel, far from its roofline, or a line, by the sum of
    /// the times of the kernels that the step has with it. Those times are measured once; what wins by them is
    /// confirmed as a whole step. A line that was taken makes others legal, and kernels whose loops are searched.
    /// Automatic loops instead of written ones come last, as they take long to compile. Ends early, with what is best
    /// so far, when no time is left or it is stopped.
    const SearchResult &run();
    /// So far.
    const SearchResult &result() const { return result_; }

private:
    struct Trial {
        LoopNumbers numbers;
        MadeKernel made{};
        CandidateRecord record{};
    };
    /// A legal line that was not tried yet.
    struct Open {
        std::string line;
        double predicted = 0;     ///< of the step's time
        bool with_loops = false;  ///< it lost, but the loops of its kernels may turn that
        double promise = 0;
    };
    /// Loops of a kernel, and the lines that give it them.
    struct Loops {
        LoopNumbers numbers{};
        std::vector<std::string> lines{};
        double ratio = 1;      ///< of its time before
        std::string unsure{};  ///< as MadeKernel has it
    };

    Measurer &measurer_;
    SearchRecords &records_;
    SearchOptions options_;
    SearchResult result_;
    std::vector<StepKernel> step_;       ///< of the step as it is best
    std::vector<SearchKernel> kernels_;  ///< those of it that have numbers
    std::vector<Open> open_;
    std::set<std::string> tried_, searched_;  ///< lines; kernels
    std::map<std::string, Loops> found_;      ///< that were taken, by kernel

    bool over() const;
    int candidates_left() const;
    void tell(SearchNews news) const;
    void look();
    std::string learn(const std::string &lines, std::vector<StepKernel> &kernels);
    double seconds_of(const std::vector<StepKernel> &kernels) const { return cryolite::seconds_of(records_, kernels); }
    bool wins(const CandidateRecord &r) const;

    // Loops: search_loops.cpp.
    const SearchKernel *next_kernel() const;
    void kernel(const SearchKernel &k, const std::vector<LoopNumber> &numbers);
    Loops best_loops(const SearchKernel &k, const std::vector<LoopNumber> &numbers, SearchNews &news);
    LoopNumbers numbers_now(const SearchKernel &k) const;
    std::vector<LoopNumbers> neighbours(const SearchKernel &k, const LoopNumbers &from, const LoopNumber &of) const;
    std::vector<LoopNumber> numbers_of(const SearchKernel &k, bool automatic) const;
    struct Outlook {
        double gain;     ///< as part of the step's time
        int candidates;  ///< that have to be tried for it
    };
    Outlook outlook(const SearchKernel &k) const;
    double promise(const SearchKernel &k) const;
    void sort_by_promise(const SearchKernel &k, const MadeKernel &incumbent, std::vector<Trial> &trials) const;
    std::vector<Trial> try_all(const SearchKernel &k, const MadeKernel &incumbent,
                               const std::vector<LoopNumbers> &candidates, SearchNews &news);
    bool wins_again(const SearchKernel &k, const MadeKernel &incumbent, const Trial &t);
    bool take_loops(const Loops &loops, const Loops &instead_of);

    // Lines: search_lines.cpp.
    void propose();
    void line(const Open &o);
    void line_with_loops(const Open &o);
    std::optional<CandidateRecord> by_kernels(const std::vector<std::string> &lines);
    bool judge(const Open &o, const std::vector<std::string> &lines, std::optional<CandidateRecord> r,
               const CandidateKey &key, bool known);
    std::optional<CandidateRecord> confirm(const std::vector<std::string> &lines);
    void may_turn(const Open &o, const std::vector<std::string> &lines, double ratio);
    std::vector<SearchKernel> new_ones(std::vector<SearchKernel> kernels) const;
};

/// What a measurement says, as it is kept.
CandidateRecord record_of(const Timing &t);

}  // namespace cryolite
