#include "dsl/derive.h"

#include <algorithm>
#include <set>

#include "dsl/gather.h"
#include "dsl/stop_gradient.h"

namespace cryolite {

using namespace Halide::Internal;
using Read = Halide::Internal::Call;

namespace {

template <typename... Args> [[noreturn]] void refuse(fmt::format_string<Args...> text, Args &&...args) {
    throw Underivable(fmt::format(text, std::forward<Args>(args)...));
}

/// A Func of the algorithm, or one of its sources: an input or a parameter.
struct Node {
    Function f;
    bool source = false, active = false;
    std::vector<Range> box = {};                 ///< the indices at which it is read or written
    std::vector<std::vector<Addition>> to = {};  ///< what readers add to its adjoint, for each value of a Tuple
    std::vector<Func> adjoint = {};
};

/// All reads of Funcs in some expressions, those inside of indices too.
class ReadsOf : public IRVisitor {
public:
    explicit ReadsOf(const std::vector<Expr> &all) {
        for (const Expr &e : all) substitute_in_all_lets(e).accept(this);
    }
    std::vector<Expr> list;

private:
    using IRVisitor::visit;
    void visit(const Read *op) override {
        if (op->call_type == Read::Halide) list.push_back(op);
        IRVisitor::visit(op);
    }
};

/// Makes the reads of `f` in one of its values strong references. In its own definition they are weak, else `f` would
/// never be freed; in an adjoint they must keep `f` alive.
class Owning : public IRMutator {
public:
    explicit Owning(const Function &f) : f(f) {}

private:
    const Function &f;
    using IRMutator::visit;
    Expr visit(const Read *op) override {
        if (op->call_type != Read::Halide || op->name != f.name()) return IRMutator::visit(op);
        return Read::make(f, op->args, op->value_index);
    }
};

bool is_undefined(const Expr &e) {
    const auto *call = e.as<Read>();
    return call && call->is_intrinsic(Read::undef);
}

class Reverse {
public:
    Reverse(const Func &y, const Array &dy, const std::vector<Source> &sources) {
        for (const auto &[x, wanted, none] : sources) {
            Node n{x.function(), true, wanted};
            for (int e : x.shape.extents()) n.box.push_back({0, e - 1});
            nodes.emplace(x.name(), n);
        }
        visit(y.function());
        Node &out = nodes.at(y.name());
        if (y.outputs() != 1 || y.dimensions() != dy.dimensions())
            refuse("its result '{}' is a Tuple, or has other dimensions than its layer says", shown(y.name()));
        if (!out.source)
            for (int e : dy.shape.extents()) out.box.push_back({0, e - 1});
        for (size_t k = order.size(); k-- > 0;) find_bounds(nodes.at(order[k]));
        Addition whole{{}, {}, {}, const_true()};
        for (int d = 0; d < y.dimensions(); d++) {
            whole.loops.push_back({y.args()[size_t(d)].name(), {0, dy.extent(d) - 1}});
            whole.at.push_back(y.args()[size_t(d)]);
        }
        whole.value = dy(whole.at);
        out.to.resize(1);
        out.to[0].push_back(whole);
        for (size_t k = order.size(); k-- > 0;) spread(nodes.at(order[k]));
    }
    Func gradient(const Array &x) {
        Node &n = nodes.at(x.name());
        n.to.resize(1);
        return sum_at_places("d_" + shown(x.name()), x.type(), n.box, n.to[0]);
    }

private:
    std::map<std::string, Node> nodes;
    std::vector<std::string> order;  ///< the Funcs that are not sources, each after those that it reads
    const Active active = [this](const Read &read) {
        auto at = nodes.find(read.name);
        return at != nodes.end() && at->second.active && read.type.is_float();
    };

    static std::vector<const Definition *> definitions(const Function &f) {
        std::vector<const Definition *> all;
        if (f.has_pure_definition()) all.push_back(&f.definition());
        for (size_t u = 0; u < f.updates().size(); u++) all.push_back(&f.update(int(u)));
        return all;
    }

    /// Lists `f` and the Funcs that it reads, directly or not, and whether a gradient flows through each.
    void visit(const Function &f) {
        if (nodes.count(f.name())) return;
        nodes.emplace(f.name(), Node{f});
        for (auto &[name, g] : find_direct_calls(f)) visit(g);
        Node &n = nodes.at(f.name());
        order.push_back(f.name());
        if (stops_gradient(f)) return;
        if (f.has_extern_definition()) {
            for (auto &[name, g] : find_direct_calls(f))
                if (nodes.at(name).active) refuse("Func '{}' is computed outside of Halide", shown(f.name()));
            return;
        }
        for (const Definition *d : definitions(f))
            for (const Expr &e : d->values()) n.active = n.active || reads(e, active);
    }

    /// The loops of a definition: the pure variables that it is indexed by, and its reduction variables.
    static std::vector<Loop> loops(const Node &n, const Definition &d) {
        std::vector<Loop> all;
        for (size_t k = 0; k < n.box.size(); k++)
            if (is_own(n, d, k)) all.push_back({n.f.args()[k], n.box[k]});
        for (const ReductionVariable &r : d.schedule().rvars()) {
            auto least = as_const_int(simplify(r.min)), extent = as_const_int(simplify(r.extent));
            if (!least || !extent)
                refuse("the extent of the reduction '{}' of Func '{}' is no constant", shown(r.var), shown(n.f.name()));
            all.push_back({r.var, {*least, *least + *extent - 1}});
        }
        return all;
    }
    static bool is_own(const Node &n, const Definition &d, size_t k) {
        const auto *v = d.args()[k].as<Variable>();
        return v && v->name == n.f.args()[k];
    }

    /// Widens the box of this Func by where it reads and writes itself, and the boxes of the Funcs that it reads.
    void find_bounds(Node &n) {
        if (!n.active || n.source || (n.box.empty() && n.f.dimensions() > 0)) return;
        const auto all = definitions(n.f);
        for (const Definition *d : all) {
            const std::vector<Loop> over = loops(n, *d);
            for (size_t k = 0; k < d->args().size(); k++)
                if (Range at = range_of(d->args()[k], over); at.extent() > 0) widen(n.box[k], at);
            for (const Expr &e : ReadsOf(d->values()).list)
                if (e.as<Read>()->name == n.f.name()) extend(n, n, e, over);
        }
        for (const Definition *d : all)
            for (const Expr &e : ReadsOf(d->values()).list) {
                auto to = nodes.find(e.as<Read>()->name);
                if (to == nodes.end() || to->second.source || !to->second.active || &to->second == &n) continue;
                extend(n, to->second, e, loops(n, *d));
            }
    }
    static void widen(Range &r, const Range &by) { r = {std::min(r.least, by.least), std::max(r.most, by.most)}; }
    static void extend(const Node &reader, Node &n, const Expr &read, const std::vector<Loop> &over) {
        const std::vector<Expr> &args = read.as<Read>()->args;
        for (size_t k = 0; k < args.size(); k++) {
            const Range at = range_of(args[k], over);
            if (at.extent() < 1)
                refuse("Func '{}' reads `{}`, whose index {} has no bounds that are known: clamp it",
                       shown(reader.f.name()), shown(read), shown(args[k]));
            if (n.box.size() <= k)
                n.box.push_back(at);
            else
                widen(n.box[k], at);
        }
    }

    /// Adds up the adjoint of a Func, all of whose readers are done, and passes it on to the Funcs that it reads.
    void spread(Node &n) {
        if (!n.active || n.to.empty()) return;
        for (size_t i = 0; i < n.to.size(); i++) {
            n.adjoint.emplace_back();
            if (!n.to[i].empty())
                n.adjoint[i] = sum_at_places("d_" + shown(n.f.name()), n.f.output_types()[i], n.box, n.to[i]);
        }
        for (int u = int(n.f.updates().size()); u-- > 0;)
            for (size_t i = 0; i < n.adjoint.size(); i++)
                if (n.adjoint[i].defined()) update(n, u, i);
        if (!n.f.has_pure_definition()) return;
        for (size_t i = 0; i < n.adjoint.size(); i++)
            if (n.adjoint[i].defined())
                for (const Partial &p : partials(n.f.definition().values()[i], seed(n, n.f.definition(), i), active))
                    pass(n, n.f.definition(), p);
    }
    static Expr seed(const Node &n, const Definition &d, size_t i) { return n.adjoint[i](d.args()); }
    void pass(const Node &n, const Definition &d, const Partial &p) {
        Node &to = nodes.at(p.call().name);
        if (to.to.size() <= size_t(p.call().value_index)) to.to.resize(size_t(p.call().value_index) + 1);
        to.to[size_t(p.call().value_index)].push_back({p.call().args, p.adjoint, loops(n, d), d.predicate()});
    }

    static bool reads_itself(const Node &n, const Expr &e) {
        return std::ranges::any_of(ReadsOf({e}).list, [&](const Expr &r) { return r.as<Read>()->name == n.f.name(); });
    }

    /// Goes back over update `u`: from the adjoint of the Func's values after it to that of the values before it.
    void update(Node &n, int u, size_t i) {
        const Definition &d = n.f.update(u);
        const Expr value = Owning(n.f).mutate(substitute_in_all_lets(d.values()[i]));
        if (is_undefined(value)) return;
        const Expr after = seed(n, d, i);
        Expr before;  // the adjoint of the same element's earlier value; undefined: the update does not read it
        std::vector<Partial> elsewhere, others;
        for (const Partial &p : partials(value, after, active)) {
            const bool own = p.call().name == n.f.name();
            if (own && p.call().value_index == int(i) && same_place(p.call(), d))
                before = before.defined() ? before + p.adjoint : p.adjoint;
            else
                (own ? elsewhere : others).push_back(p);
        }
        if (before.defined()) before = simplify(before);
        const bool keeps = before.defined() && equal(before, simplify(after));
        const bool scans = !elsewhere.empty();
        if (!before.defined() && !places_once(n, d)) refuse_places(n, d);
        if (scans) scan(n, u, i, elsewhere, others, keeps || !before.defined());
        bool old = !is_const_one(d.predicate()) && reads_itself(n, d.predicate());
        if (!scans && before.defined()) old |= reads_itself(n, before);
        for (const Partial &p : others) old |= !scans && reads_itself(n, p.adjoint);
        if (old) refuse_old(n, value);
        for (const Partial &p : others) pass(n, d, p);
        if (keeps || !flows_before(n, u, i)) return;
        Func next(shown(n.adjoint[i].name()));
        const std::vector<Var> v = n.adjoint[i].args();
        if (!before.defined()) {
            next(v) = select(written(n, d, v), make_zero(value.type()), n.adjoint[i](v));
        } else {
            for (size_t k = 0; k < d.args().size(); k++)
                if (!is_own(n, d, k) || !d.schedule().rvars().empty() || !is_const_one(d.predicate()))
                    refuse_old(n, value);
            std::map<std::string, Expr> names;
            for (size_t k = 0; k < v.size(); k++) names[n.f.args()[k]] = v[k];
            next(v) = substitute(names, before);
        }
        n.adjoint[i] = next;
    }
    static bool same_place(const Read &read, const Definition &d) {
        for (size_t k = 0; k < read.args.size(); k++)
            if (!equal(simplify(read.args[k]), simplify(d.args()[k]))) return false;
        return true;
    }
    [[noreturn]] static void refuse_old(const Node &n, const Expr &value) {
        const std::string name = shown(n.f.name());
        if (value.as<Max>() || value.as<Min>() || value.as<Select>())
            refuse(
                "Func '{0}' keeps the greatest or least of what it meets, `{1}`: where it only shifts or scales other "
                "values (the row maximum of a softmax), read it as stop_gradient({0}(...))",
                name, shown(value));
        refuse("Func '{}' is updated by `{}`, whose slope depends on values that the update replaces: give the new "
               "values a Func of their own",
               name, shown(value));
    }
    /// Whether a gradient flows through a definition before update `u`.
    bool flows_before(const Node &n, int u, size_t i) const {
        if (n.f.has_pure_definition() && reads(n.f.definition().values()[i], active)) return true;
        for (int k = 0; k < u; k++)
            if (reads(n.f.update(k).values()[i], active)) return true;
        return false;
    }

    /// Whether no two steps of an update's reduction write the same place.
    static bool places_once(const Node &n, const Definition &d) {
        const std::vector<Loop> over = loops(n, d);
        std::set<std::string> moving;
        for (const Expr &at : d.args()) moving.insert(shifted(at, over).variable);
        return std::ranges::all_of(d.schedule().rvars(), [&](auto &r) { return moving.count(r.var) > 0; });
    }
    /// Whether the element at `v` is one that an update replaces. Errors: the replaced elements may not be a whole box.
    static Expr written(const Node &n, const Definition &d, const std::vector<Var> &v) {
        const std::vector<Loop> over = loops(n, d);
        std::set<std::string> moving;
        Expr all = const_true();
        for (size_t k = 0; k < v.size(); k++) {
            if (is_own(n, d, k)) continue;
            const Range at = range_of(d.args()[k], over);
            const std::string variable = shifted(d.args()[k], over).variable;
            if (variable.empty() ? at.extent() != 1 : !moving.insert(variable).second) refuse_places(n, d);
            all = all && v[k] >= int(at.least) && v[k] <= int(at.most);
        }
        if (!is_const_one(d.predicate())) refuse_places(n, d);
        return simplify(all);
    }
    [[noreturn]] static void refuse_places(const Node &n, const Definition &d) {
        refuse("Func '{}' is replaced in part at `{}`, and it is not known that these places are a box in which each "
               "is written once: define the parts by one select",
               shown(n.f.name()), shown(Read::make(Halide::Int(32), n.f.name(), d.args(), Read::Halide)));
    }

    /// Goes back over an update that computes f(t + a) from f(t + b), b < a, for rising t, its last reduction variable:
    /// the adjoint is computed for falling t.
    void scan(Node &n, int u, size_t i, const std::vector<Partial> &reads, const std::vector<Partial> &others,
              bool sums) {
        const Definition &d = n.f.update(u);
        const std::vector<ReductionVariable> &rvars = d.schedule().rvars();
        const std::vector<Loop> over = loops(n, d);
        const bool last = u + 1 == int(n.f.updates().size());
        if (!sums || !last || n.adjoint.size() != 1 || rvars.empty()) refuse_scan(n, d.values()[i]);
        auto earlier = [&](const Read &read) {
            for (size_t k = 0; k < read.args.size(); k++) {
                const Shifted to = shifted(d.args()[k], over), from = shifted(read.args[k], over);
                if (to.variable == rvars.back().var && from.variable == to.variable && from.offset < to.offset)
                    return true;
            }
            return false;
        };
        // Slopes are evaluated after the scan, so they may only read elements that it has not replaced since.
        std::vector<Expr> all;
        for (const Partial &p : reads) all.push_back(p.read), all.push_back(p.adjoint);
        for (const Partial &p : others) all.push_back(p.adjoint);
        for (const Expr &e : ReadsOf(all).list)
            if (e.as<Read>()->name == n.f.name() && !earlier(*e.as<Read>())) refuse_scan(n, d.values()[i]);
        Halide::Region region;
        for (const Loop &l : over)
            if (std::ranges::count(rvars, l.variable, &ReductionVariable::var))
                region.emplace_back(int(l.range.least), int(l.range.extent()));
        RDom r(region);
        std::map<std::string, Expr> values;
        for (size_t k = 0; k < d.args().size(); k++)
            if (is_own(n, d, k)) values[n.f.args()[k]] = n.adjoint[i].args()[k];
        for (size_t k = 0; k < rvars.size(); k++) values[rvars[k].var] = r[int(k)];
        values[rvars.back().var] = simplify(rvars.back().min * 2 + rvars.back().extent - 1) - r[int(rvars.size()) - 1];
        if (!is_const_one(d.predicate())) r.where(substitute(values, d.predicate()));
        for (const Partial &p : reads) {
            std::vector<Expr> at;
            for (const Expr &e : p.call().args) at.push_back(simplify(substitute(values, e)));
            n.adjoint[i](at) += simplify(substitute(values, common_subexpression_elimination(p.adjoint)));
        }
    }
    [[noreturn]] static void refuse_scan(const Node &n, const Expr &value) {
        refuse("Func '{}' is updated by `{}`, which reads other elements of the Func: only a scan f(t + 1) from f(t) "
               "is derived, where t is the last variable of the reduction and the scan is the last update of the Func",
               shown(n.f.name()), shown(value));
    }
};

}  // namespace

void derive_gradients(const Func &y, const Array &dy, std::vector<Source> &sources) {
    Reverse reverse(y, dy, sources);
    for (Source &x : sources)
        if (x.wanted) x.gradient = reverse.gradient(x.array);
}

}  // namespace cryolite
