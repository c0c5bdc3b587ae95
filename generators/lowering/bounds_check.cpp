#include "generators/lowering/bounds_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "schedules/regions.h"

namespace cryolite::compiler {

namespace {

using namespace Halide;
using namespace Halide::Internal;

/// Calls of one Func in what a definition computes.
class CallsOf : public IRVisitor {
public:
    CallsOf(std::string name) : name(std::move(name)) {}
    std::vector<std::vector<Expr>> indices;

private:
    std::string name;
    using IRVisitor::visit;
    void visit(const Internal::Call *op) override {
        if (op->name == name) indices.push_back(op->args);
        IRVisitor::visit(op);
    }
};

/// The variables of an index; whether it depends on data.
class VariablesOf : public IRVisitor {
public:
    std::set<std::string> names;
    bool data = false;

private:
    using IRVisitor::visit;
    void visit(const Internal::Call *op) override {
        data |= op->call_type == Internal::Call::Halide || op->call_type == Internal::Call::Image;
        IRVisitor::visit(op);
    }
    void visit(const Internal::Load *) override { data = true; }
    void visit(const Variable *op) override { names.insert(op->name); }
};

std::optional<int64_t> constant(const Expr &e) { return as_const_int(simplify(e)); }

class Walk {
public:
    Walk(const std::vector<KnownArray> &outputs, const std::vector<KnownArray> &inputs) {
        for (const KnownArray &a : inputs) known[a.f.name()] = &a;
        for (const KnownArray &a : outputs) {
            written[a.f.name()] = &a;
            Box box;
            for (int e : a.extents) box.push_back(Interval(0, e - 1));
            regions[a.f.name()] = box;
            order(a.f.function());
        }
    }
    /// Visits consumers first, so that all reads of a Func are known when it is visited.
    std::string run() {
        for (auto f = producers.rbegin(); f != producers.rend() && found.empty(); ++f)
            if (!known.count(f->name())) visit(*f);
        return found;
    }

private:
    std::map<std::string, const KnownArray *> known, written;
    std::map<std::string, Box> regions;
    std::vector<Function> producers;
    std::set<std::string> seen;
    std::string found;

    void order(const Function &f) {
        if (!seen.insert(f.name()).second) return;
        for (auto &[name, g] : find_direct_calls(f)) order(g);
        producers.push_back(f);
    }

    void visit(const Function &f) {
        // The last update first, because it may read more of its own Func than the consumers do.
        for (int u = int(f.updates().size()); u-- > 0 && found.empty();) visit(f, f.update(u));
        if (found.empty() && f.has_pure_definition()) visit(f, f.definition());
    }

    void visit(const Function &f, const Definition &d) {
        const Domain all = domain_of(f, d, regions[f.name()]);
        const Scope<Interval> scope = scope_of(all);
        const Stmt s = statement_of(f, d);
        auto out = written.find(f.name());
        if (out != written.end()) check(box_provided(s, f.name(), scope), *out->second, f.name(), d, all, "is written");
        for (auto &[name, box] : boxes_required(s, scope)) {
            if (!found.empty()) return;
            if (auto in = known.find(name); in != known.end())
                check(box, *in->second, name, d, all, "is read");
            else if (seen.count(name))
                add(name, box);
        }
    }
    void add(const std::string &name, const Box &box) {
        auto [at, fresh] = regions.emplace(name, box);
        if (!fresh) merge_boxes(at->second, box);
    }

    void check(const Box &box, const KnownArray &a, const std::string &name, const Definition &d, const Domain &all,
               const char *how) {
        for (int k = 0; k < int(std::min(box.size(), a.extents.size())) && found.empty(); k++) {
            auto least = constant(box[size_t(k)].min), most = constant(box[size_t(k)].max);
            if ((!least || *least >= 0) && (!most || *most < a.extents[size_t(k)])) continue;
            // Bounds are taken of each term by itself, so they may be too wide. Before a refusal, all indices are tried
            // where that is possible.
            narrow(name, k, d, all, least, most);
            const bool below = least && *least < 0;
            if (!below && !(most && *most >= a.extents[size_t(k)])) continue;
            found = fmt::format("{} {} at index {} of dimension {}, where its extent is {}", a.name, how,
                                below ? *least : *most, k, a.extents[size_t(k)]);
        }
    }

    /// The least and the greatest index that `d` really uses, by trying all values of its variables.
    static void narrow(const std::string &name, int dim, const Definition &d, const Domain &all,
                       std::optional<int64_t> &least, std::optional<int64_t> &most) {
        CallsOf calls(name);
        for (const Expr &e : d.values()) substitute_in_all_lets(e).accept(&calls);
        for (const Expr &e : d.args()) substitute_in_all_lets(e).accept(&calls);
        std::vector<Expr> indices;
        for (auto &args : calls.indices)
            if (size_t(dim) < args.size()) indices.push_back(args[size_t(dim)]);
        if (indices.empty()) return;
        VariablesOf used;
        for (const Expr &e : indices) e.accept(&used);
        VariablesOf condition;
        d.predicate().accept(&condition);
        const bool conditional = !condition.data && !is_const_one(d.predicate());
        if (conditional) used.names.insert(condition.names.begin(), condition.names.end());
        if (used.data) return;
        Region ranges;
        std::vector<std::string> names;
        double count = 1;
        for (const std::string &n : used.names) {
            auto at = all.find(n);
            if (at == all.end()) return;
            auto low = constant(at->second.min), high = constant(at->second.max);
            if (!low || !high || *high < *low) return;
            ranges.emplace_back(int(*low), int(*high - *low + 1)), names.push_back(n);
            count *= double(*high - *low + 1);
        }
        if (ranges.empty() || ranges.size() > 6 || count > 1e8) return;
        RDom r(ranges);
        std::map<std::string, Expr> values;
        for (size_t k = 0; k < names.size(); k++) values[names[k]] = r[int(k)];
        if (conditional) r.where(substitute(values, d.predicate()));
        Func extremes("extremes");
        extremes() = Tuple(Int(32).max(), Int(32).min());
        Expr low = extremes()[0], high = extremes()[1];
        for (const Expr &e : indices) {
            const Expr at = cast<int>(substitute(values, e));
            low = min(low, at), high = max(high, at);
        }
        extremes() = Tuple(low, high);
        Realization result = extremes.realize();
        least = Buffer<int>(result[0])(), most = Buffer<int>(result[1])();
    }
};

}  // namespace

std::string touched_outside(const std::vector<KnownArray> &outputs, const std::vector<KnownArray> &inputs) {
    return Walk(outputs, inputs).run();
}

}  // namespace cryolite::compiler
