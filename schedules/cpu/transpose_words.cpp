#include "schedules/cpu/transpose_words.h"

#include <numeric>
#include <optional>

#include "schedules/cpu/nest.h"

namespace cryolite::cpu {

namespace {

using namespace Halide;
using namespace Halide::Internal;

constexpr int side = 8;  // words that are read of a row, and rows that exchange theirs

/// Exchanges words between vectors of `side` words, or of several such groups: word c of vector r goes to word r of
/// vector c, in each group. Three steps exchange between rows that are 1, 2 and 4 apart.
std::vector<Expr> transposed(std::vector<Expr> rows) {
    const int lanes = rows[0].type().lanes();
    for (int apart = 1; apart < side; apart *= 2)
        for (int r = 0; r < side; r++) {
            if (r & apart) continue;
            std::vector<int> first(static_cast<size_t>(lanes)), second(first);
            for (int c = 0; c < lanes; c++) {
                const bool other = c & apart;
                first[size_t(c)] = other ? lanes + c - apart : c;
                second[size_t(c)] = other ? lanes + c : c + apart;
            }
            const std::vector<Expr> both = {rows[size_t(r)], rows[size_t(r + apart)]};
            rows[size_t(r)] = Shuffle::make(both, first), rows[size_t(r + apart)] = Shuffle::make(both, second);
        }
    return rows;
}

/// (x + c) % m = x % m + c, where x is a multiple of a divisor of m that is greater than c >= 0. Halide's simplifier
/// does not know it.
class Remainders : public IRMutator {
    using IRMutator::visit;
    Expr visit(const Mod *op) override {
        const auto *sum = op->a.as<Add>();
        const auto m = as_const_int(op->b), c = sum ? as_const_int(sum->b) : std::nullopt;
        if (!m || !c || *m <= 0 || *c < 0) return IRMutator::visit(op);
        const ModulusRemainder x = modulus_remainder(sum->a);
        const int64_t divisor = std::gcd(x.modulus, *m);
        if (divisor <= *c || x.remainder % divisor) return IRMutator::visit(op);
        return sum->a % op->b + sum->b;
    }
};

/// A copy of one vector of words, from rows that are `stride` elements apart.
struct Copy {
    const Store *store;
    const Load *from;
    std::vector<Expr> word;  ///< the indices of the elements of the first row's word: one of 32 bits, or two of 16
    int stride = 0, rows = 0;
};

const Ramp *strided(const Expr &index) {
    const Ramp *ramp = index.as<Ramp>();
    return ramp && ramp->base.type().is_scalar() && as_const_int(ramp->stride) ? ramp : nullptr;
}

std::optional<Copy> copy_of(const Store *op) {
    const Ramp *to = strided(op->index);
    if (!is_const_one(op->predicate) || !to || !is_const_one(to->stride)) return {};
    const Shuffle *pair = op->value.as<Shuffle>();
    if (pair && (!pair->is_interleave() || pair->vectors.size() != 2)) return {};
    Copy copy{op, nullptr, {}};
    for (const Expr &vector : pair ? pair->vectors : std::vector<Expr>{op->value}) {
        const Load *load = vector.as<Load>();
        const Ramp *from = load ? strided(load->index) : nullptr;
        if (!from || !is_const_one(load->predicate) || from->lanes % side || load->name == op->name) return {};
        const int stride = int(*as_const_int(from->stride));
        if (copy.from && (copy.from->name != load->name || copy.stride != stride)) return {};
        copy.from = load, copy.stride = stride, copy.rows = from->lanes;
        copy.word.push_back(from->base);
    }
    return copy.from->type.bits() * int(copy.word.size()) == 32 && copy.stride != 1 ? std::optional(copy)
                                                                                    : std::nullopt;
}

class TransposeWords : public WithLets {
    using WithLets::visit;

    Stmt visit(const For *op) override {
        const Stmt now = of_copy(op);
        return now.defined() ? now : IRMutator::visit(op);
    }

    /// The loop over columns of words, eight at a time; undefined: it is no such loop.
    Stmt of_copy(const For *loop) const {
        const auto extent = as_const_int(loop->extent);
        const Nest body(loop->body);  // a copy, and at most a loop over its vectors
        if (loop->for_type != ForType::Serial || !extent || *extent % side) return {};
        if (body.other || !body.store || body.loops.size() > 1) return {};
        Lets all = lets;
        all.insert(all.end(), body.lets.begin(), body.lets.end());
        const std::optional<Copy> copy = copy_of(body.store);
        if (!copy) return {};
        const std::string name = loop->name + ".eighth";
        const Expr begin = known(lets, loop->min) + Variable::make(Int(32), name) * side;
        Scope<Interval> bounds;
        const ScopedBinding<Interval> bind(bounds, name, {0, int(*extent) / side - 1});
        const auto at = [&](const Expr &e, int column) {
            const Expr index = simplify(substitute(loop->name, begin + column, known(all, e)), true, bounds);
            return simplify(Remainders().mutate(index), true, bounds);
        };
        const Expr first = at(copy->word[0], 0);
        const int elements = int(copy->word.size());
        for (int c = 0; c < side; c++)
            for (int e = 0; e < elements; e++)
                if (!can_prove(at(copy->word[size_t(e)], c) == first + (elements * c + e), bounds)) return {};
        std::vector<Expr> rows;
        for (int r = 0; r < side; r++) {
            std::vector<Expr> groups;
            for (int i = r; i < copy->rows; i += side) groups.push_back(row(*copy, first, i));
            rows.push_back(Shuffle::make_concat(groups));
        }
        const std::vector<Expr> columns = transposed(rows);
        std::vector<Stmt> stores;
        for (int c = 0; c < side; c++) {
            const Expr words = reinterpret(copy->store->value.type(), columns[size_t(c)]);
            const Expr to = at(copy->store->index.as<Ramp>()->base, c);
            stores.push_back(Store::make(copy->store->name, words, Ramp::make(to, 1, words.type().lanes()),
                                         copy->store->param, const_true(words.type().lanes()), ModulusRemainder()));
        }
        Stmt s = Block::make(stores);
        for (const For *v : body.loops) {
            const Expr min = known(all, v->min), vectors = known(all, v->extent);
            if (stmt_or_expr_uses_var(min, loop->name) || stmt_or_expr_uses_var(vectors, loop->name)) return {};
            s = For::make(v->name, min, vectors, v->for_type, v->partition_policy, v->device_api, s);
        }
        return For::make(name, 0, int(*extent) / side, loop->for_type, loop->partition_policy, loop->device_api, s);
    }

    /// Eight words of row `i`.
    static Expr row(const Copy &copy, const Expr &first, int i) {
        const int elements = int(copy.word.size()) * side;
        const Expr at = Ramp::make(simplify(first + i * copy.stride), 1, elements);
        const Expr words = Load::make(copy.from->type.with_lanes(elements), copy.from->name, at, copy.from->image,
                                      copy.from->param, const_true(elements), ModulusRemainder());
        return copy.word.size() == 1 ? words : reinterpret(UInt(32, side), words);
    }
};

}  // namespace

void transpose_words(Pipeline &p) { p.add_custom_lowering_pass(new TransposeWords); }

}  // namespace cryolite::cpu
