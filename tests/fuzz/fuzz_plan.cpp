#include "bundle/plan_json.h"
#include "runtime/plan/layout.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(fuzz::text_of(data, size));
    plan_format(text);
    fuzz::may_refuse([&] {
        Plan plan = read_plan(text, "plan.json");
        const std::string written = plan_text(plan);
        fuzz::require(plan_text(read_plan(written, "plan.json")) == written);
        plan.choose({});
        plan.memory();
        plan.parameters();
        for (const PlanBuffer &b : plan.buffers) {
            fuzz::require(b.bytes >= 0 && b.element_bytes() > 0 && b.elements() >= 0);
            // What a checkpoint's tensor is moved by.
            if (b.role != Role::parameter || b.bytes > 1 << 20 || b.elements() > 1 << 20) continue;
            std::vector<float> row_major(size_t(b.elements())), storage(size_t(b.stored_elements()));
            to_storage(b, row_major, storage);
            to_row_major(b, storage, row_major);
        }
        for (const auto &[name, calls] : plan.plans)
            for (const PlanCall &c : calls) {
                plan.loops(c);
                for (size_t a = 0; a < c.args.size(); a++) {
                    const PlanBuffer &b = plan.buffers.at(size_t(c.args[a].buffer));
                    const int64_t end = c.args[a].offset + plan.elements(c, a);
                    fuzz::require(c.args[a].offset >= 0 && end >= c.args[a].offset && end <= b.stored_elements());
                    plan.writes(c, a);
                }
            }
    });
    return 0;
}
