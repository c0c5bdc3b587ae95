#include "generators/driver/oracles/nature_oracle.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generators/codegen/child.h"
#include "generators/lowering/computed_nature.h"
#include "generators/lowering/computed_product.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

constexpr int operations_of_child = 32;

json to_json(const ComputedNature &c) { return {int(c.nature), c.witness, c.is_declared_only}; }

ComputedNature from_json(const json &j) {
    return {Nature(j.at(0).get<int>()), j.at(1).get<std::string>(), j.at(2).get<bool>()};
}

}  // namespace

NatureOracle natures_by_building(int jobs, int time_limit) {
    return [jobs, time_limit](const StepProgram &p, const std::vector<OpId> &ops) {
        std::vector<std::optional<ComputedNature>> answers(ops.size());
        const int all = int(ops.size()), each = std::clamp(all / std::max(1, jobs), 1, operations_of_child);
        auto work = [&](int slice) {
            json list = json::array();
            for (int i = slice * each; i < std::min(all, (slice + 1) * each); i++)
                list.push_back(
                    to_json(computed_nature(p, {.name = p.ops[ops[size_t(i)]].name, .ops = {ops[size_t(i)]}})));
            return list.dump();
        };
        run_children((all + each - 1) / each, jobs, time_limit, work, [&](int slice, const ChildResult &r) {
            if (!r.error.empty()) return;
            const json list = json::parse(r.output);
            for (size_t i = 0; i < list.size(); i++) answers[size_t(slice * each) + i] = from_json(list[i]);
        });
        return answers;
    };
}

ProductOracle products_by_building(int jobs, int time_limit) {
    return [jobs, time_limit](const std::vector<AskedLayer> &asked) {
        std::vector<std::optional<ComputedProduct>> answers(asked.size());
        auto work = [&](int i) {
            const ComputedProduct c = computed_product(*asked[size_t(i)].layer, asked[size_t(i)].input);
            return json{c.holds, c.witness, c.weight, c.bias, c.in_innermost}.dump();
        };
        run_children(int(asked.size()), jobs, time_limit, work, [&](int i, const ChildResult &r) {
            if (!r.error.empty()) return;
            const json j = json::parse(r.output);
            answers[size_t(i)] = {j[0], j[1], j[2], j[3], j[4]};
        });
        return answers;
    };
}

}  // namespace cryolite::compiler
