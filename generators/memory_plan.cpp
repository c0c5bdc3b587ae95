#include "generators/memory_plan.h"

#include <algorithm>

namespace cryolite {

namespace {

constexpr int64_t alignment = 64, slack = 256;  // the tile of a padded panel reads past the last element, and drops what it read

struct Life {
    int first = -1, last = -1;
    void touch(int t) {
        if (first < 0) first = t;
        last = t;
    }
    bool overlaps(const Life &o) const {
        return first >= 0 && o.first >= 0 && first <= o.last && o.first <= last;
    }
};

}  // namespace

MemoryPlan plan_memory(const StepProgram &p, const std::vector<CompiledKernel> &kernels) {
    // The lives of a buffer on the time line of each plan; every one begins with the forward pass.
    std::map<int, std::map<std::string, Life>> lives;
    auto &forward = p.plans.at("forward");
    for (auto &[plan, list] : p.plans) {
        std::vector<int> line;
        if (plan != "lazy") line = forward;
        if (plan != "forward") line.insert(line.end(), list.begin(), list.end());
        for (int t = 0; t < int(line.size()); t++)
            for (const KernelArgument &a : kernels[line[t]].arguments)
                if (p.buffers[a.buffer].role == Role::activation) lives[a.buffer][plan].touch(t);
        // The results are read after the last kernel.
        for (int result : {p.loss, p.output})
            if (lives.count(result) && (plan == "forward" || plan == "lazy" || result == p.loss))
                lives[result][plan].touch(int(line.size()));
    }
    std::vector<int> order;
    for (auto &[b, life] : lives) order.push_back(b);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return p.buffers[a].bytes() > p.buffers[b].bytes(); });
    auto padded = [&](int b) { return (p.buffers[b].bytes() + slack + alignment - 1) / alignment * alignment; };
    auto conflict = [&](int a, int b) {
        for (auto &[plan, life] : lives[a]) {
            auto other = lives[b].find(plan);
            if (other != lives[b].end() && life.overlaps(other->second)) return true;
        }
        return false;
    };
    MemoryPlan plan;
    for (int b : order) {
        std::vector<std::pair<int64_t, int64_t>> taken;  // begin, end
        for (auto &[other, at] : plan.offset)
            if (conflict(b, other)) taken.push_back({at, at + padded(other)});
        std::sort(taken.begin(), taken.end());
        int64_t at = 0;
        for (auto &[begin, end] : taken) {
            if (at + padded(b) <= begin) break;
            at = std::max(at, end);
        }
        plan.offset[b] = at;
        plan.bytes = std::max(plan.bytes, at + padded(b));
        plan.unshared += padded(b);
    }
    return plan;
}

}  // namespace cryolite
