#include "generators/driver/oracles/reads_oracle.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "generators/codegen/blame.h"
#include "generators/codegen/progress.h"
#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

/// A child reads several operations, since starting and ending it takes longer than reading most operations.
constexpr int most_in_a_child = 32;

class Oracle {
public:
    Oracle(const StepProgram &p, const std::vector<OpId> &ops, const Machine &m)
        : p(p), ops(ops), m(m), progress("reading the layers", int(ops.size())), answers(ops.size()) {}

    std::vector<std::vector<ValueId>> run(int jobs, int time_limit) {
        std::vector<int> all(ops.size());
        std::iota(all.begin(), all.end(), 0);
        // A child that failed did so at one of its operations, which is found by reading each of them alone.
        const int each = std::clamp(int(all.size()) / std::max(1, jobs), 1, most_in_a_child);
        std::vector<int> again = read(all, each, jobs, std::max(1, time_limit / 4));
        // One after the other in the order of the step, so that of several errors the same is reported every time.
        std::ranges::sort(again, {}, [&](int i) { return ops[size_t(i)]; });
        read(again, 1, 1, time_limit);
        return answers;
    }

private:
    const StepProgram &p;
    const std::vector<OpId> &ops;
    const Machine &m;
    ProgressReporter progress;
    std::vector<std::vector<ValueId>> answers;

    ir::Kernel alone(int i) const { return {.name = p.ops[ops[size_t(i)]].name, .ops = {ops[size_t(i)]}}; }

    /// Reads the operations in the list, up to `most` in each child. Returns those whose child failed; where `most` is
    /// 1, throws the child's error instead.
    std::vector<int> read(const std::vector<int> &list, int most, int jobs, int limit) {
        std::vector<int> failed;
        auto begin = [&](int slice) { return list.begin() + slice * most; };
        auto end = [&](int slice) { return list.begin() + std::min(int(list.size()), (slice + 1) * most); };
        auto work = [&](int slice) {
            json all = json::array();
            for (auto i = begin(slice); i != end(slice); ++i) {
                all.push_back(json::array());
                for (const KernelArgument &a :
                     build_kernel(p, alone(*i), m, {.scheduled = false, .key = false}).arguments)
                    if (!a.written) all.back().push_back(a.value.index);
            }
            return all.dump();
        };
        run_children((int(list.size()) + most - 1) / most, jobs, limit, work, [&](int slice, const ChildResult &r) {
            if (!r.error.empty() && most > 1) return void(failed.insert(failed.end(), begin(slice), end(slice)));
            if (!r.error.empty()) {
                const ir::Kernel k = alone(*begin(slice));
                fail("'{}': {}{}", k.name, r.error, blame(r, p, k));
            }
            const json all = json::parse(r.output);
            for (auto i = begin(slice); i != end(slice); ++i) {
                progress.step();
                for (const json &value : all[size_t(i - begin(slice))])
                    answers[size_t(*i)].push_back(ValueId(int(value)));
            }
        });
        return failed;
    }
};

}  // namespace

ReadsOracle reads_by_building(const Machine &m, int jobs, int time_limit) {
    return [&m, jobs, time_limit](const StepProgram &p, const std::vector<OpId> &ops) {
        return Oracle(p, ops, m).run(jobs, time_limit);
    };
}

}  // namespace cryolite::compiler
