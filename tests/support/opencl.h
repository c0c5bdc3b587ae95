#pragma once
// Kernels for OpenCL, where it has a platform.

#include <dlfcn.h>

#include "tests/support/compiler.h"
#include "tests/support/step.h"

namespace cryolite::test {

inline const Halide::Target opencl = test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles});

/// Whether OpenCL has a platform here; where it has none, the line that ctest takes for "skipped".
inline bool opencl_is_here() {
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    using Ids = int(uint32_t, void **, uint32_t *);
    Ids *ids = library ? reinterpret_cast<Ids *>(dlsym(library, "clGetPlatformIDs")) : nullptr;
    uint32_t n = 0;
    // In a child: a library of the device's compiler that is loaded here would be in all later children.
    if (ids && in_child([&] { return std::to_string(ids(0, nullptr, &n) == 0 && n > 0); }) == "1") return true;
    MESSAGE("skipped: there is no platform of OpenCL: install pocl-opencl-icd");
    return false;
}

}  // namespace cryolite::test
