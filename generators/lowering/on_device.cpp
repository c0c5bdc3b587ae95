#include "generators/lowering/on_device.h"

#include "bundle/error.h"

namespace cryolite::compiler {

namespace {

using namespace Halide;

/// Finds work that is left in the host's function after the loops of the device have become launches.
class HostWork : public Internal::IRVisitor {
public:
    std::string found;

private:
    using IRVisitor::visit;
    void visit(const Internal::For *op) override {
        if (found.empty()) found = "the loop over " + op->name;
    }
    void visit(const Internal::Store *op) override {
        if (found.empty()) found = "an element of " + op->name;
    }
    void visit(const Internal::Load *op) override {
        if (found.empty() && !op->type.is_handle()) found = "a look at " + op->name;
    }
};

bool is_of_device(const Internal::For *loop) {
    return loop->for_type == ForType::GPUBlock || loop->for_type == ForType::GPUThread;
}

bool reads_data(const Expr &e) {
    struct : Internal::IRVisitor {
        bool found = false;
        using IRVisitor::visit;
        void visit(const Internal::Load *) override { found = true; }
    } loads;
    e.accept(&loads);
    return loads.found;
}

/// Puts the bodies of the innermost loops of a device under a condition.
class GiveCondition : public Internal::IRMutator {
public:
    explicit GiveCondition(Expr condition) : condition(std::move(condition)) {}

private:
    const Expr condition;
    bool innermost = false;

    using IRMutator::visit;
    Internal::Stmt visit(const Internal::For *op) override {
        if (!is_of_device(op)) return IRMutator::visit(op);
        innermost = true;
        Internal::Stmt body = mutate(op->body);
        if (innermost) body = Internal::IfThenElse::make(condition, body);
        innermost = false;
        return Internal::For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                                   body);
    }
};

class ConditionsInThreads : public Internal::IRMutator {
    using IRMutator::visit;
    Internal::Stmt visit(const Internal::For *op) override { return is_of_device(op) ? op : IRMutator::visit(op); }
    Internal::Stmt visit(const Internal::LetStmt *op) override {
        if (!reads_data(op->value)) return IRMutator::visit(op);
        return mutate(Internal::substitute(op->name, op->value, op->body));
    }
    Internal::Stmt visit(const Internal::IfThenElse *op) override {
        if (!reads_data(op->condition)) return IRMutator::visit(op);
        const Internal::Stmt then_case = GiveCondition(op->condition).mutate(mutate(op->then_case));
        if (!op->else_case.defined()) return then_case;
        return Internal::Block::make(then_case, GiveCondition(!op->condition).mutate(mutate(op->else_case)));
    }
};

}  // namespace

void check_on_device(const Module &module, const BuiltKernel &k, const std::string &device) {
    HostWork work;
    for (const Internal::LoweredFunc &f : module.functions()) f.body.accept(&work);
    if (work.found.empty()) return;
    fail("its loops, '{}'{}, leave {} to the host, but its data are on the device {}; compute every Func in blocks and "
         "threads (gpu_tile, gpu_blocks, gpu_threads), or give no loops for this device and plain ones serve",
         k.loops, k.layer.empty() ? "" : " of layer " + k.layer, work.found, device);
}

void conditions_in_threads(Pipeline &p) { p.add_custom_lowering_pass(new ConditionsInThreads); }

}  // namespace cryolite::compiler
