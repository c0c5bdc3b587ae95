#pragma once
// What lowering makes of a pipeline, as text.

#include <Halide.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cryolite::test {

/// The lowered program of a pipeline with these arguments, after its custom passes.
inline std::string lowered_text(Halide::Pipeline pipeline, const std::vector<Halide::Argument> &arguments,
                                const Halide::Target &target = Halide::get_target_from_environment()) {
    char path[] = "/tmp/cryolite-test-XXXXXX";
    close(mkstemp(path));
    pipeline.compile_to_lowered_stmt(path, arguments, Halide::Text, target);
    std::stringstream read;
    read << std::ifstream(path).rdbuf();
    unlink(path);
    return read.str();
}

}  // namespace cryolite::test
