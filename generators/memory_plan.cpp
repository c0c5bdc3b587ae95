#include "generators/memory_plan.h"

#include <algorithm>

#include "generators/partition.h"

namespace cryolite::compiler {

namespace {

constexpr int64_t slack = 256;  // the tile of a padded panel reads past the last element, and drops what it read

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

MemoryPlan plan_memory(const StepProgram &p, const std::vector<std::vector<int>> &touched) {
    // The lives of a buffer on the time line of each plan; every one begins with the forward pass.
    std::map<int, std::map<std::string, Life>> lives;
    auto &forward = p.plans.at("forward");
    for (auto &[plan, list] : p.plans) {
        std::vector<int> line;
        if (plan != "lazy") line = forward;
        if (plan != "forward") line.insert(line.end(), list.begin(), list.end());
        for (int t = 0; t < int(line.size()); t++)
            for (int b : touched[line[t]])
                if (p.buffers[b].role == Role::activation) lives[p.base(b)][plan].touch(t);
        // The results are read after the last kernel.
        for (int result : {p.loss, p.output})
            if (auto life = lives[result].find(plan); life != lives[result].end() &&
                                                      (plan == "forward" || plan == "lazy" || plan == "predict" || result == p.loss))
                life->second.touch(int(line.size()));
    }
    const int64_t alignment = p.schedule->machine.alignment;
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

MemoryPlan plan_memory(const StepProgram &p, const std::vector<CompiledKernel> &kernels) {
    std::vector<std::vector<int>> touched;
    for (const CompiledKernel &k : kernels) {
        touched.emplace_back();
        for (const KernelArgument &a : k.arguments) touched.back().push_back(a.buffer);
    }
    return plan_memory(p, touched);
}

MemoryPlan predict_memory(const StepProgram &p) {
    std::vector<std::vector<int>> touched;
    for (const Kernel &k : p.kernels) {
        touched.emplace_back();
        for (int s : k.stages) {
            for (int b : stage_reads(p, p.stages[s])) touched.back().push_back(b);
            for (int b : p.stages[s].writes) touched.back().push_back(b);
        }
        std::erase_if(touched.back(), [&](int b) { return !p.buffers[b].stored; });
    }
    return plan_memory(p, touched);
}

int64_t kept_bytes(const StepProgram &p) {
    int64_t bytes = 0;
    for (const Buffer &b : p.buffers)
        if (b.stored && b.part_of < 0 && b.role != Role::activation && b.role != Role::share) bytes += b.bytes() * (b.role == Role::gradient || b.role == Role::input ? p.workers : 1);
    return bytes;
}

}  // namespace cryolite::compiler
