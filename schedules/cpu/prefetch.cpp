#include "schedules/cpu/prefetch.h"

#include <map>
#include <set>

#include "schedules/cpu/fetch.h"
#include "schedules/lets.h"

namespace cryolite::cpu {

namespace {

using namespace Halide;
using namespace Halide::Internal;

constexpr int line = cache_line;

/// What the body of a loop loads, stores and allocates outside of the loops in it.
class Body : public IRVisitor {
public:
    Lets lets;
    std::set<std::string> loaded, own;
    std::map<std::string, std::vector<const Store *>> stores;
    std::vector<const For *> loops;

    explicit Body(const For *loop) { loop->body.accept(this); }

private:
    using IRVisitor::visit;
    void visit(const For *op) override { loops.push_back(op); }
    void visit(const Allocate *op) override {
        own.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const LetStmt *op) override {
        lets.emplace_back(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Load *op) override {
        loaded.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        stores[op->name].push_back(op);
        IRVisitor::visit(op);
    }
};

/// Consecutive elements of an array.
struct Span {
    std::string array;
    Type type;
    Expr first;
    int64_t elements = 0;
};

/// The span of each array that the body both reads and writes; none, unless all stores are dense, at known distances.
std::vector<Span> updated_in_place(const Body &body) {
    std::vector<Span> spans;
    for (const auto &[array, stores] : body.stores) {
        if (body.own.count(array) || !body.loaded.count(array)) continue;
        Expr first;
        int64_t low = 0, high = 0;
        for (const Store *s : stores) {
            const Ramp *ramp = s->index.as<Ramp>();
            const Expr base = known(body.lets, ramp ? ramp->base : s->index);
            if (!first.defined()) first = base;
            const auto at = as_const_int(simplify(base - first));
            if (!at || (ramp && !is_const_one(ramp->stride))) return {};
            low = std::min(low, *at);
            high = std::max(high, *at + s->index.type().lanes());
        }
        spans.push_back({array, stores[0]->value.type().element_of(), first + int(low), high - low});
    }
    return spans;
}

/// The loop `sums` as two loops, of which the first one also fetches the lines of the spans.
Stmt with_prefetches(const For *sums, int64_t times, const std::vector<Span> &spans) {
    auto lines = [](const Span &s) { return (s.elements * s.type.bytes() + line - 1) / line; };
    int64_t turns = 1;
    for (const Span &span : spans) turns = std::min(times, std::max(turns, lines(span)));
    const Expr turn = Variable::make(Int(32), sums->name) - sums->min;
    std::vector<Stmt> body;
    for (const Span &span : spans) {
        const int each = int((lines(span) + turns - 1) / turns);
        for (int i = 0; i < each; i++) {
            const Expr at = simplify(span.first + (turn * each + i) * (line / span.type.bytes()));
            body.push_back(fetch(span.type, span.array, at));
        }
    }
    body.push_back(sums->body);
    auto loop = [&](const std::string &name, const Expr &min, int64_t extent, const Stmt &body) {
        return For::make(name, min, int(extent), sums->for_type, sums->partition_policy, sums->device_api, body);
    };
    const Stmt fetching = loop(sums->name, sums->min, turns, Block::make(body));
    if (turns == times) return fetching;
    const std::string rest = sums->name + ".rest";
    return Block::make(fetching, loop(rest, simplify(sums->min + int(turns)), times - turns,
                                      substitute(sums->name, Variable::make(Int(32), rest), sums->body)));
}

/// Replaces one loop by a statement.
class Replace : public IRMutator {
public:
    Replace(const For *old, Stmt now) : old(old), now(std::move(now)) {}

private:
    const For *old;
    Stmt now;
    using IRMutator::visit;
    Stmt visit(const For *op) override { return op == old ? now : IRMutator::visit(op); }
};

class PrefetchNextTile : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const For *op) override {
        const Body body(op);
        if (op->for_type != ForType::Serial || body.loops.empty()) return IRMutator::visit(op);
        const For *sums = body.loops[0];  // other loops add rows of a tied table, in a few tiles
        const auto times = as_const_int(sums->extent);
        std::vector<Span> spans = updated_in_place(body);
        if (!times || spans.empty()) return IRMutator::visit(op);
        for (Span &span : spans) span.first = substitute(op->name, Variable::make(Int(32), op->name) + 1, span.first);
        return Replace(sums, with_prefetches(sums, *times, spans)).mutate(Stmt(op));
    }
};

/// Every load of one element of a stored array in the loop over a tile's terms, with its index in the first iteration.
class Runs : public IRVisitor {
public:
    /// `lets`: known around the tile's loop.
    Runs(const For *tile, Lets lets) : lets(std::move(lets)) { tile->body.accept(this); }

    std::vector<std::pair<const Load *, Expr>> begins;
    int64_t terms = 0;  ///< at most; 0: not known

private:
    const For *loop = nullptr;
    Lets lets;

    using IRVisitor::visit;
    void visit(const For *op) override {
        loop = op;
        terms = as_const_int(find_constant_bound(op->extent, Direction::Upper)).value_or(0);
        IRVisitor::visit(op);
        loop = nullptr;
    }
    void visit(const LetStmt *op) override {
        lets.emplace_back(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Let *op) override {
        lets.emplace_back(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Load *op) override {
        IRVisitor::visit(op);
        if (!loop || !op->param.defined() || !op->type.is_scalar()) return;
        begins.emplace_back(op, substitute(loop->name, loop->min, known(lets, op->index)));
    }
};

class PrefetchNextChunk : public WithLets {
    std::string chunk;  ///< the loop over chunks around this place

    using WithLets::visit;
    Stmt visit(const For *op) override {
        if (!chunk.empty() && ends_with(op->name, ".xt")) return with_prefetches(op);
        const bool begins = ends_with(op->name, ".ko");
        if (begins) chunk = op->name;
        const Stmt s = IRMutator::visit(op);
        if (begins) chunk.clear();
        return s;
    }
    Stmt with_prefetches(const For *tile) const {
        const Runs runs(tile, lets);
        const Expr next = Variable::make(Int(32), chunk) + 1;
        std::set<Expr, IRDeepCompare> fetched;
        std::vector<Stmt> body;
        for (const auto &[load, begin] : runs.begins) {
            const Expr first = simplify(substitute(chunk, next, begin));
            if (!fetched.insert(first).second) continue;
            for (int e = 0; e < runs.terms; e += line / load->type.bytes())
                body.push_back(fetch(load->type, load->name, simplify(first + e)));
        }
        body.push_back(tile->body);
        return For::make(tile->name, tile->min, tile->extent, tile->for_type, tile->partition_policy, tile->device_api,
                         Block::make(body));
    }
};

/// The vectors of stored arrays that the body of an innermost loop multiplies by a broadcast element.
class Factors : public IRVisitor {
public:
    Lets lets;
    std::vector<const Load *> vectors;

    explicit Factors(const Stmt &body) { body.accept(this); }

private:
    using IRVisitor::visit;
    void visit(const LetStmt *op) override {
        lets.emplace_back(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Let *op) override {
        lets.emplace_back(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Mul *op) override {
        IRVisitor::visit(op);
        for (const auto &[one, other] : {std::pair(op->a, op->b), std::pair(op->b, op->a)}) {
            const Broadcast *element = one.as<Broadcast>();
            const Load *vector = other.as<Load>();
            const Ramp *along = vector ? vector->index.as<Ramp>() : nullptr;
            if (element && element->value.as<Load>() && along && is_const_one(along->stride) && vector->param.defined())
                vectors.push_back(vector);
        }
    }
};

class PrefetchAhead : public IRMutator {
    static constexpr int bytes_ahead = 18 << 10;  // what memory delivers while a core multiplies what it has

    using IRMutator::visit;
    Stmt visit(const For *op) override {
        const Stmt s = IRMutator::visit(op);
        if (op->for_type != ForType::Serial || !Body(op).loops.empty()) return s;
        const Factors factors(op->body);
        const Expr k = Variable::make(Int(32), op->name);
        std::vector<std::pair<const Load *, Expr>> fetched;
        std::vector<Stmt> body;
        for (const Load *load : factors.vectors) {
            const Expr at = known(factors.lets, load->index.as<Ramp>()->base);
            const auto step = as_const_int(simplify(substitute(op->name, k + 1, at) - at));
            // Vectors in one cache line need one prefetch.
            const bool known_line = std::ranges::any_of(fetched, [&](const auto &other) {
                const auto apart = as_const_int(simplify(at - other.second));
                return other.first->name == load->name && apart && std::abs(*apart) * load->type.bytes() < line;
            });
            if (!step || *step <= 0 || known_line) continue;
            fetched.emplace_back(load, at);
            const int ahead = int(bytes_ahead / (*step * load->type.bytes()) * *step);
            body.push_back(fetch(load->type, load->name, simplify(at + ahead), Into::second_cache));
        }
        if (body.empty()) return s;
        const For *loop = s.as<For>();
        body.push_back(loop->body);
        return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                         Block::make(body));
    }
};

}  // namespace

void prefetch_ahead(Halide::Pipeline &p) { p.add_custom_lowering_pass(new PrefetchAhead); }
void prefetch_next_tile(Halide::Pipeline &p) { p.add_custom_lowering_pass(new PrefetchNextTile); }
void prefetch_next_chunk(Halide::Pipeline &p) { p.add_custom_lowering_pass(new PrefetchNextChunk); }

}  // namespace cryolite::cpu
