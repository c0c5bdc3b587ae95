#include "generators/compile.h"

#include <map>
#include <nlohmann/json.hpp>

#include "generators/child.h"
#include "generators/store.h"

namespace cryolite {

using nlohmann::json;

namespace {

std::string describe(const BuiltKernel &k) {
    json args = json::array();
    for (const KernelArgument &a : k.arguments)
        args.push_back({a.buffer, a.offset, int(a.type.code()), a.type.bits(), a.extents, a.written});
    static const char *forms[] = {"forward", "d_input", "d_parameter", "update", "norm"};
    return json{{"key", k.key}, {"loops", k.loops}, {"layer", k.layer}, {"form", forms[int(k.group.form)]}, {"args", args}}.dump();
}

CompiledKernel parse(const std::string &text) {
    json j = json::parse(text);
    CompiledKernel k{j["key"], j["loops"], j["layer"], j["form"], {}};
    for (const json &a : j["args"])
        k.arguments.push_back({a[0], a[1], Halide::Type(halide_type_code_t(int(a[2])), int(a[3]), 1), a[4], a[5]});
    return k;
}

[[noreturn]] void kernel_error(const Kernel &k, const std::string &why) {
    fail("kernel '{}': {}", k.name, why);
}

}  // namespace

CompileReport compile_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options) {
    CompileReport report;
    report.kernels.resize(p.kernels.size());
    KernelStore store(options.store);
    // First the keys, which cost milliseconds: equal kernels are compiled once.
    run_children(int(p.kernels.size()), options.jobs, options.time_limit,
                 [&](int i) { return describe(build_kernel(p, p.kernels[i], m)); },
                 [&](int i, const ChildResult &r) {
                     if (!r.error.empty()) kernel_error(p.kernels[i], r.error);
                     report.kernels[i] = parse(r.output);
                 });
    std::map<std::string, int> first;
    for (int i = 0; i < int(p.kernels.size()); i++) first.emplace(report.kernels[i].key, i);
    std::vector<int> missing;
    for (auto &[key, i] : first)
        if (!store.has(key)) missing.push_back(i);
    report.distinct = int(first.size());
    report.cached = report.distinct - int(missing.size());
    int compiled = 0;
    if (options.progress) options.progress(report.cached, report.distinct, report.cached);
    auto compile = [&](int n) {
        int i = missing[n];
        BuiltKernel built = build_kernel(p, p.kernels[i], m);
        if (built.key != report.kernels[i].key)
            fail("its key changed between two builds ({} and {}): report this", report.kernels[i].key, built.key);
        store.put(built.key, [&](const std::string &path) { compile_kernel(built, m, path); });
        return std::string("compiled");
    };
    run_children(int(missing.size()), options.jobs, options.time_limit, compile,
                 [&](int n, const ChildResult &r) {
                     if (!r.error.empty()) kernel_error(p.kernels[missing[n]], r.error);
                     compiled++;
                     if (options.progress)
                         options.progress(report.cached + compiled, report.distinct, report.cached);
                 });
    return report;
}

}  // namespace cryolite
