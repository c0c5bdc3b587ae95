#include "apps/cryolite/report/cost_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "bundle/block_names.h"

namespace cryolite {

std::string cost_key(const PlanKernel &kernel) {
    const bool other = kernel.chosen >= 0 || kernel.symbol.empty();
    if (!other || kernel.dialects.empty()) return kernel.symbol;
    const PlanKernel::Dialect &d = kernel.dialects[size_t(std::max(0, kernel.chosen))];
    std::string key = "dialect " + d.name + " " + kernel.form;
    for (const PlanArgument &a : kernel.args) {
        key += " " + a.type;
        for (int extent : a.extents) key += fmt::format(":{}", extent);
    }
    if (const auto &w = d.product.window)  // several windows have arrays of these extents
        key += fmt::format(" window {}:{}:{}:{}:{}", w->size, w->stride, w->padding, w->dilation, w->groups);
    return key;
}

/// Sets of names that similar kernels share, the most similar first. A set counts only if all of its names are known: a
/// kernel of a gradient and an update takes much longer than that of the update alone. The names of stages leave out
/// the pass, as a line that fuses stages may move one of them into another pass.
std::vector<std::set<std::string>> CostModel::likenesses(const Plan &plan, const PlanCall &call) const {
    const PlanKernel &k = plan.kernels[size_t(call.kernel)];
    std::set<std::string> stages;
    for (const PlanCall::Stage &s : call.stages) stages.insert("stage " + without_numbers(s.name));
    std::vector<std::set<std::string>> list = {{fmt::format("name {} {}", call.pass, without_numbers(call.name))},
                                               stages};
    if (!k.layer.empty()) list.push_back({fmt::format("layer {} {}", k.layer, k.form)});
    list.push_back({fmt::format("pass {} {}", call.pass, roof_.bound(call))});
    list.push_back({"all"});
    return list;
}

std::optional<double> CostModel::measured(const Plan &plan, const PlanCall &call) const {
    return measured_ ? measured_(cost_key(plan.kernels[size_t(call.kernel)])) : std::nullopt;
}

void CostModel::learn(const Plan &plan, const std::vector<const PlanCall *> &calls) {
    for (const PlanCall *c : calls) {
        if (c->kernel < 0) continue;
        const std::optional<double> seconds = measured(plan, *c);
        if (!seconds || *seconds <= 0) continue;
        const Work w{plan.kernels[size_t(c->kernel)].symbol, c->flops, c->bytes};
        for (const std::set<std::string> &names : likenesses(plan, *c))
            for (const std::string &name : names) {
                Share &share = shares_[name];
                share.roof += roof_.seconds(*c), share.seconds += *seconds, share.of.push_back(w);
            }
    }
}

/// Predicts a kernel's seconds: as near to its roofline as the kernels of `alike` are to theirs; 0: there are none.
double CostModel::as_alike(const Work &w, const std::vector<const Share *> &alike) const {
    double roof = 0, limited = 0, seconds = 0;
    const std::optional<double> limit = limit_ ? limit_(w.symbol) : std::nullopt;
    bool all_known = limit.has_value();
    for (const Share *share : alike) {
        roof += share->roof, seconds += share->seconds;
        for (size_t i = 0; all_known && i < share->of.size(); i++) {
            const Work &other = share->of[i];
            const std::optional<double> of_other = limit_(other.symbol);
            all_known = of_other.has_value();
            limited += roof_.seconds(other.flops, other.bytes, of_other.value_or(1));
        }
    }
    if (all_known && limited > 0) return seconds * roof_.seconds(w.flops, w.bytes, *limit) / limited;
    return roof > 0 ? seconds * roof_.seconds(w.flops, w.bytes, 1) / roof : 0;
}

CallCost CostModel::cost(const Plan &plan, const PlanCall &call) const {
    if (call.kernel < 0) return {roof_.seconds(call), false};  // a sum over workers, which the runtime does
    if (const auto seconds = measured(plan, call)) return {*seconds, true};
    const Work w{plan.kernels[size_t(call.kernel)].symbol, call.flops, call.bytes};
    for (const std::set<std::string> &names : likenesses(plan, call)) {
        std::vector<const Share *> alike;
        for (const std::string &name : names)
            if (const auto at = shares_.find(name); at != shares_.end()) alike.push_back(&at->second);
        if (alike.size() < names.size()) continue;
        if (const double seconds = as_alike(w, alike); seconds > 0) return {seconds, false};
    }
    const std::optional<double> limit = limit_ ? limit_(w.symbol) : std::nullopt;
    return {roof_.seconds(w.flops, w.bytes, limit.value_or(1)), false};
}

}  // namespace cryolite
