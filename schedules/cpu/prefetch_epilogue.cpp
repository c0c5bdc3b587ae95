#include <map>
#include <set>

#include "schedules/cpu/fetch.h"
#include "schedules/cpu/matrix_tiles.h"
#include "schedules/lets.h"

namespace cryolite::cpu {

namespace {

using namespace Halide::Internal;

/// Whether a statement multiplies tiles, outside of any loop in it.
class CallsTiles : public IRVisitor {
public:
    bool found = false;

private:
    using IRVisitor::visit;
    void visit(const Call *op) override { found |= op->name.starts_with("cryolite_multiply_"); }
    void visit(const For *) override {}
};

/// The elements that a loop's body reads or writes.
class Accesses : public IRVisitor {
public:
    Lets lets;
    std::map<std::string, std::vector<std::pair<Type, Expr>>> of_array;
    bool other = false;  ///< there are loops or temporaries in it

private:
    using IRVisitor::visit;
    void note(const std::string &array, const Type &type, const Expr &index) {
        of_array[array].emplace_back(type, index);
    }
    void visit(const LetStmt *op) override {
        op->value.accept(this);
        lets.emplace_back(op->name, op->value);
        op->body.accept(this);
    }
    void visit(const Let *op) override {
        op->value.accept(this);
        lets.emplace_back(op->name, op->value);
        op->body.accept(this);
    }
    void visit(const For *) override { other = true; }
    void visit(const Allocate *) override { other = true; }
    void visit(const Load *op) override {
        note(op->name, op->type, op->index);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        note(op->name, op->value.type(), op->index);
        IRVisitor::visit(op);
    }
};

class PrefetchEpilogue : public WithLets {
    using WithLets::visit;
    std::set<std::string> own;  ///< temporaries around the place

    Stmt visit(const Allocate *op) override {
        own.insert(op->name);
        return WithLets::visit(op);
    }

    Stmt visit(const Block *op) override {
        CallsTiles calls;
        op->first.accept(&calls);
        const Stmt fetches = calls.found ? fetches_of(op->rest) : Stmt();
        const Stmt now = WithLets::visit(op);
        return fetches.defined() ? Block::make(fetches, now) : now;
    }

    /// Prefetches of what the loop over rows that follows reads and writes.
    Stmt fetches_of(const Stmt &rest) const {
        Lets all = lets;
        Stmt s = rest;
        while (true) {
            if (const auto *let = s.as<LetStmt>())
                all.emplace_back(let->name, let->value), s = let->body;
            else if (const auto *consume = s.as<ProducerConsumer>())
                s = consume->body;
            else if (const auto *block = s.as<Block>())
                s = block->first;
            else
                break;
        }
        const auto *rows = s.as<For>();
        if (!rows || rows->for_type != ForType::Serial) return {};
        Accesses body;
        rows->body.accept(&body);
        if (body.other) return {};
        all.insert(all.end(), body.lets.begin(), body.lets.end());
        const std::string row = rows->name + ".fetched";
        std::vector<Stmt> lines;
        for (const auto &[array, accesses] : body.of_array)
            if (!own.count(array)) lines_of(array, accesses, all, rows->name, row, lines);
        if (lines.empty()) return {};
        return For::make(row, known(all, rows->min), known(all, rows->extent), ForType::Serial, rows->partition_policy,
                         rows->device_api, Block::make(lines));
    }

    /// The lines of a row of an array, where the accesses of the row are at known distances.
    static void lines_of(const std::string &array, const std::vector<std::pair<Type, Expr>> &accesses, const Lets &all,
                         const std::string &of_loop, const std::string &row, std::vector<Stmt> &lines) {
        constexpr int64_t most_lines = 16;
        Expr first;
        int64_t low = 0, high = 0;
        for (const auto &[type, index] : accesses) {
            const auto *ramp = index.as<Ramp>();
            if (ramp ? !is_const_one(ramp->stride) : !index.type().is_scalar()) return;
            const Expr base = known(all, ramp ? ramp->base : index);
            if (!first.defined()) first = base;
            const auto at = as_const_int(simplify(base - first));
            if (!at) return;
            low = std::min(low, *at), high = std::max(high, *at + type.lanes());
        }
        const int bytes = accesses[0].first.bytes();
        const Type type = accesses[0].first.element_of();
        const int64_t span = (high - low) * bytes;
        if (span > most_lines * cache_line) return;
        first = simplify(substitute(of_loop, Variable::make(Int(32), row), first + int(low)));
        for (int64_t at = 0; at < span; at += cache_line)
            lines.push_back(fetch(type, array, first + int(at / bytes), Into::second_cache));
        lines.push_back(fetch(type, array, first + int(high - low - 1), Into::second_cache));
    }
};

}  // namespace

void prefetch_epilogue(Pipeline &p) { p.add_custom_lowering_pass(new PrefetchEpilogue); }

}  // namespace cryolite::cpu
