#include "runtime/plan/memory_need.h"

#include <algorithm>

#include "runtime/io/error.h"

namespace cryolite {

int64_t MemoryNeed::bytes() const {
    int64_t all = staging + process;
    for (auto &[role, bytes] : roles) all += bytes;
    return all;
}

namespace {

std::string line(const char *holder, int64_t bytes) {
    return fmt::format("\n  {:<37}{:>9}", holder, human_bytes(uint64_t(bytes)));
}

}  // namespace

std::string MemoryNeed::table() const {
    return table_of_arrays() + line("staging: loading, checkpoint buffers", staging) +
           line("threads, kernels, page tables", process);
}

std::string MemoryNeed::table_of_arrays() const {
    auto of = [&](Role role) {
        const auto at = roles.find(role_name(role));
        return at == roles.end() ? int64_t{0} : at->second;
    };
    const int64_t weights = of(Role::parameter) + of(Role::master_low) + of(Role::master), state = of(Role::state),
                  gradients = of(Role::gradient) + of(Role::partial), activations = of(Role::activation);
    return line("weights", weights) + line("optimizer state", state) + line("gradients", gradients) +
           line("activations", activations) +
           line("batches, norms, numbers", bytes() - staging - process - weights - state - gradients - activations);
}

MemoryNeed memory_need(const Plan &plan, bool one_of_several) {
    MemoryNeed need{plan.memory(one_of_several ? 1 : plan.workers)};
    // Shards of the optimizer state that belong to other processes are never touched.
    if (one_of_several) need.roles[role_name(Role::state)] /= plan.workers;
    int64_t largest = 0;
    bool split = false;
    for (const PlanBuffer &b : plan.buffers) {
        if (b.role == Role::parameter || b.role == Role::state) largest = std::max(largest, b.stored_elements());
        split |= b.role == Role::master_low || b.role == Role::master;
    }
    need.staging = largest * staging_bytes(split);
    if (plan.scalar("ema") >= 0)
        for (Role set_aside : {Role::parameter, Role::master_low, Role::master})
            need.staging += need.roles[role_name(set_aside)];
    return need;
}

int64_t process_bytes(int threads, int64_t arrays) {
    constexpr int64_t kernels = 24 << 20, stack = 8 << 20;
    return kernels + threads * stack + arrays / 512;
}

}  // namespace cryolite
