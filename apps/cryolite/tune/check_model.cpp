#include "apps/cryolite/tune/check_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/io/error.h"

namespace cryolite {

bool CheckedLine::counts() const { return std::abs(measured - 1) > std::max(0.03, noise); }

bool is_right(double predicted, double measured) {
    const double change = predicted - 1, of = measured - 1;
    return change * of > 0 && std::abs(change - of) <= std::abs(of) / 3;
}

int ModelCheck::counted() const { return int(std::ranges::count_if(lines, &CheckedLine::counts)); }

int ModelCheck::right(double CheckedLine::*predicted) const {
    return int(std::ranges::count_if(
        lines, [&](const CheckedLine &l) { return l.counts() && is_right(l.*predicted, l.measured); }));
}

namespace {

/// A kernel's time as the median of several measurements, each in a process of its own.
CallTimes call_times(Measurer &measurer, const std::string &line) {
    constexpr int times = 3;
    CallTimes all;
    std::map<std::string, std::vector<double>> seconds;
    for (int n = 0; n < times; n++) {
        const CallTimes t = measurer.time_calls(line);
        if (!t.refused.empty()) return t;
        for (const auto &[kernel, of] : t.seconds) seconds[kernel].push_back(of);
    }
    for (const auto &[kernel, of] : seconds) all.seconds[kernel] = median(of);
    return all;
}

/// Times the step with and without a line, in several processes, as the arrays lie elsewhere in each: until the ratio
/// is known to one percent, or in nine processes.
Timing step_timing(Measurer &measurer, const std::string &line, const std::function<double()> &seconds_left) {
    constexpr size_t least = 3, most = 9;
    Timing all;
    std::vector<double> ratios;
    double within = 0;
    while (ratios.size() < most && (ratios.empty() || seconds_left() > 0)) {
        const Timing t = measurer.time_step("", line);
        if (!t.refused.empty() || t.busy) return t;
        ratios.push_back(t.ratio()), within += t.noise;
        const double n = double(ratios.size()), middle = median(ratios);
        double between = 0;  // two standard deviations of the processes' ratios
        for (double r : ratios) between += (r - middle) * (r - middle);
        between = n > 1 ? 2 * std::sqrt(between / (n - 1)) : 0;
        all = t, all.after = all.before * middle;
        all.noise = std::max(within / n, between) / std::sqrt(n);
        if (ratios.size() >= least && all.noise < 0.01) break;
    }
    return all;
}

/// Lines that give a kernel the least or the greatest value of one number of its loops. A kernel whose part of the step
/// is so small that no such line could count has none.
std::vector<std::string> lines_of_loops(Measurer &measurer) {
    std::vector<std::string> lines;
    const std::vector<SearchKernel> all = measurer.kernels("");
    for (const SearchKernel &k : all)
        for (const LoopNumber &n : k.numbers)
            if (k.share >= 0.03 && n.name != automatic_number)
                for (int value : {std::ranges::min(n.legal), std::ranges::max(n.legal)})
                    if (value != n.value) lines.push_back(joined(loop_lines(k, {{n.name, value}}, all)));
    return lines;
}

}  // namespace

ModelCheck check_model(Measurer &measurer, SearchRecords &records, int lines,
                       const std::function<double()> &seconds_left,
                       const std::function<void(const CheckedLine &)> &tell) {
    ModelCheck check;
    const StepKernels step = measurer.step("");
    if (!step.refused.empty()) fail("the step could not be compiled: {}", step.refused);
    const CallTimes times = call_times(measurer, "");
    if (!times.refused.empty()) fail("the step could not be timed: {}", times.refused);
    if (times.seconds.empty()) fail("the machine is too busy to time a step: try again when it does nothing else");
    remember_times(records, step.list, times);
    const double now = seconds_of(records, step.list);
    std::vector<CheckedLine> list;
    auto propose = [&](const std::string &line, const std::string &refused, const std::vector<StepKernel> &kernels) {
        if (!refused.empty())
            check.refused++;
        else if (kernels != step.list)
            list.push_back({.line = line, .model = seconds_of(records, kernels) / now});
    };
    for (const LineMove &m : measurer.moves("", {}, 0.25 * seconds_left())) propose(m.line, m.refused, m.kernels);
    const double half = 0.5 * seconds_left();  // the other half is for timing
    for (const std::string &line : lines_of_loops(measurer)) {
        if (seconds_left() <= half) break;
        const StepKernels with = measurer.step(line);  // compiles it, so that the limit of its inner loops is known
        propose(line, with.refused, with.list);
    }
    std::ranges::stable_sort(list, std::ranges::greater{}, [](const CheckedLine &l) { return std::abs(l.model - 1); });
    for (CheckedLine &l : list) {
        if (check.counted() >= lines || seconds_left() <= 0) break;
        const StepKernels with = measurer.step(l.line);
        const CallTimes timed =
            with.refused.empty() ? call_times(measurer, l.line) : CallTimes{.refused = with.refused};
        const Timing t =
            timed.refused.empty() ? step_timing(measurer, l.line, seconds_left) : Timing{.refused = timed.refused};
        if (!t.refused.empty() || t.busy || timed.seconds.empty()) {
            t.refused.empty() ? check.busy++ : check.refused++;
            continue;
        }
        remember_times(records, with.list, timed);
        l.kernels = seconds_of(records, with.list) / now, l.measured = t.ratio(), l.noise = t.noise;
        check.lines.push_back(l);
        tell(l);
    }
    return check;
}

}  // namespace cryolite
