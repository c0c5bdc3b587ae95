// Writes the one Halide runtime that all kernels of a process share.

#include <Halide.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    Halide::Target target = Halide::get_host_target();
    target.set_feature(Halide::Target::UserContext);
    Halide::compile_standalone_runtime(argv[1], target);
    return 0;
}
