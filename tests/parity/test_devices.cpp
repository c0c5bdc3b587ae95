// The whole `nano` step on OpenCL: the losses of the CPU.

#include "tests/parity/opencl.h"

namespace cryolite::test {

TEST_CASE("devices: nano on OpenCL, 50 steps") {
    if (!opencl_is_here()) return;
    json args = {{"layers", 4}, {"heads", 4}, {"width", 128},  {"context", 64}, {"batch", 12},
                 {"vocab", 65}, {"lr", 1e-3}, {"beta2", 0.99}, {"clip", 1.0}};
    check_losses(args, "--update auto", 50);
}

}  // namespace cryolite::test
