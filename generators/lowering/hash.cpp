#include "generators/lowering/hash.h"

#include <openssl/evp.h>

#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

std::string digest(const std::string &bytes) {
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_Digest(bytes.data(), bytes.size(), md, &n, EVP_sha256(), nullptr);
    std::string hex;
    for (unsigned i = 0; i < 16; i++) hex += fmt::format("{:02x}", md[i]);
    return hex;
}

namespace {

std::string compiled_for(const Halide::Target &target) {
    return fmt::format("|{}|halide {}.{}.{}", target.to_string(), HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR,
                       HALIDE_VERSION_PATCH);
}

}  // namespace

std::string runtime_key(const Halide::Target &target) { return digest("runtime" + compiled_for(target)); }

std::string serialised(const Halide::Pipeline &pipeline) {
    std::vector<uint8_t> bytes;
    std::map<std::string, Halide::Parameter> parameters;
    Halide::serialize_pipeline(pipeline, bytes, parameters);
    return {bytes.begin(), bytes.end()};
}

namespace {

std::string computed(const BuiltKernel &k) {
    std::string text = serialised(k.pipeline);
    for (const KernelArgument &a : k.arguments)
        text += fmt::format("|{} {} {}", a.type.bits(), int(a.type.code()), Shape(a.extents).str());
    return text;
}

}  // namespace

std::string algorithm_key(const BuiltKernel &k) { return digest(computed(k)); }

std::string kernel_key(const BuiltKernel &k, const Machine &m, const std::string &loops) {
    std::string text = computed(k);
    text += compiled_for(m.target);
    if (!loops.empty()) text += "|loops " + loops;
    for (const auto &[pass, add_to] : k.group.passes) text += "|pass " + pass;
    return digest(text);
}

}  // namespace cryolite::compiler
