#include "generators/compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <nlohmann/json.hpp>

#include "generators/child.h"
#include "generators/phase.h"
#include "generators/compare.h"
#include "generators/dialects.h"
#include "generators/hash.h"
#include "generators/store.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

std::string words_of(const BuiltKernel &k) {
    json args = json::array();
    for (const KernelArgument &a : k.arguments)
        args.push_back({a.buffer, a.offset, int(a.type.code()), a.type.bits(), a.extents, a.written});
    static const char *forms[] = {"forward", "d_input", "d_parameter", "update", "norm"};
    return json{{"key", k.key}, {"automatic", k.automatic_keys}, {"loops", k.loops}, {"layer", k.layer},
                {"form", forms[int(k.group.form)]}, {"args", args}}.dump();
}

struct Described {
    CompiledKernel kernel;
    std::vector<std::string> automatic_keys;
};

Described parse(const std::string &text) {
    json j = json::parse(text);
    CompiledKernel k{j["key"], j["loops"], j["layer"], j["form"], {}};
    for (const json &a : j["args"])
        k.arguments.push_back({a[0], a[1], Halide::Type(halide_type_code_t(int(a[2])), int(a[3]), 1), a[4], a[5]});
    return {k, j["automatic"].get<std::vector<std::string>>()};
}

[[noreturn]] void kernel_error(const Kernel &k, const std::string &why) {
    fail("kernel '{}': {}", k.name, why);
}

/// Kernels with one key: compiled once, by the first of them.
struct Task {
    std::vector<int> kernels;
    std::vector<std::string> automatic_keys;  ///< empty: its loops were written
    int way = 0;                              ///< the automatic loops that are tried now
    std::string refused;                      ///< those before, and why
};

class Compiler {
public:
    Compiler(const StepProgram &p, const Machine &m, const CompileOptions &options)
        : p(p), m(m), options(options) {}

    CompileReport describe() {
        report.distinct = int(tasks().size());
        return std::move(report);
    }
    CompileReport run() {
        store.emplace(options.store);
        std::vector<Task> missing;
        for (Task &t : tasks()) {
            if (found(t)) report.cached++;
            else missing.push_back(std::move(t));
            report.distinct++;
        }
        compiled = 0;
        progress();
        while (!missing.empty()) missing = compile(missing);
        return std::move(report);
    }

private:
    const StepProgram &p;
    const Machine &m;
    const CompileOptions &options;
    std::optional<KernelStore> store;  ///< opened where kernels are compiled
    CompileReport report;
    int compiled = 0;

    const std::vector<AutomaticLoops> &automatic() const { return p.schedule->automatic; }
    const Kernel &kernel(const Task &t) const { return p.kernels[t.kernels[0]]; }
    void progress() const {
        if (options.progress) options.progress(report.cached + compiled, report.distinct, report.cached);
    }

    /// First the keys, which cost milliseconds: equal kernels are compiled once.
    std::vector<Task> tasks() {
        report.kernels.resize(p.kernels.size());
        std::map<std::string, Task> by_key;
        Phase phase("finding equal kernels", int(p.kernels.size()));
        run_children(int(p.kernels.size()), options.jobs, options.time_limit,
                     [&](int i) { return words_of(build_kernel(p, p.kernels[i], m)); },
                     [&](int i, const ChildResult &r) {
                         phase.step();
                         if (!r.error.empty()) kernel_error(p.kernels[i], r.error);
                         Described d = parse(r.output);
                         report.kernels[i] = d.kernel;
                         add_dialects(p.kernels[i], report.kernels[i]);
                         if (!report.kernels[i].by_halide) return;
                         Task &t = by_key[d.kernel.key];
                         t.kernels.push_back(i);
                         t.automatic_keys = d.automatic_keys;
                     });
        std::vector<Task> list;
        for (auto &[key, t] : by_key) {
            std::sort(t.kernels.begin(), t.kernels.end());  // children end in any order
            list.push_back(std::move(t));
        }
        return list;
    }
    void add_dialects(const Kernel &k, CompiledKernel &c) const {
        std::vector<std::string> names = k.dialects;
        if (k.dialect != "halide") names = {k.dialect};
        for (const std::string &name : names) c.dialects.emplace_back(name, with_arguments(product_of(p, k), c.arguments));
        if (k.dialect == "halide") return;
        c.by_halide = false, c.loops = k.dialect, c.key = digest(k.dialect + json(c.dialects[0].second).dump());
    }
    void settle(const Task &t) {
        if (t.automatic_keys.empty()) return;
        for (int i : t.kernels) {
            report.kernels[i].key = t.automatic_keys[size_t(t.way)];
            report.kernels[i].loops = automatic()[size_t(t.way)].name;
        }
    }
    /// Whether the kernel is in the store; with automatic loops, those that were accepted when it was compiled.
    bool found(Task &t) {
        if (t.automatic_keys.empty()) return store->has(report.kernels[t.kernels[0]].key);
        for (t.way = 0; t.way < int(t.automatic_keys.size()); t.way++)
            if (store->has(t.automatic_keys[size_t(t.way)])) return settle(t), true;
        t.way = 0;
        return false;
    }

    /// In a child: a kernel into the store. Automatic loops only if they compute what the algorithm says; returns a
    /// word where that could not be seen.
    std::string compile_one(const Task &t) const {
        BuiltKernel built = build_kernel(p, kernel(t), m);
        const std::string key = built.key;
        if (key != report.kernels[t.kernels[0]].key)
            fail("its key changed between two builds ({} and {}): report this", report.kernels[t.kernels[0]].key, key);
        std::string word;
        if (!t.automatic_keys.empty()) {
            apply_automatic(built, *p.schedule, m, t.way);
            word = compare_with_unscheduled(p, kernel(t), built, m, std::max(1, options.time_limit / 4));
        }
        store->put(built.key, [&](const std::string &path) { compile_kernel(built, m, path); });
        return word;
    }
    /// Compiles each, and returns those whose automatic loops were refused, to be tried with the next.
    std::vector<Task> compile(const std::vector<Task> &tasks) {
        std::vector<Task> refused;
        run_children(int(tasks.size()), options.jobs, options.time_limit,
                     [&](int n) { return compile_one(tasks[n]); },
                     [&](int n, const ChildResult &r) {
                         const Task &t = tasks[n];
                         if (r.error.empty()) {
                             if (!r.output.empty()) not_compared(t, r.output);
                             settle(t);
                             compiled++;
                         } else {
                             refused.push_back(refuse(t, r.error));
                         }
                         progress();  // also a sign of life
                     });
        return refused;
    }
    void not_compared(const Task &t, const std::string &why) const {
        fmt::print(stderr, "note: kernel '{}': loops by {} were not compared with the unscheduled kernel: {}\n",
                   kernel(t).name, automatic()[size_t(t.way)].name, why);
    }
    Task refuse(Task t, const std::string &why) const {
        if (t.automatic_keys.empty()) kernel_error(kernel(t), why);
        t.refused += fmt::format("\n  {}: {}", automatic()[size_t(t.way)].name, why);
        if (++t.way == int(t.automatic_keys.size()))
            kernel_error(kernel(t), "no automatic loop schedule serves it; write one and name it with s.loops<" +
                                        report.kernels[t.kernels[0]].layer + ">(...)" + t.refused);
        fmt::print(stderr, "note: kernel '{}': loops by {} are refused, next is {}: {}\n", kernel(t).name,
                   automatic()[size_t(t.way - 1)].name, automatic()[size_t(t.way)].name, why);
        return t;
    }
};

}  // namespace

CompileReport describe_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options) {
    return Compiler(p, m, options).describe();
}

CompileReport compile_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options) {
    return Compiler(p, m, options).run();
}

}  // namespace cryolite::compiler
