#include "runtime/exec/order/touched.h"

#include <algorithm>

namespace cryolite {

std::vector<Touched> touched_by(const Plan &plan, const PlanCall &call) {
    std::vector<Touched> list;
    auto add = [&](int buffer, int64_t begin, int64_t bytes, bool written) {
        const PlanBuffer &b = plan.buffers.at(size_t(buffer));
        const bool in_arena = b.in_arena();
        if (b.role == Role::share) buffer = plan.gradient_of(b.parameter);
        if (b.part_of >= 0) buffer = b.part_of, begin += b.begin * b.element_bytes();
        if (in_arena) begin += b.offset;
        list.push_back({in_arena ? -1 : buffer, begin, begin + bytes, written});
    };
    for (size_t i = 0; i < call.args.size(); i++) {
        const PlanCall::Bound &a = call.args[i];
        const int64_t element = plan.buffers.at(size_t(a.buffer)).element_bytes();
        add(a.buffer, a.offset * element, plan.elements(call, i) * element, plan.writes(call, i));
    }
    if (call.workspace >= 0) add(call.workspace, 0, plan.buffers.at(size_t(call.workspace)).bytes, true);
    return list;
}

bool conflict(const std::vector<Touched> &a, const std::vector<Touched> &b) {
    return std::ranges::any_of(
        a, [&](const Touched &x) { return std::ranges::any_of(b, [&](const Touched &y) { return x.conflicts(y); }); });
}

}  // namespace cryolite
