#include "schedules/cpu/matrix_tiles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "bundle/error.h"
#include "schedules/cpu/nest.h"

namespace cryolite::cpu {

namespace {

using namespace Halide::Internal;

/// What a factor loads, where it is bf16 that is widened.
const Load *bf16_load(const Expr &e) {
    const auto *wide = e.as<Cast>();
    const auto *load = wide ? wide->value.as<Load>() : nullptr;
    return load && load->type == BFloat(16) && is_const_one(load->predicate) ? load : nullptr;
}

/// Whether something multiplies bf16 that are loaded one by one.
class ScalarProducts : public IRVisitor {
public:
    bool found = false;

private:
    using IRVisitor::visit;
    void visit(const Mul *op) override {
        found |= bf16_load(op->a) && bf16_load(op->b);
        IRVisitor::visit(op);
    }
};

/// An element of an array, and how far the next one is along each loop of a nest.
struct Place {
    std::string array;
    int bytes;  ///< of an element
    Expr first;
    std::vector<Expr> strides;  ///< in elements

    /// The address of the first element.
    Expr address() const {
        const Expr base = reinterpret(UInt(64), Variable::make(Handle(), array));
        return reinterpret(Handle(), base + cast<uint64_t>(first) * bytes);
    }
};

class MultiplyTiles : public WithLets {
public:
    using WithLets::mutate;
    Stmt mutate(const Stmt &s) override {
        const bool outermost = depth_++ == 0;
        Stmt now = WithLets::mutate(s);
        depth_--;
        if (outermost) {
            ScalarProducts left;
            now.accept(&left);
            if (!replaced_ || left.found)
                fail(
                    "a product of bf16 pairs has loops that cannot be multiplied in tiles; this is a bug, and --target "
                    "vectors does without tiles");
        }
        return now;
    }

private:
    int depth_ = 0, replaced_ = 0;
    using WithLets::visit;

    Stmt visit(const For *op) override {
        const Stmt call = product(op);
        if (!call.defined()) return WithLets::visit(op);
        replaced_++;
        return call;
    }

    /// Sums that are set to zero before they are added up: the call does both.
    Stmt visit(const Block *op) override {
        const std::optional<Zeroed> zeroed = set_to_zero(op->first);
        const size_t outer = lets.size();
        Stmt rest = op->rest, more;
        if (const auto *block = rest.as<Block>()) rest = block->first, more = block->rest;
        while (const auto *let = rest.as<LetStmt>()) lets.emplace_back(let->name, let->value), rest = let->body;
        const auto *loop = rest.as<For>();
        const Stmt call = loop && zeroed ? product(loop, &*zeroed) : Stmt();
        lets.resize(outer);
        if (!call.defined()) return WithLets::visit(op);
        replaced_++;
        return more.defined() ? Block::make(call, mutate(more)) : call;
    }

    /// What loops set to zero: so many elements of an array, in vectors of `lanes`.
    struct Zeroed {
        std::string array;
        Expr first, elements;
        int lanes;
    };

    /// Nothing: the loops do more, or something else.
    std::optional<Zeroed> set_to_zero(const Stmt &s) const {
        const Nest nest(s);
        const Store *store = nest.store;
        if (nest.other || !store || !is_const_zero(store->value) || !is_const_one(store->predicate)) return {};
        Lets all = lets;
        all.insert(all.end(), nest.lets.begin(), nest.lets.end());
        const auto *ramp = store->index.as<Ramp>();
        if (ramp ? !is_const_one(ramp->stride) : !store->index.type().is_scalar()) return {};
        Zeroed z{store->name, known(all, ramp ? ramp->base : store->index), store->value.type().lanes(),
                 store->value.type().lanes()};
        for (size_t i = nest.loops.size(); i--;) {
            z.first = substitute(nest.loops[i]->name, known(all, nest.loops[i]->min), z.first);
            z.elements = z.elements * known(all, nest.loops[i]->extent);
        }
        return z;
    }

    /// The place of an access; nothing where its strides are not the same everywhere, as with a remainder.
    std::optional<Place> place(const std::string &array, const Type &type, const Expr &index, const Nest &nest) const {
        Place at{array, type.bytes(), index, {}};
        const auto set = [&](const Expr &e, size_t one) {
            Expr now = e;
            for (size_t i = nest.loops.size(); i--;) {
                const For *loop = nest.loops[i];
                now = substitute(loop->name, i == one ? loop->min + 1 : loop->min, now);
            }
            return simplify(now);
        };
        for (size_t i = 0; i < nest.loops.size(); i++) {
            const Expr stride = simplify(set(index, i) - set(index, nest.loops.size()));
            const Expr next = substitute(nest.loops[i]->name, Variable::make(Int(32), nest.loops[i]->name) + 1, index);
            if (!can_prove(next - index == stride)) return {};
            at.strides.push_back(stride);
        }
        at.first = set(index, nest.loops.size());
        return at;
    }

    static bool same_strides(const Place &a, const Place &b) {
        return std::ranges::equal(a.strides, b.strides, [](const Expr &x, const Expr &y) { return can_prove(x == y); });
    }

    /// The terms of a sum.
    static std::vector<Expr> terms_of(const Expr &sum) {
        const auto *add = sum.as<Add>();
        if (!add) return {sum};
        std::vector<Expr> all = terms_of(add->a);
        for (const Expr &more : terms_of(add->b)) all.push_back(more);
        return all;
    }

    /// A factor, or the three parts of one, the highest first.
    using Parts = std::vector<const Load *>;
    struct Factors {
        Parts a, b;
    };

    /// The factors of a product, or of the six products of parts that are at most two below the highest.
    static std::optional<Factors> factors(const std::vector<Expr> &products) {
        std::vector<std::pair<const Load *, const Load *>> pairs;
        for (const Expr &e : products) {
            const auto *product = e.as<Mul>();
            const Load *a = product ? bf16_load(product->a) : nullptr, *b = product ? bf16_load(product->b) : nullptr;
            if (!a || !b) return {};
            pairs.emplace_back(a, b);
        }
        if (pairs.size() == 1) return Factors{{pairs[0].first}, {pairs[0].second}};
        constexpr size_t parts = 3, of_parts = 6;
        if (pairs.size() != of_parts) return {};
        // The part of rank r is in 3 - r products. Parts of `a` are those that are multiplied by a part of `b`.
        std::map<std::string, Parts> reads;
        std::map<std::string, bool> of_a{{pairs[0].first->name, true}};
        for (size_t round = 0; round < of_parts; round++)
            for (const auto &[a, b] : pairs)
                for (const auto &[one, other] : {std::pair(a, b), std::pair(b, a)})
                    if (const auto known = of_a.find(one->name); known != of_a.end())
                        of_a.emplace(other->name, !known->second);
        for (const auto &[a, b] : pairs) reads[a->name].push_back(a), reads[b->name].push_back(b);
        Factors f{Parts(parts), Parts(parts)};
        std::set<std::pair<size_t, size_t>> seen;
        for (auto [a, b] : pairs) {
            if (of_a[a->name] == of_a[b->name]) return {};
            if (!of_a[a->name]) std::swap(a, b);
            const size_t i = parts - reads[a->name].size(), j = parts - reads[b->name].size();
            if (i >= parts || j >= parts || i + j >= parts || !seen.emplace(i, j).second) return {};
            f.a[i] = a, f.b[j] = b;
        }
        for (const auto &[name, loads] : reads)
            for (const Load *load : loads)
                if (!equal(load->index, loads[0]->index)) return {};
        return f;
    }

    /// The call in the place of the loops; undefined: they are no product of bf16 pairs.
    /// `zeroed`: the sums begin at zero, which has to be what is set to zero; null: they are added to.
    Stmt product(const For *outer, const Zeroed *zeroed = nullptr) const {
        const Nest nest(outer);
        if (nest.other || !nest.store || nest.store->value.type() != Float(32) || nest.loops.size() > 4) return {};
        if (!is_const_one(nest.store->predicate) || !nest.store->index.type().is_scalar()) return {};
        Lets all = lets;
        all.insert(all.end(), nest.lets.begin(), nest.lets.end());
        std::vector<Expr> terms = terms_of(known(all, nest.store->value));
        const auto before = std::ranges::find_if(terms, [](const Expr &e) { return e.as<Load>() != nullptr; });
        if (before == terms.end() || before->as<Load>()->name != nest.store->name) return {};
        if (zeroed && zeroed->array != nest.store->name) return {};
        terms.erase(before);
        const auto both = factors(terms);
        const auto sum = place(nest.store->name, Float(32), known(all, nest.store->index), nest);
        if (!sum || !both) return {};
        std::vector<Place> a, b;
        for (const auto &[loads, places] : {std::pair(&both->a, &a), std::pair(&both->b, &b)})
            for (const Load *load : *loads) {
                const auto at = place(load->name, load->type, load->index, nest);
                if (!at || !same_strides(*at, places->empty() ? *at : places->front())) return {};
                places->push_back(*at);
            }
        const Stmt call = of_factors(nest, all, *sum, a, b, zeroed);
        return call.defined() ? call : of_factors(nest, all, *sum, b, a, zeroed);
    }

    /// The call, where `a` has the rows and `b` the columns of the product.
    static Stmt of_factors(const Nest &nest, const Lets &all, const Place &sum, const std::vector<Place> &a_parts,
                           const std::vector<Place> &b_parts, const Zeroed *zeroed) {
        const Place &a = a_parts[0], &b = b_parts[0];
        enum Loop { term, pair, column, row, loops };
        const Expr zero = 0;
        std::vector<Expr> extent(loops, Expr(1)), a_stride(loops, zero), b_stride(loops, zero), sum_stride(loops, zero);
        int last = loops;
        for (size_t i = 0; i < nest.loops.size(); i++) {
            const bool reduces = is_const_zero(sum.strides[i]);
            const bool is_term = reduces && is_const_one(a.strides[i]) && is_const_one(b.strides[i]);
            const Loop l = is_term ? term : reduces ? pair : is_const_zero(b.strides[i]) ? row : column;
            if (l >= last) return {};  // one loop each, in this order
            last = l;
            extent[l] = simplify(known(all, nest.loops[i]->extent));
            a_stride[l] = a.strides[i], b_stride[l] = b.strides[i], sum_stride[l] = sum.strides[i];
        }
        const auto is = [&](Loop l, const std::vector<Expr> &stride, int expected) {
            return is_const_one(extent[l]) || is_const(stride[l], expected);
        };
        if (!is_const(extent[term], 2) || !is(term, a_stride, 1) || !is(term, b_stride, 1) || !is(pair, a_stride, 2) ||
            !is(column, a_stride, 0) || !is(column, b_stride, 2) || !is(row, b_stride, 0) || !is(column, sum_stride, 1))
            return {};
        if (zeroed) {
            const Expr whole = (extent[column] + (zeroed->lanes - 1)) / zeroed->lanes * zeroed->lanes;
            if (!can_prove(zeroed->first == sum.first) || !can_prove(zeroed->elements == whole * extent[row]))
                return {};
        }
        const auto bytes = [](const Expr &stride, const Place &p) { return simplify(stride * p.bytes); };
        std::vector<Expr> args;
        for (const Place &part : a_parts) args.push_back(part.address());
        args.push_back(bytes(a_stride[row], a));
        for (const Place &part : b_parts) args.push_back(part.address());
        args.push_back(bytes(b_stride[pair], b));
        for (const Expr &e : {sum.address(), bytes(sum_stride[row], sum), extent[row], extent[column], extent[pair],
                              Expr(zeroed ? 0 : 1)})
            args.push_back(e);
        const char *function = a_parts.size() == 1 ? "cryolite_multiply_tiles" : "cryolite_multiply_split";
        return Evaluate::make(Call::make(Int(32), function, args, Call::Extern));
    }
};

}  // namespace

void multiply_tiles(Pipeline &p) { p.add_custom_lowering_pass(new MultiplyTiles); }

Tile processor_tile(int columns, int panel, int rows, const Machine &m, bool dividing) {
    constexpr int most_columns = 48, most_rows = 32;
    int lanes = panel ? m.vector : lanes_within(columns, m);
    while (panel % lanes) lanes /= 2;  // vectors do not cross the edges of panels
    const int wide = panel ? panel : std::min(columns, most_columns) / lanes * lanes;
    int high = std::min(rows, most_rows);
    while (dividing && rows % high) high--;
    return {lanes, wide, high};
}

void accumulate_processor_tiles(Group &g, Func f, int lanes, TailStrategy edge, int size, const RVar &ko) {
    Var x = f.args()[0], y = f.args()[1];
    RVar p = f.rvars()[0], k = f.rvars()[1];
    f.vectorize(x, lanes, edge);
    Stage s = f.update();
    std::vector<VarOrRVar> loops = {p, k, x, y};
    if (size) s.split(k, ko, k, ceil_div(size, 2), TailStrategy::GuardWithIf), loops.push_back(ko);
    s.reorder(loops);
    g.passes["multiply_tiles 6"] = multiply_tiles;
    g.by_tiles = true;
}

}  // namespace cryolite::cpu
