#include "apps/cryolite/report/kernel_times.h"

#include <algorithm>
#include <map>

#include "apps/cryolite/session/session.h"
#include "bundle/block_names.h"
#include "runtime/io/error.h"

namespace cryolite {

std::string kernel_table(const Plan &plan, const std::vector<double> &seconds, int accumulate, size_t steps) {
    struct Line {
        std::string name, loops;
        double seconds = 0, flops = 0, bytes = 0;
        int calls = 0;
    };
    std::map<std::pair<int, std::string>, Line> lines;
    const std::vector<const PlanCall *> calls = step_calls(plan, accumulate);
    double total = 0;
    for (size_t i = 0; i < calls.size() && i < seconds.size(); i++) {
        const PlanCall &c = *calls[i];
        Line &line = lines[{c.kernel, without_numbers(c.name)}];
        line.name = line.calls == 0 || line.name == c.name ? c.name : without_numbers(c.name);
        line.loops = plan.loops(c);
        line.seconds += seconds[i] / double(steps), line.flops += c.flops, line.bytes += double(c.bytes), line.calls++;
        total += seconds[i] / double(steps);
    }
    std::vector<Line> sorted;
    for (auto &[key, line] : lines) sorted.push_back(line);
    std::ranges::sort(sorted, [](const Line &a, const Line &b) { return a.seconds > b.seconds; });
    std::string out = "      ms  share  calls  GFLOP/s   GB/s  loops                kernel\n";
    for (const Line &l : sorted)
        out +=
            fmt::format("{:8.3f} {:5.1f}% {:6} {:8.1f} {:6.1f}  {:19}  {}\n", 1e3 * l.seconds, 100 * l.seconds / total,
                        l.calls, l.flops / l.seconds * 1e-9, l.bytes / l.seconds * 1e-9, l.loops, l.name);
    return out +
           fmt::format("{:8.3f} ms in {} kernel calls a step, each timed alone; a step runs some beside each other",
                       1e3 * total, calls.size());
}

}  // namespace cryolite
