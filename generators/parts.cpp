#include "generators/parts.h"

#include <algorithm>

namespace cryolite::compiler {

namespace {
constexpr int64_t worth = 8192;   // elements of a part: about a microsecond of adding
constexpr int64_t alignment = 64;  // of kernels' arguments, in elements of 2 bytes at least
}  // namespace

std::map<const Parameter *, std::vector<PartOf>> divide(const StepProgram &p) {
    std::vector<std::pair<int, const Parameter *>> ordered;  // as the trace met them: the same in every process
    for (auto &[w, buffer] : p.parameter_buffer) ordered.push_back({buffer, w});
    std::sort(ordered.begin(), ordered.end());
    std::vector<int64_t> load(size_t(p.workers));
    std::map<const Parameter *, std::vector<PartOf>> parts;
    for (auto &[buffer, w] : ordered) {
        const int64_t n = p.buffers[buffer].storage().size();
        const int64_t each = (n / p.workers + alignment - 1) / alignment * alignment;
        if (each < worth) {
            const auto least = std::min_element(load.begin(), load.end());
            parts[w] = {{int(least - load.begin()), 0, n}};
            *least += n;
            continue;
        }
        for (int k = 0; k < p.workers; k++) {
            const int64_t begin = k * each, end = k + 1 < p.workers ? begin + each : n;
            parts[w].push_back({k, begin, end - begin});
            load[size_t(k)] += end - begin;
        }
    }
    return parts;
}

}  // namespace cryolite::compiler
