#include "generators/driver/machine_for.h"

#include "bundle/error.h"
#include "bundle/flops.h"
#include "bundle/target.h"

namespace cryolite::compiler {

namespace {

/// A target as Halide spells it. Throws where `target` names several.
std::string spelled(const std::string &target) {
    const std::vector<const TargetLine *> targets = targets_of(target).value();
    if (targets.size() > 1)
        throw UsageError(
            fmt::format("--target {} names several targets, but a bundle is for one: give one of them", target));
    return targets[0]->halide;
}

/// The driver compiles the PTX of an older GPU for a newer one when it loads it. Halide 21 writes PTX up to 8.6.
Halide::Target::Feature cuda_capability(const std::string &gpu) {
    return gpu == "sm_86" || gpu == "sm_90" ? Halide::Target::CUDACapability86 : Halide::Target::CUDACapability80;
}

Halide::Target kernel_target(const std::string &text, const StepConfig &c) {
    using Halide::Target;
    const std::string &device = c.device;
    Target t(text);
    if (device == "opencl") t.set_features({Target::OpenCL, Target::CLDoubles});
    if (device == "cuda") {
        // The host does no more than launch the kernels, so its code needs no special instructions, and the bundle runs
        // on other hosts, too.
        if (text == "host") t = Target(t.os, t.arch, t.bits);
        t.set_features({Target::CUDA, cuda_capability(c.target)});
    }
    for (auto f : {Target::NoRuntime, Target::UserContext, Target::NoBoundsQuery}) t.set_feature(f);
    // On a device, assertions also check the answers of the device's runtime: that there is memory for a temporary.
    t.set_feature(Target::NoAsserts, device == "cpu");
    return t;
}

}  // namespace

Machine machine_for(const StepConfig &step, const std::string &halide_target) {
    const std::string target = halide_target.empty() ? spelled(step.target) : halide_target;
    Machine m = Machine::of(kernel_target(target, step));
    if (target == "host") {
        m.matrix_tiles = step.precision != "fp16" && multiplies_tiles(step.target) &&
                         m.target.has_feature(Halide::Target::AVX512_SapphireRapids);
        m.dot_products &= !m.matrix_tiles && (step.precision != "bf16" || dot_products_are_faster());
    }
    return m;
}

}  // namespace cryolite::compiler
