#include "generators/driver/memory/memory_limit.h"

#include <unistd.h>

#include <fstream>

namespace cryolite::compiler {

namespace {

// Extents are ints, but their product may overflow 64 bits. So it is a double, whose rounding does not matter here.
double elements(const Shape &s) {
    double n = 1;
    for (int e : s.extents()) n *= e;
    return n;
}

std::string smaller(const std::vector<std::string> &names) {
    if (names.empty()) return "use a smaller model or batch";
    return fmt::format("use fewer or smaller {}", fmt::join(names, ", "));
}

}  // namespace

std::string bytes_text(double n) {
    return n < 1e6   ? fmt::format("{:.1f} kB", 1e-3 * n)
           : n < 1e9 ? fmt::format("{:.1f} MB", 1e-6 * n)
                     : fmt::format("{:.1f} GB", 1e-9 * n);
}

void check_size(const StepProgram &p, const std::vector<std::string> &names, double memory) {
    double parameters = 0, kept = 0, activation = 0;
    for (const ir::Value &b : p.values) {
        const double n = elements(b.shape), bytes = n * b.type.bytes();
        // Kernels index elements with 32 bits; panels may pad an extent, which adds some elements.
        if (n >= double((int64_t{1} << 31) - (1 << 20)))
            throw UsageError(fmt::format("'{}' has {:.3g} elements ({}), but a kernel's array has less than 2^31; {}",
                                         b.name, n, b.shape.str(), smaller(names)));
        if (b.role == ir::Role::parameter) parameters += n;
        if (b.role == ir::Role::parameter || b.role == ir::Role::state || b.role == ir::Role::input) kept += bytes;
        if (b.role == ir::Role::activation) activation = std::max(activation, bytes);
    }
    if (kept + activation > memory)
        throw UsageError(
            fmt::format("a step of {:.3g} parameters needs at least {} of memory, and {} are available; {}", parameters,
                        bytes_text(kept + activation), bytes_text(memory), smaller(names)));
}

double machine_memory() {
    double all = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE)), limit = 0;
    for (const char *file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
        if (std::ifstream(file) >> limit && limit > 0) all = std::min(all, limit);
    return all;
}

}  // namespace cryolite::compiler
