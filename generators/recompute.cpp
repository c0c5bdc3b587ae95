// Which activations the backward pass builds again, so that a step fits into a budget of bytes.

#include "generators/recompute.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "generators/memory_plan.h"
#include "generators/partition.h"
#include "generators/size.h"

namespace cryolite::compiler {

namespace {

// Of the machine, only the ratio of the two matters: a core with vector units of 512 bits, and its share of DRAM.
constexpr double flops_per_second = 100e9, bytes_per_second = 15e9;

/// A call and, where it adds what is never stored, the calls that compute that.
struct Candidate {
    std::vector<int> calls;
    double seconds = 0, seconds_per_byte = 0;
};

double seconds(const StepProgram &p, const Graph::Call &c) {
    double moved = double(p.buffers[p.value_buffer[c.output]].bytes());
    for (int v : c.inputs) moved += double(p.buffers[p.value_buffer[v]].bytes());
    return c.layer->flops(p.graph.values()[c.inputs[0]].shape) / flops_per_second + moved / bytes_per_second;
}

bool is_sum(const StepProgram &p, int call) { return p.graph.calls()[call].layer->nature() == Nature::sum; }

/// The calls that a call's inputs come from.
std::vector<int> sources(const StepProgram &p, int call) {
    std::vector<int> list;
    for (int v : p.graph.calls()[call].inputs)
        if (const int from = p.graph.values()[v].producer; from >= 0) list.push_back(from);
    return list;
}

/// With a sum goes what it adds, where that is never stored.
Candidate candidate(const StepProgram &p, int c) {
    Candidate it{{c}};
    for (int from : sources(p, c))
        if (is_sum(p, c) && !p.buffers[p.value_buffer[p.graph.calls()[from].output]].stored) it.calls.push_back(from);
    for (int call : it.calls) it.seconds += seconds(p, p.graph.calls()[call]);
    it.seconds_per_byte = it.seconds / double(p.buffers[p.value_buffer[p.graph.calls()[c].output]].bytes());
    return it;
}

/// Of two sums of a residual stream that follow each other the cheaper one may go: what is built again begins at a sum
/// nearby, not at the model's input.
void keep_every_other_sum(const StepProgram &p, std::vector<Candidate> &list) {
    auto reads = [&](int c, int of) {
        const std::vector<int> from = sources(p, c);
        return std::count(from.begin(), from.end(), of) > 0;
    };
    std::vector<int> gone;
    std::erase_if(list, [&](const Candidate &candidate) {
        const int c = candidate.calls[0];
        if (!is_sum(p, c)) return false;
        for (int g : gone)
            if (reads(c, g) || reads(g, c)) return true;
        gone.push_back(c);
        return false;
    });
}

/// The calls whose outputs wait for the backward pass, cheapest first; among equals, the earliest of the model, which
/// would wait longest.
std::vector<Candidate> candidates(const StepProgram &p) {
    std::set<int> read;
    for (int k : p.plans.at("step"))
        for (int s : p.kernels[k].stages)
            for (int b : stage_reads(p, p.stages[s])) read.insert(p.base(b));
    std::vector<Candidate> list;
    auto &calls = p.graph.calls();
    for (int c = 0; c < int(calls.size()); c++) {
        const int b = p.value_buffer[calls[c].output];
        if (b == p.loss || b == p.output || !read.count(b) || !p.buffers[b].stored) continue;
        if (p.blocks.calls.count(c)) continue;  // gone after each block as it is
        list.push_back(candidate(p, c));
    }
    std::stable_sort(list.begin(), list.end(),
                     [](auto &a, auto &b) { return a.seconds_per_byte < b.seconds_per_byte; });
    keep_every_other_sum(p, list);
    return list;
}

int64_t predicted(const StepProgram &p) { return kept_bytes(p) + p.workers * predict_memory(p).bytes; }

/// A step that fits, and the time that it is predicted to take more than one without a limit.
struct Fit {
    StepOptions options;
    double seconds = 0;
};

class Planner {
public:
    Planner(StepProgram &p, int64_t bytes, const MakeStep &make) : p(p), bytes(bytes), make(make), usual(p.blocks) {}

    std::optional<Fit> best;
    int64_t least = std::numeric_limits<int64_t>::max();  ///< of all that were tried

    /// With the head in blocks of other rows; nothing where a line of the schedule says which, or does not go with blocks.
    void with_head(StepOptions options, int head_rows) {
        options.head_rows = head_rows, options.rebuilt.clear();
        try {
            with(options);
        } catch (const Error &) {
            return;
        }
        const bool cheap = !best || more_blocks() < best->seconds;
        if (cheap && tried.insert(p.blocks.rows).second) search(options);
    }
    /// As few values built again as will do.
    void search(StepOptions options) {
        const std::vector<Candidate> list = candidates(p);
        const double blocks = more_blocks();
        if (predicted(p) <= bytes) return keep(options, blocks);
        double again = 0;  // seconds
        auto first = [&](size_t n) {
            options.rebuilt.clear(), again = 0;
            for (size_t i = 0; i < n; i++) options.rebuilt.insert(list[i].calls.begin(), list[i].calls.end()), again += list[i].seconds;
        };
        auto fit = [&](size_t n) { return first(n), with(options); };
        // More of them is not always less: what is built again lives beside what it is built from.
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
    const MakeStep &make;
    const StepProgram::Blocks usual;
    std::set<int> tried = {usual.rows};

    bool with(const StepOptions &options) {
        p = StepProgram();
        make(p, options);
        const int64_t now = predicted(p);
        least = std::min(least, now);
        return now <= bytes;
    }
    void keep(const StepOptions &options, double time) {
        if (!best || time < best->seconds) best = {options, time};
    }
    /// Of blocks beyond the usual: each reads and writes the gradients of the head once more. It reads the weight again,
    /// too, but beside its multiply-adds.
    double more_blocks() const {
        auto blocks = [](const StepProgram::Blocks &b) { return b.rows ? int(b.calls.size()) / 2 : 1; };  // head and loss of each
        double moved = 0;
        for (const Parameter *w : p.blocks.head ? p.blocks.head->parameters() : std::vector<Parameter *>())
            moved += 2.0 * double(p.buffers[p.gradient_buffer.at(w)].bytes());
        return (blocks(p.blocks) - blocks(usual)) * moved / bytes_per_second;
    }
};

}  // namespace

void make_step(StepProgram &p, StepOptions options, int64_t bytes, const MakeStep &make) {
    make(p, options);
    if (bytes <= 0 || predicted(p) <= bytes) return;
    Planner planner(p, bytes, make);
    planner.search(options);
    for (int rows : {128, 64, 32})
        if (options.head_rows < 0 && !options.same_bits) planner.with_head(options, rows);
    if (!planner.best)
        fail("the step does not fit into {} ({} bytes): with all that can be built again it takes {} ({} bytes); allow that, or use "
             "a smaller batch, context or model", bytes_text(double(bytes)), bytes, bytes_text(double(planner.least)), planner.least);
    p = StepProgram();
    make(p, planner.best->options);
}

}  // namespace cryolite::compiler
