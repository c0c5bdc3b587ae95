#include "schedules/cpu/fallback.h"

namespace cryolite {

using namespace Halide;

std::string fallback(Group &g, Pipeline &, const Machine &m) {
    for (Func &f : g.funcs()) {
        if (f.num_update_definitions() > 0) {
            f.compute_root();
            if (f.dimensions() > 0) f.vectorize(f.args()[0], m.vector, TailStrategy::GuardWithIf);
        }
    }
    return "compute_root";
}

}  // namespace cryolite
