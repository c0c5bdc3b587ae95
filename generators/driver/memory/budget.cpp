// Which activations the backward pass rematerialises, so that a step fits into a budget of bytes.

#include "generators/driver/memory/budget.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "generators/passes/placement/memory.h"
#include "generators/driver/memory/memory_limit.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

// Only the ratio of the two matters. They are those of a core with 512-bit vectors and its share of DRAM's bandwidth.
constexpr double flops_per_second = 100e9, bytes_per_second = 15e9;

/// A call that may be rematerialised, with the calls that go with it: those that compute a sum's unstored terms, and
/// those whose results are views of its result.
struct Candidate {
    std::vector<CallId> calls;
    double seconds = 0, seconds_per_byte = 0;
};

double seconds(const StepProgram &p, const ir::Call &c) {
    double moved = double(p.values[c.output].bytes());
    for (ValueId v : c.inputs) moved += double(p.values[v].bytes());
    return c.flops / flops_per_second + moved / bytes_per_second;
}

/// The calls that a call's inputs come from.
std::vector<CallId> sources(const StepProgram &p, CallId call) {
    std::vector<CallId> list;
    for (ValueId v : p.calls[call].inputs)
        if (const CallId from = p.values[v].producer) list.push_back(from);
    return list;
}

/// A sum's terms go with it where they are never stored. A value's views go with it, since they would keep it stored.
Candidate candidate(const StepProgram &p, CallId c) {
    Candidate it{{c}};
    for (CallId from : sources(p, c))
        if (p.is_sum(c) && !p.values[p.calls[from].output].stored) it.calls.push_back(from);
    for (CallId call : it.calls) it.seconds += seconds(p, p.calls[call]);
    it.seconds_per_byte = it.seconds / double(p.values[p.calls[c].output].bytes());
    for (const ir::Call &other : p.calls)
        if (const CallId view = p.values[other.output].producer; p.values[other.output].part_of == p.calls[c].output)
            it.calls.push_back(view);
    return it;
}

/// Of two consecutive sums of a residual stream only the cheaper one may be rematerialised. So recomputation begins at
/// a sum nearby, not at the model's input.
void keep_every_other_sum(const StepProgram &p, std::vector<Candidate> &list) {
    auto reads = [&](CallId c, CallId of) {
        const auto from = sources(p, c);
        return std::ranges::count(from, of) > 0;
    };
    std::vector<CallId> gone;
    std::erase_if(list, [&](const Candidate &candidate) {
        const CallId c = candidate.calls[0];
        if (!p.is_sum(c)) return false;
        for (CallId g : gone)
            if (reads(c, g) || reads(g, c)) return true;
        gone.push_back(c);
        return false;
    });
}

/// The calls whose outputs are stored for the backward pass, those that cost least time for their bytes first. Among
/// equals the earliest in the model is first, because its output is stored longest.
std::vector<Candidate> candidates(const StepProgram &p) {
    std::set<ValueId> read;
    for (OpId id : ops_of(p, p.backward_entry()))
        for (const ir::Ref &r : p.ops[id].reads) read.insert(p.base(r.value));
    const std::set<ValueId> needed = sources_of_unstored(p);
    std::vector<Candidate> list;
    for (CallId c : p.calls.ids()) {
        const ValueId v = p.calls[c].output;
        if (p.is_result(v) || !read.count(v) || !p.values[v].stored || needed.count(v)) continue;
        if (p.chunks.calls.count(c)) continue;  // a chunk's output is not kept for the backward pass anyway
        list.push_back(candidate(p, c));
    }
    std::ranges::stable_sort(list, {}, &Candidate::seconds_per_byte);
    keep_every_other_sum(p, list);
    return list;
}

/// Options with which the step fits, and the predicted time that it takes beyond a step without a limit.
struct Fit {
    StepOptions options;
    double seconds = 0;
};

class Planner {
public:
    Planner(StepProgram &p, int64_t bytes, const Lower &lower) : p(p), bytes(bytes), lower(lower), usual(p.chunks) {}

    std::optional<Fit> best;
    int64_t least = std::numeric_limits<int64_t>::max();  ///< the fewest bytes of all steps that were tried

    /// Tries the head in chunks of `head_rows` rows. Does nothing where a line of the schedule rules such chunks out.
    void with_head(StepOptions options, int head_rows) {
        options.head_rows = head_rows, options.remat.clear();
        try {
            with(options);
        } catch (const Error &) {
            return;
        }
        const bool cheap = !best || more_blocks() < best->seconds;
        if (cheap && tried.insert(p.chunks.rows).second) search(options);
    }
    /// Looks for the fewest candidates, in their order, that have to be rematerialised for the step to fit.
    void search(StepOptions options) {
        const std::vector<Candidate> list = candidates(p);
        const double blocks = more_blocks();
        if (step_bytes(p) <= bytes) return keep(options, blocks);
        double again = 0;  // seconds of rematerialisation
        auto first = [&](size_t n) {
            options.remat.clear(), again = 0;
            for (size_t i = 0; i < n; i++) {
                options.remat.insert(list[i].calls.begin(), list[i].calls.end());
                again += list[i].seconds;
            }
        };
        auto fit = [&](size_t n) { return first(n), with(options); };
        // More candidates do not always need fewer bytes: a rematerialised value lives beside those it is made of.
        size_t low = 0, high = list.size();
        bool fits = fit(high);
        while (low + 1 < high) {
            const size_t middle = (low + high) / 2;
            const bool now = fit(middle);
            fits |= now;
            (now ? high : low) = middle;
        }
        if (!fits) return;
        first(high);
        keep(options, blocks + again);
    }

private:
    StepProgram &p;
    const int64_t bytes;
    const Lower &lower;
    const ir::ChunkedHead usual;
    std::set<int> tried = {usual.rows};

    bool with(const StepOptions &options) {
        p = lower(options);
        const int64_t now = step_bytes(p);
        least = std::min(least, now);
        return now <= bytes;
    }
    void keep(const StepOptions &options, double time) {
        if (!best || time < best->seconds) best = {options, time};
    }
    /// Seconds that chunks beyond the usual number take. Each reads and writes the gradients of the head once more. It
    /// also reads the weight again, but while it multiplies.
    double more_blocks() const {
        // two calls a chunk: head and loss
        auto blocks = [](const ir::ChunkedHead &b) { return b.rows ? int(b.calls.size()) / 2 : 1; };
        double moved = 0;
        for (ParamId w : p.chunks.head ? p.layers[p.chunks.head].parameters : std::vector<ParamId>())
            if (p.parameters[w].trained()) moved += 2.0 * double(p.values[p.parameters[w].gradient].bytes());
        return (blocks(p.chunks) - blocks(usual)) * moved / bytes_per_second;
    }
};

}  // namespace

StepProgram lower_within(int64_t bytes, const StepOptions &options, const Lower &lower) {
    StepProgram p = lower(options);
    if (bytes <= 0 || step_bytes(p) <= bytes) return p;
    Planner planner(p, bytes, lower);
    planner.search(options);
    for (int rows = head_block_rows(p.schedule->machine) / 2; rows >= 32 && options.head_rows < 0; rows /= 2)
        planner.with_head(options, rows);
    if (!planner.best)
        throw DoesNotFit(
            fmt::format("the step does not fit into {} ({} bytes): with all that can be rematerialised it takes {} "
                        "({} bytes)",
                        bytes_text(double(bytes)), bytes, bytes_text(double(planner.least)), planner.least),
            planner.least);
    return lower(planner.best->options);
}

}  // namespace cryolite::compiler
