#include "dsl/gather.h"

#include <algorithm>
#include <map>
#include <optional>

namespace cryolite {

using namespace Halide;
using namespace Halide::Internal;

namespace {

int64_t quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // rounded down, b > 0

Expr whole(int64_t n) { return Expr(int(n)); }

/// constant + sum of coefficient * variable
struct Linear {
    int64_t constant = 0;
    std::map<std::string, int64_t> terms = {};
    Linear &add(const Linear &other, int64_t times) {
        constant += times * other.constant;
        for (auto &[name, c] : other.terms)
            if ((terms[name] += times * c) == 0) terms.erase(name);
        return *this;
    }
};

const Range *find(const std::vector<Loop> &loops, const std::string &variable) {
    auto at = std::ranges::find(loops, variable, &Loop::variable);
    return at == loops.end() ? nullptr : &at->range;
}

std::optional<Linear> linear(const Expr &e, const std::vector<Loop> &loops) {
    if (auto n = as_const_int(e)) return Linear{*n};
    if (const auto *v = e.as<Variable>())
        return find(loops, v->name) ? std::optional(Linear{0, {{v->name, 1}}}) : std::nullopt;
    auto both = [&](const Expr &a, const Expr &b, int64_t times) -> std::optional<Linear> {
        auto left = linear(a, loops), right = linear(b, loops);
        if (!left || !right) return std::nullopt;
        return left->add(*right, times);
    };
    if (const auto *sum = e.as<Add>()) return both(sum->a, sum->b, 1);
    if (const auto *difference = e.as<Sub>()) return both(difference->a, difference->b, -1);
    if (const auto *product = e.as<Mul>()) {
        auto n = as_const_int(product->b);
        auto of = linear(product->a, loops);
        if (n && of) return Linear{}.add(*of, *n);
    }
    return std::nullopt;
}

/// The index of one dimension, read as an equation for the loop variables: where the index has the value i, the linear
/// form is i itself, i * divisor + digit (the index is a quotient), or digit * divisor + i (it is a remainder).
struct Place {
    Expr index;
    Linear form{};
    enum { as_it_is, quotient_of, remainder_of } kind = as_it_is;
    int64_t divisor = 1;
    std::string digit{};  ///< name of the loop over what a quotient or a remainder leaves out
    /// The variables that are solved for, by falling coefficient; none: the index stays that of an update definition.
    std::vector<std::string> solved{};
};

/// One addition f(at) += value, rewritten as f(v) += value: loop variables are solved for from the indices `v`.
class Solution {
public:
    Solution(const Addition &a, const std::vector<Range> &box, const std::vector<Var> &v) : a(a), box(box), v(v) {
        for (const Expr &e : a.at) places.push_back({simplify(e)});
        for (Place &p : places) choose(p);
        reduce();
        for (size_t d = 0; d < places.size(); d++) solve(places[d], d);
        finish();
    }
    std::vector<Expr> at;
    Expr value;
    bool everywhere = true;  ///< whether every index is solved and no reduction is left: f(v) = ... + value

private:
    const Addition &a;
    const std::vector<Range> &box;
    const std::vector<Var> &v;
    std::vector<Place> places;
    std::vector<Loop> open;  ///< the loops that remain as a reduction
    RDom r;
    std::map<std::string, Expr> values;  ///< the value of every loop variable
    Expr inside = const_true();          ///< whether solved variables lie in their ranges

    /// Whether no other index depends on the variable.
    bool alone(const std::string &variable) const {
        return std::ranges::count_if(places, [&](const Place &p) { return expr_uses_var(p.index, variable); }) == 1;
    }
    Range range(const std::string &variable) const { return *find(a.loops, variable); }

    /// Chooses the variables to solve for: of all sets that the index determines, the one with the most values.
    void choose(Place &p) {
        const auto *div = p.index.as<Div>();
        const auto *mod = p.index.as<Mod>();
        const int64_t by = (div ? as_const_int(div->b) : mod ? as_const_int(mod->b) : std::nullopt).value_or(0);
        const bool divides = by > 0;
        const auto form = linear(divides ? (div ? div->a : mod->a) : p.index, a.loops);
        if (!form) return;
        p.form = *form;
        std::vector<std::string> candidates;
        for (auto &[name, c] : form->terms)
            if (alone(name)) candidates.push_back(name);
        if (candidates.size() > 8) candidates.resize(8);
        int64_t best = 0;
        for (size_t mask = 1; mask < size_t(1) << candidates.size(); mask++) {
            std::vector<std::string> set;
            for (size_t k = 0; k < candidates.size(); k++)
                if (mask >> k & 1) set.push_back(candidates[k]);
            if (int64_t size = determined(p, set); size > best) best = size, p.solved = set;
        }
        if (p.solved.empty() || !divides) return;
        p.kind = div ? Place::quotient_of : Place::remainder_of;
        p.divisor = by;
        p.digit = unique_name("digit");
        const Range all = span(p.form);
        open.push_back({p.digit, div ? Range{0, by - 1} : Range{quotient(all.least, by), quotient(all.most, by)}});
    }
    /// How many combinations of values these variables have; 0: two combinations give the same index. Sorts `set` by
    /// falling coefficient.
    int64_t determined(const Place &p, std::vector<std::string> &set) const {
        auto weight = [&](const std::string &name) { return std::abs(p.form.terms.at(name)); };
        std::ranges::stable_sort(set, std::greater{}, weight);
        int64_t reach = 0, size = 1;
        for (size_t k = set.size(); k-- > 0;) {
            const int64_t extent = range(set[k]).extent();
            if (weight(set[k]) <= reach) return 0;
            reach += weight(set[k]) * (extent - 1);
            size *= extent;
        }
        return size;
    }
    Range span(const Linear &form) const {
        Range all = {form.constant, form.constant};
        for (auto &[name, c] : form.terms) extend(all, range(name), c);
        return all;
    }
    static void extend(Range &all, const Range &by, int64_t times) {
        all.least += times * (times > 0 ? by.least : by.most);
        all.most += times * (times > 0 ? by.most : by.least);
    }

    /// The loops that no index determines become a reduction.
    void reduce() {
        for (const Loop &l : a.loops)
            if (std::ranges::none_of(places,
                                     [&](const Place &p) { return std::ranges::count(p.solved, l.variable) > 0; }))
                open.push_back(l);
        if (open.empty() && is_const_one(a.condition)) return;
        everywhere = false;
        Region region;
        for (const Loop &l : open) region.emplace_back(whole(l.range.least), whole(l.range.extent()));
        if (open.empty()) region.emplace_back(0, 1);  // one step, which carries the condition
        r = RDom(region);
        for (size_t k = 0; k < open.size(); k++) values[open[k].variable] = r[int(k)];
    }

    void require(const Expr &condition) { inside = inside && condition; }

    void solve(Place &p, size_t d) {
        if (p.solved.empty()) return;
        Range lies = box[d];  // the range of `rest`
        Expr rest = v[d];
        if (p.kind == Place::remainder_of && !lies.within({0, p.divisor - 1})) {
            require(rest >= 0 && rest < whole(p.divisor));
            rest = clamp(rest, 0, whole(p.divisor - 1)), lies = {0, p.divisor - 1};
        }
        if (p.kind != Place::as_it_is) {
            const Range digit = *find(open, p.digit);
            const Expr k = values.at(p.digit);
            const bool high = p.kind == Place::quotient_of;
            rest = high ? rest * whole(p.divisor) + k : k * whole(p.divisor) + rest;
            const Range scaled = high ? lies : digit;
            lies = high ? digit : lies;
            extend(lies, scaled, p.divisor);
        }
        // What remains of `rest` is a sum over the variables that are solved for: weight * (0 ... extent - 1) of each.
        int64_t offset = p.form.constant;
        for (auto &[name, c] : p.form.terms) {
            if (std::ranges::count(p.solved, name)) {
                offset += c * (c > 0 ? range(name).least : range(name).most);
            } else {
                rest -= whole(c) * values.at(name);
                extend(lies, range(name), -c);
            }
        }
        rest -= whole(offset);
        lies.least -= offset, lies.most -= offset;
        for (const std::string &name : p.solved) {
            const int64_t c = p.form.terms.at(name), weight = std::abs(c);
            const Range of = range(name), steps = {quotient(lies.least, weight), quotient(lies.most, weight)};
            Expr k = weight == 1 ? rest : rest / whole(weight);
            if (steps.least < 0) require(k >= 0);
            if (steps.most >= of.extent()) require(k < whole(of.extent()));
            if (!steps.within({0, of.extent() - 1})) k = clamp(k, 0, whole(of.extent() - 1));
            values[name] = c > 0 ? k + whole(of.least) : whole(of.most) - k;
            rest = weight == 1 ? Expr(0) : rest % whole(weight);
            lies = {0, weight - 1};
        }
        if (lies.most > 0) require(rest == 0);
    }

    void finish() {
        auto now = [&](const Expr &e) { return simplify(substitute(values, e)); };
        Expr condition = now(a.condition);
        for (size_t d = 0; d < places.size(); d++) {
            const bool solved = !places[d].solved.empty();
            at.push_back(solved ? Expr(v[d]) : now(places[d].index));
            everywhere &= solved;
            if (solved) continue;
            // The bounds of an index may be wider than its values. An index that is read from data has none: it is
            // trusted, as in the layer itself.
            const Range lies = range_of(places[d].index, a.loops);
            if (lies.extent() > 0 && !lies.within(box[d]))
                condition = condition && at[d] >= whole(box[d].least) && at[d] <= whole(box[d].most);
        }
        if (r.defined() && !is_const_one(condition)) r.where(condition);
        inside = simplify(inside);
        value = now(common_subexpression_elimination(a.value));
        if (!is_const_one(inside)) value = select(inside, value, make_zero(value.type()));
        value = simplify(common_subexpression_elimination(value));
    }
};

}  // namespace

Func sum_at_places(const std::string &name, Type type, const std::vector<Range> &box,
                   const std::vector<Addition> &additions) {
    std::vector<Var> v;
    for (size_t d = 0; d < box.size(); d++) v.emplace_back("i" + std::to_string(d));
    std::vector<Solution> solutions;
    solutions.reserve(additions.size());
    for (const Addition &a : additions) solutions.emplace_back(a, box, v);
    Func f(name);
    Expr start;
    for (const Solution &s : solutions)
        if (s.everywhere) start = start.defined() ? start + s.value : s.value;
    f(v) = start.defined() ? start : make_zero(type);
    for (const Solution &s : solutions)
        if (!s.everywhere) f(s.at) += s.value;
    return f;
}

Range range_of(const Expr &index, const std::vector<Loop> &loops) {
    Scope<Interval> scope;
    for (const Loop &l : loops) scope.push(l.variable, Interval(whole(l.range.least), whole(l.range.most)));
    const Interval i = bounds_of_expr_in_scope(simplify(index), scope);
    if (!i.is_bounded()) return {0, -1};
    auto least = as_const_int(simplify(i.min)), most = as_const_int(simplify(i.max));
    return least && most ? Range{*least, *most} : Range{0, -1};
}

Shifted shifted(const Expr &index, const std::vector<Loop> &loops) {
    auto form = linear(simplify(index), loops);
    if (!form || form->terms.size() != 1 || form->terms.begin()->second != 1) return {};
    return {form->terms.begin()->first, form->constant};
}

}  // namespace cryolite
