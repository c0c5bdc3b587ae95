#include "apps/cryolite/explain/page/arena_json.h"

#include <nlohmann/json.hpp>

namespace cryolite {

nlohmann::json arena_json(const Plan &plan) {
    struct Span {
        int buffer;
        size_t first, last;
    };
    std::vector<Span> spans;
    std::vector<int> span_of(plan.buffers.size(), -1);
    size_t call = 0, forward = 0;
    for (const char *entry :
         {plan.plans.contains(entry::deferred) ? entry::deferred : entry::forward, plan.backward(0, 1)}) {
        forward = call;
        const auto at = plan.plans.find(entry);
        if (at == plan.plans.end()) continue;
        for (const PlanCall &c : at->second) {
            for (const PlanCall::Bound &a : c.args) {
                const PlanBuffer &b = plan.buffers[size_t(a.buffer)];
                if (!b.in_arena() || b.offset < 0) continue;
                int &s = span_of[size_t(a.buffer)];
                if (s < 0) s = int(spans.size()), spans.push_back({a.buffer, call, call});
                spans[size_t(s)].last = call;
            }
            call++;
        }
    }
    nlohmann::json j = {{"calls", call}, {"forward", forward}, {"buffers", nlohmann::json::array()}};
    for (const Span &s : spans) {
        const PlanBuffer &b = plan.buffers[size_t(s.buffer)];
        j["buffers"].push_back({{"name", b.role == Role::gradient ? fmt::format("d({})", b.name) : b.name},
                                {"offset", b.offset},
                                {"bytes", b.bytes},
                                {"first", s.first},
                                {"last", s.last},
                                {"saved", s.first < forward && s.last >= forward}});
    }
    return j;
}

}  // namespace cryolite
