#include "runtime/exec/bundle_launches.h"

#include "runtime/io/error.h"
#include "runtime/plan/element_type.h"

namespace cryolite {

std::vector<KernelLaunch> launches_of(const Bundle &bundle, int kernel) {
    const PlanKernel &k = bundle.plan.kernels.at(size_t(kernel));
    if (!bundle.kernel(kernel) || k.chosen >= 0) return {};
    std::vector<LaunchArgument> arguments;
    for (const PlanArgument &a : k.args) arguments.push_back({halide_type_named(a.type), a.extents});
    try {
        return launches_of(bundle.kernel(kernel), arguments);
    } catch (const Error &e) {
        fail("what the kernel '{}' launches is not known: {}", k.symbol, e.what());
    }
}

}  // namespace cryolite
