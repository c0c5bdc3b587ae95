#include "generators/lowering/temporaries.h"

#include "bundle/error.h"

namespace cryolite::compiler {

namespace {

using namespace Halide::Internal;

/// Finds the most bytes that allocations inside of each other take together.
class Arrays : public IRVisitor {
public:
    int64_t most = 0;

private:
    int64_t now = 0;
    Scope<Interval> bounds;  ///< of the variables in scope: those of loops and of lets
    using IRVisitor::visit;

    void visit(const Allocate *op) override {
        const int64_t bytes = heap_bytes(op);
        now += bytes;
        most = std::max(most, now);
        IRVisitor::visit(op);
        now -= bytes;
    }
    void visit(const For *op) override {
        const Interval first = find_constant_bounds(op->min, bounds),
                       last = find_constant_bounds(op->min + op->extent - 1, bounds);
        const ScopedBinding<Interval> bound(bounds, op->name, Interval(first.min, last.max));
        IRVisitor::visit(op);
    }
    void visit(const LetStmt *op) override {
        const ScopedBinding<Interval> bound(bounds, op->name, find_constant_bounds(op->value, bounds));
        IRVisitor::visit(op);
    }
    int64_t heap_bytes(const Allocate *op) const {
        constexpr int64_t largest_on_stack = 16 << 10, header = 128, slack = 64, alignment = 128;
        int64_t elements = op->constant_allocation_size();
        const bool constant = elements > 0;
        if (!constant) elements = bounded_elements(op);
        const int64_t bytes = (elements + op->padding) * op->type.bytes() * op->type.lanes();
        const bool by_code = op->memory_type == Halide::MemoryType::Stack ||
                             op->memory_type == Halide::MemoryType::Register ||
                             (op->memory_type != Halide::MemoryType::Heap && bytes <= largest_on_stack);
        return constant && by_code ? 0 : header + (bytes + slack + alignment - 1) / alignment * alignment;
    }
    int64_t bounded_elements(const Allocate *op) const {
        int64_t elements = 1;
        for (const Halide::Expr &extent : op->extents) {
            const Interval range = find_constant_bounds(extent, bounds);
            const auto value = range.has_upper_bound() ? as_const_int(range.max) : std::nullopt;
            if (!value) fail("no constant bounds the size of its temporary '{}'", op->name);
            elements *= std::max<int64_t>(0, *value);
        }
        return elements;
    }
};

}  // namespace

int64_t temporaries_of(const BuiltKernel &k, const Machine &m) {
    Halide::Pipeline pipeline = k.pipeline;
    Arrays arrays;
    pipeline.compile_to_module(k.inputs, "cryolite_" + k.key, m.target).get_conceptual_stmt().accept(&arrays);
    return arrays.most;
}

}  // namespace cryolite::compiler
