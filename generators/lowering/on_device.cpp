#include "generators/lowering/on_device.h"

#include "dsl/error.h"

namespace cryolite::compiler {

namespace {

using namespace Halide;

/// What is left in the host's function after the loops of the device have become launches.
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

}  // namespace cryolite::compiler
