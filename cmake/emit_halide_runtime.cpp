// Writes the one Halide runtime that all kernels of a process share. What it has for devices loads their libraries when it
// is first asked for one: a machine without them runs on the CPU.

#include <Halide.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    Halide::Target target = Halide::get_host_target();
    for (auto f : {Halide::Target::UserContext, Halide::Target::OpenCL, Halide::Target::CUDA}) target.set_feature(f);
    Halide::compile_standalone_runtime(argv[1], target);
    return 0;
}
