// Adds the gradients of a worker's parts of a batch in a tree. As in a binary counter, part i is added to the partial
// sums at the levels of the trailing 1 bits of i, and kept at the level of the 0 bit before them: 8 parts take 3 arrays
// beside the gradient.

#include <bit>

#include "runtime/collective/sum.h"
#include "runtime/exec/at_work.h"
#include "runtime/exec/executor.h"

namespace cryolite {

static int add_part_sum(void **argv) {
    const auto *sum = static_cast<Executor::PartSums::Sum *>(argv[0]);
    return add_in_order(sum->to, sum->from, sum->count, sum->context), 0;
}

void Executor::resolve_parts() {
    const int parts = plan().parts_of_worker();
    if (parts == 1) return;
    std::map<std::pair<int, int>, int> partials;  // by parameter and level
    for (size_t b = 0; b < plan().buffers.size(); b++)
        if (const PlanBuffer &buffer = plan().buffers[b]; buffer.role == Role::partial)
            partials[{buffer.parameter, buffer.level}] = int(b);
    auto address = [&](int b) { return static_cast<float *>(device_.host_address(bound({b, 0}, "float32"))); };
    for (unsigned part = 0; int(part) < parts; part++) {
        PartSums &now = part_sums_.emplace_back();
        const int level = std::countr_one(part);
        for (size_t b = 0; b < plan().buffers.size(); b++) {
            const PlanBuffer &gradient = plan().buffers[b];
            if (gradient.role != Role::gradient) continue;
            const bool last = int(part) + 1 == parts;
            PartSums::Sum &sum =
                now.sums.emplace_back(PartSums::Sum{address(last ? int(b) : partials.at({gradient.parameter, level})),
                                                    {address(int(b))},
                                                    size_t(gradient.stored_elements()),
                                                    device_.context(),
                                                    {}});
            for (int l = 0; l < level; l++) sum.from.push_back(address(partials.at({gradient.parameter, l})));
            sum.argv[0] = &sum;
            now.calls.push_back({add_part_sum, sum.argv, 0, {}, {}, "sum of parts"});
        }
    }
}

void Executor::add_part(int part) {
    if (part_sums_.empty()) return;
    const AtWork at_work(collective_);
    device_.run(part_sums_[size_t(part)].calls);
}

}  // namespace cryolite
