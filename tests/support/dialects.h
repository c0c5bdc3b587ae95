#pragma once
// Kernels of a step computed by another dialect than Halide's.

#include <HalideRuntime.h>

#include <mutex>

#include "dialects/dialect.h"
#include "generators/codegen/compile.h"
#include "generators/passes/placement/dialects.h"
#include "tests/support/kernels.h"

namespace cryolite::test {

/// Whether the dialect is built here; where not, the test says that it is skipped.
inline bool dialect_is_here(const std::string &name) {
    if (load_dialect(name)) return true;
    fmt::print("skipped: {} is not built here; {}\n", name, how_to_get(name));
    return false;
}

/// "form", "form then epilogues", "form of size 3, stride 2": which products were compared.
using Compared = std::set<std::string>;

/// Computes every distinct kernel that the dialect can by it, and compares with the unscheduled pipeline as
/// `check_kernels` does with Halide's loops. Adds to what was compared; kernels that it has compared are passed over.
template <typename M>
void check_dialect(const Compiled<M> &c, const std::string &name, Compared &compared, double tolerance = 3e-5) {
    static std::set<std::string> seen;
    const std::vector<std::string> keys = c.keys();
    std::vector<KernelId> list;
    for (KernelId k : c.program.kernels.ids())
        if (why_not(c.program, c.program.kernels[k], name).empty() && seen.insert(name + keys[size_t(k.index)]).second)
            list.push_back(k);
    if (!list.empty()) share_jit_runtime();
    run_children(
        int(list.size()), 2, 300,
        [&](int i) {
            const ir::Kernel &k = c.program.kernels[list[i]];
            const BuiltKernel built = build_kernel(c.program, k, c.machine);
            const Product product = with_arguments(product_of(c.program, k), built.arguments);
            std::vector<Product::Argument> arguments;
            for (const KernelArgument &a : built.arguments)
                arguments.push_back({data_type(a.type).str(), Shape(a.extents).size(), a.written});
            product.check(arguments);
            KernelTrial trial = KernelTrial::unscheduled(c.program, k, c.machine);
            const std::string expected = trial.run();
            const std::string got = trial.run([&](const std::vector<void *> &addresses) {
                const auto ready = load_dialect(name)->prepare(product, {addresses});
                for (int twice = 0; twice < (product.accumulate ? 1 : 2);
                     twice++)  // scratch of the first run is used again
                    if (int code = ready->run(nullptr)) fail("{} ends with code {}", name, code);
            });
            const char *forms[] = {"forward", "d_input", "d_parameter"};
            std::string words = forms[product.form];
            for (const Product::Then &t : product.then) words += " " + t.op + (t.stores >= 0 ? "" : ",");
            if (product.accumulate) words += " accumulate";
            if (const auto &w = product.window) {
                words += fmt::format(" of size {}, stride {}", w->size, w->stride);
                if (w->dilation > 1) words += fmt::format(", dilation {}", w->dilation);
                if (w->groups > 1) words += fmt::format(", groups {}", w->groups);
            }
            if (product.panel) words += product.out % product.panel ? " ragged" : "";
            return fmt::format("{}:{}", distance(built, expected, got), words);
        },
        [&](int i, const ChildResult &r) {
            INFO(c.program.kernels[list[i]].name);
            INFO(r.output);
            INFO(r.error);
            CHECK(r.error == "");
            CHECK(std::atof(r.output.c_str()) < tolerance);
            compared.insert(r.output.substr(r.output.find(':') + 1));
        });
}

}  // namespace cryolite::test
