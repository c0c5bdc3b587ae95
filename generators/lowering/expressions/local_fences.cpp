#include "generators/lowering/expressions/local_fences.h"

namespace cryolite::compiler {

namespace {

using namespace Halide::Internal;

class LocalFences : public IRMutator {
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override {
        if (!op->is_intrinsic(Halide::Internal::Call::gpu_thread_barrier)) return IRMutator::visit(op);
        constexpr int shared = 2;  // Halide's CodeGen_GPU_Dev::MemoryFenceType::Shared
        const auto fences = as_const_int(op->args[0]);
        if (!fences) return op;
        const Halide::Expr all = make_const(op->args[0].type(), *fences | shared);
        return Halide::Internal::Call::make(op->type, op->name, {all}, op->call_type);
    }
};

}  // namespace

void local_fences(Halide::Pipeline &p) { p.add_custom_lowering_pass(new LocalFences); }

}  // namespace cryolite::compiler
