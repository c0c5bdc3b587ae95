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

/// The name of the number that chooses automatic loops instead of written ones (docs/tune.md).
inline const std::string automatic_number = "automatic";
/// Its values that take long to compile: autoschedulers with wide beams.
inline constexpr int late_automatic[] = {4, 5};

using LoopNumbers = std::map<std::string, int>;
/// "columns=48 rows=4"
std::string text_of(const LoopNumbers &numbers);

/// A kernel of a step, with the anchor stages of all its calls.
struct SearchKernel {
    std::string name;  ///< the first of its names in the plan
    std::string symbol, algorithm;
    std::vector<std::string> loops_of;  ///< "h.0.mlp.c_fc, forward"
    std::vector<LoopNumber> numbers{};
    double share = 0;     ///< of the step's time
    double roof = 0;      ///< the roofline's time as part of the kernel's time
    std::string lines{};  ///< the search's lines in the step that it is a kernel of
};
/// What identifies a kernel whatever loops it has.
std::string name_of(const SearchKernel &kernel);

/// A kernel as a step calls it.
struct StepKernel {
    std::string key;       ///< the key of its measured time
    int calls = 0;         ///< in one step
    double predicted = 0;  ///< seconds of a call, by the cost model
    bool operator==(const StepKernel &other) const { return key == other.key && calls == other.calls; }
};

/// A line that could be added to the lines of a step.
struct LineMove {
    std::string line;
    std::string refused{};              ///< by which rule of legality; empty: it is legal
    std::vector<StepKernel> kernels{};  ///< of the step with the line, sorted by their keys
};

/// The kernels of a step, sorted by their keys.
struct StepKernels {
    std::vector<StepKernel> list{};
    std::string refused{};  ///< why the step cannot be compiled
};

/// Seconds of a call of each kernel of a step, by its key.
struct CallTimes {
    std::map<std::string, double> seconds{};
    std::string refused{};  ///< why the step cannot be run; if this is empty, too, the machine is too busy
};

/// The lines that set `numbers` for a kernel. Stages whose names differ only in a block's number share a line, with a
/// star for the number, unless the star would also match a stage of another kernel in `all` with one of the numbers.
std::vector<std::string> loop_lines(const SearchKernel &kernel, const LoopNumbers &numbers,
                                    const std::vector<SearchKernel> &all);

/// A candidate, after it was compiled.
struct MadeKernel {
    std::string folder;  ///< of its library
    std::string symbol;
    std::string refused;      ///< why it was refused; empty: it was not
    std::string unsure = {};  ///< why it was not compared with the unscheduled kernel
    double limit = 0;         ///< share of the peak that its inner loops allow; 0: not known
};

/// Times of a candidate (`after`) and of what it has to beat (`before`), which run in turn.
struct Timing {
    double before = 0, after = 0;  ///< seconds
    double noise = 0;              ///< of after / before
    bool same_bits = false;
    bool busy = false;         ///< the machine changed its speed meanwhile: the times say nothing, and are not kept
    std::string refused = "";  ///< why the candidate must not be taken, whatever its time

    double ratio() const { return before > 0 ? after / before : 0; }
};

/// The median; if the count is even, the upper one of the two in the middle; 0 of an empty list.
double median(std::vector<double> list);

/// Compiles and times candidates in child processes, so that a candidate that crashes ends in a `refused`. `lines`: the
/// lines that the search has found, joined by "; ".
class Measurer {
public:
    virtual ~Measurer() = default;
    /// The kernels of the step that have numbers.
    virtual std::vector<SearchKernel> kernels(const std::string &lines) = 0;
    /// All kernels of the step.
    virtual StepKernels step(const std::string &lines) = 0;
    /// Lines that could be added to `lines`, each with whether it is legal, except those in `without`: as many as can
    /// be judged in `seconds`.
    virtual std::vector<LineMove> moves(const std::string &lines, const std::set<std::string> &without,
                                        double seconds) = 0;
    /// Times the step's kernels. Each call measures anew.
    virtual CallTimes time_calls(const std::string &lines) = 0;
    /// Compiles candidates. `made` is called for each as soon as its result is known, with its index in `numbers`.
    using Made = std::function<void(size_t, const MadeKernel &)>;
    virtual std::vector<MadeKernel> make(const SearchKernel &kernel, const std::vector<std::string> &numbers,
                                         const Made &made) = 0;
    virtual Timing time_kernel(const SearchKernel &kernel, const MadeKernel &before, const MadeKernel &after) = 0;
    /// Times whole steps with the lines `before` and with the lines `after`.
    virtual Timing time_step(const std::string &before, const std::string &after) = 0;
};

/// What a search tells while it goes on: of a candidate that was tried, a kernel that was searched, or a line.
struct SearchNews {
    enum What { of_candidate, of_kernel, of_line } what = of_candidate;
    std::string of{};         ///< the kernel, or the line
    std::string candidate{};  ///< the numbers
    double share = 0, ratio = 0;
    /// `ratio` as it was predicted; 0: not known. Of a line: from the sum of the times of the step's kernels, before
    /// the new ones were timed. Of numbers: from what the inner loops of the kernel allow.
    double predicted = 0;
    double roof = 0, roof_now = 0;  ///< SearchKernel::roof before the search of its loops, and with the best ones
    double step = 1;                ///< the step's time with all that was taken, as part of the shipped one's
    std::string refused{};
    std::string unsure{};       ///< why it was compared with the shipped kernel alone, not with the unscheduled one
    std::string unconfirmed{};  ///< numbers that won once, but not again, or for which no time was left
    std::string not_taken{};    ///< why a line that was timed as faster is not taken
    bool known = false;         ///< it was measured by an earlier search
    bool taken = false;
    int tried = 0, refusals = 0;  ///< so far: of this kernel or, if this is of a line, of all lines
    int left = 0;                 ///< candidates left: of this kernel; after it, or of a line: of the search
    int kept = 0;                 ///< of all lines of the step schedule, so far
};

struct SearchResult {
    std::vector<std::string> lines;  ///< in the order in which they were found
    int candidates = 0, refused = 0, known = 0;
    int unsure = 0;  ///< of the candidates: compared with the shipped kernel alone
    int lines_tried = 0, lines_refused = 0, lines_kept = 0;  ///< of the candidates: lines of the step schedule
    double step = 1;                                         ///< SearchNews::step
};

struct SearchOptions {
    bool same_bits = false;
    bool from_scratch = false;  ///< kernels have automatic loops only
    std::string step;           ///< the digest by which the records know the step: SearchRecords::choose
    std::function<double()> seconds_left = {};
    std::function<bool()> stopped = {};  ///< whether Ctrl-C was pressed
    std::function<void(const SearchNews &)> tell = {};
    std::function<void(const SearchResult &)> keep = {};  ///< is given the best so far whenever a gain is confirmed
};

/// "a; b"
std::string joined(const std::vector<std::string> &lines);

/// Keeps the times of those kernels of a step that were never timed before. The other kernels' times, now and when they
/// were kept, tell whether the machine is faster or slower now, and the new times are corrected for that. If all of
/// the step's kept times together are so long that something else must have run beside them, the new ones replace them.
void remember_times(SearchRecords &records, const std::vector<StepKernel> &kernels, const CallTimes &times);
/// Seconds of a step: the sum of its kernels' kept times, or else of their predicted ones.
double seconds_of(const SearchRecords &records, const std::vector<StepKernel> &kernels);

class Search {
public:
    Search(Measurer &measurer, SearchRecords &records, SearchOptions options);

    /// Tries next what promises the largest gain for its time: the loops of a kernel that is far from its roofline, or
    /// a line, judged by the sum of the times of the step's kernels with it. Each kernel is timed once; a line that
    /// wins by these times is confirmed by timing whole steps. A line that was taken may make other lines legal, and
    /// bring new kernels, whose loops are searched. Automatic loops instead of written ones come last, as they take
    /// long to compile. Ends early, with the best so far, when no time is left or the search is stopped.
    /// `step_seconds`: what a step takes now, by which kept times that were disturbed are known; 0: not known.
    const SearchResult &run(double step_seconds = 0);
    /// The result so far.
    const SearchResult &result() const { return result_; }

private:
    struct Trial {
        LoopNumbers numbers;
        MadeKernel made{};
        CandidateRecord record{};
    };
    /// A legal line that waits to be tried.
    struct Open {
        std::string line;
        double predicted = 0;     ///< the step's time with it, as part of the time without
        bool with_loops = false;  ///< it lost alone, but may win once the loops of its kernels are searched
        double promise = 0;
    };
    /// Loops of a kernel, and the lines that give it them.
    struct Loops {
        LoopNumbers numbers{};
        std::vector<std::string> lines{};
        double ratio = 1;      ///< the kernel's time as part of its time before
        std::string unsure{};  ///< MadeKernel::unsure
    };

    Measurer &measurer_;
    SearchRecords &records_;
    SearchOptions options_;
    SearchResult result_;
    std::vector<StepKernel> step_;       ///< the kernels of the best step so far
    double whole_ = 0;                   ///< seconds of the step without lines; 0: not known
    std::vector<SearchKernel> kernels_;  ///< those of its kernels that have numbers
    std::vector<Open> open_;
    std::set<std::string> tried_, searched_;  ///< lines that were tried; kernels whose loops were searched
    std::map<std::string, Loops> found_;      ///< loops that were taken, by kernel

    bool over() const;
    int candidates_left() const;
    void tell(SearchNews news) const;
    void look();
    std::string learn(const std::string &lines, std::vector<StepKernel> &kernels);
    double seconds_of(const std::vector<StepKernel> &kernels) const { return cryolite::seconds_of(records_, kernels); }
    bool wins(const CandidateRecord &r) const;
    /// Why a line with this result, which is not taken, is not; empty: it is refused, or not faster at all.
    std::string why_not(const CandidateRecord &r) const;

    // Loops: search_loops.cpp.
    const SearchKernel *next_kernel() const;
    void kernel(const SearchKernel &k, const std::vector<LoopNumber> &numbers);
    Loops best_loops(const SearchKernel &k, const std::vector<LoopNumber> &numbers, SearchNews &news);
    LoopNumbers numbers_now(const SearchKernel &k) const;
    std::vector<LoopNumbers> neighbours(const SearchKernel &k, const LoopNumbers &from, const LoopNumber &of) const;
    /// Which values of the number `automatic`: those that compile in seconds, those that take longer, or all.
    enum class Automatic { none, soon, late, all };
    std::vector<LoopNumber> numbers_of(const SearchKernel &k, Automatic automatic) const;
    std::vector<LoopNumber> first_numbers(const SearchKernel &k) const {
        return numbers_of(k, options_.from_scratch ? Automatic::soon : Automatic::none);
    }
    void new_numbers(const std::string &name);
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
    bool take_loops(const Loops &loops, const Loops &instead_of, std::string &refused);

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

/// A measurement as a record to keep.
CandidateRecord record_of(const Timing &t);

}  // namespace cryolite
