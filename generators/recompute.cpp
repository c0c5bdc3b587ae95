// Which activations the backward pass builds again, so that a step fits into a budget of bytes.

#include "generators/recompute.h"

#include <algorithm>

#include "generators/memory_plan.h"
#include "generators/partition.h"

namespace cryolite {

namespace {

// Of the machine, only the ratio of the two matters: a core with vector units of 512 bits, and its share of DRAM.
constexpr double flops_per_second = 100e9, bytes_per_second = 15e9;

struct Candidate {
    int call;
    double seconds_per_byte;
};

double seconds(const StepProgram &p, const Graph::Call &c) {
    double moved = double(p.buffers[p.value_buffer[c.output]].bytes());
    for (int v : c.inputs) moved += double(p.buffers[p.value_buffer[v]].bytes());
    return c.layer->flops(p.graph.values()[c.inputs[0]].shape) / flops_per_second + moved / bytes_per_second;
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
        // The residual stream stays: what is built again begins there, not at the model's input.
        if (calls[c].layer->nature() == Nature::sum) continue;
        if (p.blocks.calls.count(c)) continue;  // gone after each block as it is
        list.push_back({c, seconds(p, calls[c]) / double(p.buffers[b].bytes())});
    }
    std::stable_sort(list.begin(), list.end(),
                     [](auto &a, auto &b) { return a.seconds_per_byte < b.seconds_per_byte; });
    return list;
}

int64_t predicted(const StepProgram &p) { return kept_bytes(p) + p.workers * predict_memory(p).bytes; }

}  // namespace

void make_step(StepProgram &p, StepOptions options, int64_t bytes, const MakeStep &make) {
    make(p, options);
    if (bytes <= 0 || predicted(p) <= bytes) return;
    const std::vector<Candidate> list = candidates(p);
    auto with = [&](size_t n) {
        options.rebuilt.clear();
        for (size_t i = 0; i < n; i++) options.rebuilt.insert(list[i].call);
        p = StepProgram();
        make(p, options);
        return predicted(p);
    };
    // More of them is not always less: what is built again lives beside what it is built from. Bisection, then steps.
    size_t low = 0, high = list.size();
    int64_t least = with(high);
    size_t made = high;
    bool fits = least <= bytes;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        const int64_t now = with(made = middle);
        least = std::min(least, now);
        fits |= now <= bytes;
        (now <= bytes ? high : low) = middle;
    }
    if (!fits)
        fail("the step does not fit into {:.2f} MB: with all that can be built again it takes {:.2f} MB; allow that, or "
             "use a smaller batch, context or model", 1e-6 * double(bytes), 1e-6 * double(least));
    if (made != high) with(high);
}

}  // namespace cryolite
