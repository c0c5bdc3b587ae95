#include "schedules/cpu/prefetch.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cryolite::cpu {

namespace {

using namespace Halide;
using namespace Halide::Internal;

/// What the statements of a loop's body do, those of loops inside it apart.
class Body : public IRVisitor {
public:
    std::vector<std::pair<std::string, Expr>> lets;  ///< outer ones first
    std::set<std::string> loaded, own;
    std::map<std::string, std::vector<const Store *>> stores;
    std::vector<const For *> loops;

    explicit Body(const For *loop) { loop->body.accept(this); }

    /// An index in terms of what is known where the body begins.
    Expr known(Expr index) const {
        for (size_t i = lets.size(); i--;) index = substitute(lets[i].first, lets[i].second, index);
        return index;
    }

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

/// What the body both reads and writes of each array: whole vectors, a known distance apart; else nothing.
std::vector<Span> updated_in_place(const Body &body) {
    std::vector<Span> spans;
    for (const auto &[array, stores] : body.stores) {
        if (body.own.count(array) || !body.loaded.count(array)) continue;
        Expr first;
        int64_t low = 0, high = 0;
        for (const Store *s : stores) {
            const Ramp *ramp = s->index.as<Ramp>();
            const Expr base = body.known(ramp ? ramp->base : s->index);
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

/// `sums` in two loops, the first of which fetches lines of the spans.
Stmt with_prefetches(const For *sums, int64_t times, const std::vector<Span> &spans) {
    constexpr int line = 64;  // bytes
    auto lines = [](const Span &s) { return (s.elements * s.type.bytes() + line - 1) / line; };
    int64_t turns = 1;
    for (const Span &span : spans) turns = std::min(times, std::max(turns, lines(span)));
    const Expr turn = Variable::make(Int(32), sums->name) - sums->min;
    std::vector<Stmt> body;
    for (const Span &span : spans) {
        const int each = int((lines(span) + turns - 1) / turns);
        for (int i = 0; i < each; i++) {
            const Expr at = simplify(span.first + (turn * each + i) * (line / span.type.bytes()));
            body.push_back(Evaluate::make(Call::make(span.type, Call::prefetch,
                {Variable::make(Handle(), span.array), at, 1, line}, Call::Intrinsic)));
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

/// One loop for another.
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
        const For *sums = body.loops[0];  // others add rows of a tied table to a few tiles
        const auto times = as_const_int(sums->extent);
        std::vector<Span> spans = updated_in_place(body);
        if (!times || spans.empty()) return IRMutator::visit(op);
        for (Span &span : spans)
            span.first = substitute(op->name, Variable::make(Int(32), op->name) + 1, span.first);
        return Replace(sums, with_prefetches(sums, *times, spans)).mutate(Stmt(op));
    }
};

}  // namespace

void prefetch_next_tile(Halide::Pipeline &p) { p.add_custom_lowering_pass(new PrefetchNextTile); }

}  // namespace cryolite::cpu
