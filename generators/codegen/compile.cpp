#include "generators/codegen/compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <nlohmann/json.hpp>

#include "generators/codegen/blame.h"
#include "generators/codegen/progress.h"
#include "generators/codegen/compare.h"
#include "generators/ir/verify.h"
#include "generators/passes/placement/dialects.h"
#include "generators/passes/pipeline.h"
#include "generators/lowering/hash.h"
#include "generators/lowering/temporaries.h"
#include "generators/codegen/kernel_store.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

std::string words_of(const BuiltKernel &k) {
    json args = json::array();
    for (const KernelArgument &a : k.arguments)
        args.push_back(
            {a.value.index, a.offset, int(a.type.code()), a.type.bits(), a.extents, a.written, a.replaceable});
    json tunables = json::array();
    for (const Tunable &t : k.group.tunables.declared)
        tunables.push_back({t.name, t.value, t.usual, t.legal, int(t.sums)});
    return json{{"key", k.key},
                {"automatic", k.automatic_keys},
                {"first_automatic", k.first_automatic},
                {"loops", k.loops},
                {"layer", k.layer},
                {"loops_of", k.loops_of},
                {"args", args},
                {"tunables", tunables},
                {"form", form_name(k.group.form)},
                {"algorithm", k.algorithm}}
        .dump();
}

struct Described {
    CompiledKernel kernel;
    std::vector<std::string> automatic_keys;
    int first_automatic;
};

Described parse(const std::string &text) {
    json j = json::parse(text);
    CompiledKernel k{j["key"], j["loops"], j["layer"], j["form"], {}};
    for (const json &a : j["args"])
        k.arguments.push_back(
            {ValueId(a[0]), a[1], Halide::Type(halide_type_code_t(int(a[2])), int(a[3]), 1), a[4], a[5], a[6]});
    k.loops_of = j["loops_of"], k.algorithm = j["algorithm"];
    for (const json &t : j["tunables"]) k.tunables.push_back({t[0], t[1], t[2], t[3], Sums(t[4].get<int>())});
    auto automatic_keys = j["automatic"].get<std::vector<std::string>>();
    k.automatic = !automatic_keys.empty();
    return {k, automatic_keys, j["first_automatic"]};
}

[[noreturn]] void kernel_error(const ir::Kernel &k, const std::string &why) {
    // Sizes of temporaries have 32 bits. This is Halide's message for one that overflows them.
    if (why.find("Allocation size should be a positive number") != std::string::npos)
        throw UsageError(
            fmt::format("kernel '{}': a temporary of its loops would have 2 GiB or more, which no kernel can "
                        "allocate; make the layers that it is of, or the batch, smaller",
                        k.name));
    fail("kernel '{}': {}", k.name, why);
}

/// Kernels with the same key. They are compiled once, as the first of them.
struct Task {
    std::vector<KernelId> kernels;
    std::vector<std::string> automatic_keys;  ///< a key for each automatic schedule; empty: the loops were written
    int first_automatic = 0;                  ///< which of the step's automatic schedules has the first key
    int way = 0;                              ///< which key's schedule is tried now
    std::string refused;                      ///< the schedules tried before, and why they were refused
};

class Compiler {
public:
    Compiler(const StepProgram &p, const Machine &m, const CompileOptions &options) : p(p), m(m), options(options) {}

    CompileReport describe() {
        std::vector<Task> list = tasks();
        report.distinct = int(list.size());
        if (!options.store.empty()) {
            store.emplace(options.store);
            for (Task &t : list) found(t);
        }
        return std::move(report);
    }
    CompileReport run() {
        store.emplace(options.store);
        std::vector<Task> missing;
        for (Task &t : tasks()) {
            if (found(t))
                report.cached++;
            else
                missing.push_back(std::move(t));
            report.distinct++;
        }
        compiled = 0;
        progress();
        while (!missing.empty()) missing = compile(missing);
        return std::move(report);
    }
    std::map<std::string, int64_t> temporaries() {
        store.emplace(options.store);
        std::vector<Task> list = tasks();
        for (Task &t : list)
            if (!found(t)) fail("kernel '{}' is not compiled yet", kernel(t).name);
        std::map<std::string, int64_t> bytes;
        run_children(
            int(list.size()), options.jobs, options.time_limit,
            [&](int n) {
                BuiltKernel built = build_kernel(p, kernel(list[size_t(n)]), m);
                if (const Task &t = list[size_t(n)]; !t.automatic_keys.empty())
                    apply_automatic(built, *p.schedule, m, t.way);
                return std::to_string(temporaries_of(built, m));
            },
            [&](int n, const ChildResult &r) {
                const Task &t = list[size_t(n)];
                if (!r.error.empty()) kernel_error(kernel(t), r.error + blame(r, p, kernel(t)));
                bytes[result(t.kernels[0]).key] = std::stoll(r.output);
            });
        return bytes;
    }

private:
    const StepProgram &p;
    const Machine &m;
    const CompileOptions &options;
    std::optional<KernelStore> store;  ///< opened by the methods that use it
    CompileReport report;
    int compiled = 0;

    const std::string &automatic_name(const Task &t, int way) const {
        return p.schedule->automatic_way(size_t(t.first_automatic + way)).name;
    }
    const ir::Kernel &kernel(const Task &t) const { return p.kernels[t.kernels[0]]; }
    CompiledKernel &result(KernelId k) { return report.kernels[size_t(k.index)]; }
    const CompiledKernel &result(KernelId k) const { return report.kernels[size_t(k.index)]; }
    void progress() const {
        if (options.progress) options.progress(report.cached + compiled, report.distinct, report.cached);
    }

    /// Builds every kernel to find its key, which takes milliseconds. Equal kernels become one task.
    std::vector<Task> tasks() {
        report.kernels.resize(size_t(p.kernels.size()));
        std::vector<KernelId> list;
        for (KernelId k : p.kernels.ids())
            if (p.is_compiled(p.kernels[k]))
                list.push_back(k);
            else
                result(k).by_halide = false;  // a sum over workers, which the runtime does
        std::map<std::string, Task> by_key;
        ProgressReporter progress("finding equal kernels", int(list.size()));
        run_children(
            int(list.size()), options.jobs, options.time_limit,
            [&](int i) {
                return words_of(
                    build_kernel(p, p.kernels[list[size_t(i)]], m, {.algorithm = options.algorithms, .bounds = false}));
            },
            [&](int i, const ChildResult &r) {
                progress.step();
                const KernelId k = list[size_t(i)];
                if (!r.error.empty()) kernel_error(p.kernels[k], r.error + blame(r, p, p.kernels[k]));
                Described d = parse(r.output);
                result(k) = d.kernel;
                verify_built(k);
                add_dialects(p.kernels[k], result(k));
                if (!result(k).by_halide) return;
                Task &t = by_key[d.kernel.key];
                t.kernels.push_back(k);
                t.automatic_keys = d.automatic_keys, t.first_automatic = d.first_automatic;
            });
        check_loop_values();
        std::vector<Task> tasks;
        for (auto &[key, t] : by_key) {
            std::ranges::sort(t.kernels);  // children end in any order
            tasks.push_back(std::move(t));
        }
        return tasks;
    }
    /// A line with a star may name several kernels. At least one of them must have the number that the line gives.
    void check_loop_values() const {
        struct Answer {
            bool used = false;
            std::string of, has;
            std::vector<std::string> names = {};
        };
        std::map<std::string, Answer> by_source;
        for (const Step::LoopValue &v : p.schedule->loop_values) {
            Answer &a = by_source[v.source];
            a.of = fmt::format("{}, {}", v.layer ? v.layer->path : v.parameter->path(), form_name(v.form));
            for (const CompiledKernel &k : report.kernels) {
                if (k.loops_of != a.of) continue;
                for (const Tunable &t : k.tunables) {
                    a.used |= t.name == v.name;
                    if (std::ranges::count(a.names, t.name)) continue;  // another kernel of the line has it, too
                    a.names.push_back(t.name);
                    a.has += fmt::format("{}{} ({})", a.has.empty() ? "" : ", ", t.name, t.legal_words());
                }
            }
        }
        for (const Step::LoopValue &v : p.schedule->loop_values) {
            const Answer &a = by_source[v.source];
            if (a.used) continue;
            const bool only_automatic = a.names == std::vector<std::string>{"automatic"};
            throw UsageError(fmt::format(
                "{}: no kernel of loops({}) has a number '{}'; {}", v.source, a.of, v.name,
                a.has.empty()    ? owner_words(v)
                : only_automatic ? fmt::format("there are {}; automatic=tiled has others, as rows and columns", a.has)
                                 : "there are " + a.has));
        }
    }
    /// Whose loops compute what a line is about, if it is in another stage's kernel.
    std::string owner_words(const Step::LoopValue &v) const {
        auto is_meant = [&](OpId id) { return is_stage_of(p, p.ops[id], v); };
        for (KernelId k : p.kernels.ids())
            if (const std::string &of = result(k).loops_of;
                !of.empty() && std::ranges::any_of(p.kernels[k].ops, is_meant))
                return fmt::format("it is computed in the loops of loops({})", of);
        return "there is none at all: explain --ir lines names all kernels";
    }
    void verify_built(KernelId k) const {
        std::vector<ValueId> read, written;
        for (const KernelArgument &a : result(k).arguments) (a.written ? written : read).push_back(a.value);
        ir::verify_arguments(p, p.kernels[k], read, written);
    }
    void add_dialects(const ir::Kernel &k, CompiledKernel &c) const {
        std::vector<std::string> names = k.dialects;
        if (k.dialect != "halide") names = {k.dialect};
        for (const std::string &name : names)
            c.dialects.emplace_back(name, with_arguments(product_of(p, k), c.arguments));
        if (k.dialect == "halide") return;
        c.by_halide = false, c.loops = k.dialect, c.key = digest(k.dialect + json(c.dialects[0].second).dump());
    }
    void settle(const Task &t) {
        if (t.automatic_keys.empty()) return;
        for (KernelId k : t.kernels) {
            result(k).key = t.automatic_keys[size_t(t.way)];
            result(k).loops = automatic_name(t, t.way);
        }
    }
    /// Whether the kernel is in the store. With automatic loops, the store has it with the schedule that was accepted.
    bool found(Task &t) {
        if (t.automatic_keys.empty()) return store->has(result(t.kernels[0]).key);
        for (t.way = 0; t.way < int(t.automatic_keys.size()); t.way++)
            if (store->has(t.automatic_keys[size_t(t.way)])) return settle(t), true;
        t.way = 0;
        return false;
    }

    /// Runs in a child: compiles a kernel into the store. Automatic loops, and loops with given numbers, are compared
    /// with the unscheduled kernel first. Returns why that comparison was impossible, or nothing.
    std::string compile_one(const Task &t) const {
        BuiltKernel built = build_kernel(p, kernel(t), m);
        const std::string key = built.key;
        if (key != result(t.kernels[0]).key)
            fail("its key changed between two builds ({} and {}): report this", result(t.kernels[0]).key, key);
        std::string word;
        if (!t.automatic_keys.empty()) apply_automatic(built, *p.schedule, m, t.way);
        if (!t.automatic_keys.empty() || !built.group.tunables.given.empty())
            word = compare_with_unscheduled(p, kernel(t), built, m, std::max(1, options.time_limit / 4));
        store->put(built.key, [&](const std::string &path) { compile_kernel(built, m, path); });
        return word;
    }
    /// Compiles the tasks. Returns those whose automatic loops were refused, with the next automatic schedule to try.
    std::vector<Task> compile(const std::vector<Task> &tasks) {
        std::vector<Task> refused;
        if (std::ranges::any_of(tasks, [](const Task &t) { return !t.automatic_keys.empty(); })) share_jit_runtime();
        run_children(
            int(tasks.size()), options.jobs, options.time_limit, [&](int n) { return compile_one(tasks[n]); },
            [&](int n, const ChildResult &r) {
                const Task &t = tasks[n];
                if (r.error.empty()) {
                    if (!r.output.empty()) not_compared(t, r.output);
                    settle(t);
                    compiled++;
                } else {
                    refused.push_back(refuse(t, r.error + blame(r, p, kernel(t))));
                }
                progress();  // also shows that the program is alive
            });
        return refused;
    }
    void not_compared(const Task &t, const std::string &why) const {
        fmt::print(stderr, "note: kernel '{}': loops by {} were not compared with the unscheduled kernel: {}\n",
                   kernel(t).name, t.automatic_keys.empty() ? result(t.kernels[0]).loops : automatic_name(t, t.way),
                   why);
    }
    Task refuse(Task t, const std::string &why) const {
        if (t.automatic_keys.empty()) kernel_error(kernel(t), why);
        t.refused += fmt::format("\n  {}: {}", automatic_name(t, t.way), why);
        if (++t.way == int(t.automatic_keys.size()))
            kernel_error(kernel(t), "no automatic loop schedule serves it; write one and name it with s.loops<" +
                                        result(t.kernels[0]).layer + ">(...)" + t.refused);
        fmt::print(stderr, "note: kernel '{}': loops by {} are refused, next is {}: {}\n", kernel(t).name,
                   automatic_name(t, t.way - 1), automatic_name(t, t.way), why);
        return t;
    }
};

}  // namespace

std::vector<Touched> touched_by(const StepProgram &p, const CompileReport &compiled) {
    std::vector<Touched> touched;
    for (KernelId id : p.kernels.ids()) {
        Touched &t = touched.emplace_back();
        for (const KernelArgument &a : compiled.kernels[size_t(id.index)].arguments) {
            t.values.push_back(a.value);
            if (a.replaceable) t.replaceable = a.value;
            if (a.written) t.result = a.value;
        }
        if (const ValueId workspace = p.kernels[id].workspace) t.values.push_back(workspace);
    }
    return touched;
}

Product with_arguments(Product q, const std::vector<KernelArgument> &arguments) {
    auto place = [&](int &value, bool written) {
        for (int a = 0; value >= 0 && a < int(arguments.size()); a++)
            if (arguments[size_t(a)].value.index == value && arguments[size_t(a)].written == written)
                return void(value = a);
        if (value >= 0)
            fail("a kernel has no argument for what its product {}: report this", written ? "stores" : "reads");
    };
    for (int *read : {&q.weight, &q.x, &q.dy}) place(*read, false);
    place(q.stores, true);
    for (Product::Then &t : q.then) place(t.reads, false), place(t.stores, true);
    return q;
}

CompileReport describe_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options) {
    return Compiler(p, m, options).describe();
}

std::map<std::string, int64_t> temporaries_of_kernels(const StepProgram &p, const Machine &m,
                                                      const CompileOptions &options) {
    return Compiler(p, m, options).temporaries();
}

CompileReport compile_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options) {
    return Compiler(p, m, options).run();
}

}  // namespace cryolite::compiler
