#include "generators/driver/trials/loop_trials.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "dsl/layers/linear.h"
#include "generators/codegen/child.h"
#include "generators/codegen/compare.h"
#include "generators/codegen/kernel_store.h"
#include "generators/codegen/link.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

/// "rows=4 columns=48"
std::map<std::string, int> read_numbers(const std::string &text) {
    std::map<std::string, int> numbers;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(' ', at), text.size()), is = text.find('=', at);
        int value = 0;
        const char *last = text.data() + end;
        if (is == std::string::npos || is > end || std::from_chars(text.data() + is + 1, last, value).ptr != last ||
            is + 1 == end)
            fail("'{}' is not a list of numbers of loops, expected NAME=VALUE NAME=VALUE", text);
        numbers[text.substr(at, is - at)] = value;
        at = end + 1;
    }
    return numbers;
}

/// Runs in a child: replaces the numbers that lines gave to the kernel's loops by the numbers in `text`.
void give(Step &step, const StepProgram &p, const ir::Kernel &k, const std::string &text) {
    const ir::Op &op = p.ops[k.anchor ? k.anchor : k.ops[0]];
    const auto call = ir::call_of(op);
    const ParamId w = ir::parameter_of(op);
    const std::map<std::string, int> numbers = read_numbers(text);
    auto owns = [&](const Step::LoopValue &v) {
        return call && v.layer == &as_written(p.source(*call)) ? true : w && v.parameter == &p.source(w);
    };
    std::erase_if(step.loop_values, owns);
    for (Form form : {Form::forward, Form::d_input, Form::d_parameter, Form::update, Form::norm})
        for (auto &[name, value] : numbers) {
            const bool of_parameter = form == Form::update || form == Form::norm;
            if (of_parameter ? bool(w) : call.has_value())
                step.tune({.layer = of_parameter ? nullptr : &as_written(p.source(*call)),
                           .parameter = of_parameter ? &p.source(w) : nullptr,
                           .form = form,
                           .name = name,
                           .value = value,
                           .source = "candidate"});
        }
}

/// Kernels may have the same name, as those of the loss in the step and in evaluation, but not the same algorithm. This
/// is found out in children, as the names of Funcs, and with them the keys, depend on what a process has built before.
const ir::Kernel &find_kernel(const StepProgram &p, const std::string &name, const std::string &algorithm,
                              const Machine &m) {
    std::vector<const ir::Kernel *> named;
    for (const ir::Kernel &k : p.kernels)
        if (k.name == name && p.is_compiled(k)) named.push_back(&k);
    const ir::Kernel *found = named.empty() ? nullptr : named[0];
    if (named.size() > 1 && !algorithm.empty()) {
        found = nullptr;
        run_children(
            int(named.size()), 1, 60,
            [&](int n) { return build_kernel(p, *named[size_t(n)], m, {.key = false, .algorithm = true}).algorithm; },
            [&](int n, const ChildResult &r) {
                if (!r.error.empty()) fail("kernel '{}': {}", name, r.error);
                if (!found && r.output == algorithm) found = named[size_t(n)];
            });
    }
    if (!found) fail("the step has no kernel '{}' that is compiled", name);
    return *found;
}

void compare(const Expected &expected, const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built,
             const Machine &m) {
    if (!expected.hindrance.empty()) return;
    KernelTrial trial(p, k, built, m, false);
    hold_against(expected, built, trial);
}

/// The kernel with its loop schedule, compared with `expected`. Of automatic loops, takes the first that agree with it.
BuiltKernel scheduled_kernel(const StepProgram &p, const ir::Kernel &k, const Machine &m, const Step &step,
                             const Expected &expected) {
    std::string refused;
    for (int way = 0;; way++) {
        BuiltKernel built = build_kernel(p, k, m);
        for (auto &[name, given] : built.group.tunables.given)
            if (std::ranges::find(built.group.tunables.declared, name, &Tunable::name) ==
                built.group.tunables.declared.end())
                fail("with these numbers its loops have no number '{}'", name);
        if (built.automatic_keys.empty()) return compare(expected, p, k, built, m), built;
        if (way == int(built.automatic_keys.size())) fail("no automatic loops serve it:{}", refused);
        try {
            apply_automatic(built, step, m, way);
            compare(expected, p, k, built, m);
            return built;
        } catch (const Halide::Error &e) {
            refused += fmt::format("\n  {}", e.what());
        } catch (const std::exception &e) {
            refused += fmt::format("\n  {}", e.what());
        }
    }
}

/// "0 or written, 1 or adams2019"; `unwritten`: 0 means automatic loops, since none are written.
std::string automatic_words(const Tunable &t, bool unwritten, const Machine &m) {
    const std::vector<std::string> &names = automatic_names(m);
    std::string words;
    for (int value : t.legal)
        words += fmt::format("{}{}{}", words.empty() ? "" : ", ", value,
                             value == 0 && unwritten        ? " (the first of 1, 2 and 3 that serves)"
                             : size_t(value) < names.size() ? " or " + names[size_t(value)]
                                                            : "");
    return words;
}

}  // namespace

std::string loop_lines(const CompileReport &compiled, const Machine &m) {
    std::string text;
    std::set<std::string> seen;
    for (const CompiledKernel &k : compiled.kernels) {
        if (k.tunables.empty() || k.loops_of.empty() || !k.by_halide) continue;
        std::string line = "loops(" + k.loops_of + "):", legal;
        for (const Tunable &t : k.tunables) {
            if (t.legal.size() == 1) continue;  // nothing to choose
            line += fmt::format(" {}={}", t.name, t.value);
            legal += fmt::format("{}{} {}", legal.empty() ? "" : "; ", t.name,
                                 t.name == "automatic" ? automatic_words(t, k.automatic && t.value == 0, m)
                                                       : t.legal_words());
        }
        if (!legal.empty() && seen.insert(line).second)
            text += fmt::format("{};  // {}: {}\n", line, k.loops.empty() ? "automatic" : k.loops, legal);
    }
    return text;
}

std::string loops_json(const StepProgram &p, const CompileReport &compiled) {
    json list = json::array();
    std::set<std::string> seen;
    for (KernelId id : p.kernels.ids()) {
        const CompiledKernel &k = compiled.kernels[size_t(id.index)];
        if (k.tunables.empty() || k.loops_of.empty() || !k.by_halide || !seen.insert(k.key + k.loops_of).second)
            continue;
        json tunables = json::array();
        for (const Tunable &t : k.tunables)
            tunables.push_back({{"name", t.name},
                                {"value", t.value},
                                {"usual", t.usual},
                                {"legal", t.legal},
                                {"same_order", t.sums == Sums::same_order}});
        list.push_back({{"kernel", p.kernels[id].name},
                        {"symbol", "cryolite_" + k.key},
                        {"algorithm", k.algorithm},
                        {"loops_of", k.loops_of},
                        {"loops", k.loops},
                        {"tunables", tunables}});
    }
    return list.dump();
}

namespace {

/// The results of the kernel without a loop schedule, computed in a child.
json expected_in_child(const StepProgram &p, const ir::Kernel &k, const Machine &m, const CompileOptions &how) {
    json found;
    share_jit_runtime();
    run_children(
        1, 1, std::max(300, how.time_limit),
        [&](int) {
            const BuiltKernel built = build_kernel(p, k, m, {.scheduled = false});
            const Expected e = unscheduled_outputs(p, k, built, m, std::max(20, how.time_limit / 3), true);
            json j = {{"hindrance", e.hindrance}, {"outputs", json::array()}};
            for (auto &[inputs, bytes] : e.outputs)
                j["outputs"].push_back({int(inputs), json::binary({bytes.begin(), bytes.end()})});
            const std::vector<uint8_t> packed = json::to_cbor(j);
            return std::string(packed.begin(), packed.end());
        },
        [&](int, const ChildResult &r) {
            if (!r.error.empty()) fail("kernel '{}': {}", k.name, r.error);
            found = json::from_cbor(r.output);
        });
    return found;
}

/// The same, kept in `file` for later candidates of a kernel of this algorithm, since it may take longer than they do.
/// Where the file cannot be read or written, the results are computed again.
json kept_expected(const std::string &file, const std::string &algorithm, const std::function<json()> &make) {
    if (std::ifstream in(file, std::ios::binary); !file.empty() && in) {
        const std::string bytes{std::istreambuf_iterator<char>(in), {}};
        json kept = json::from_cbor(bytes, true, false);
        if (kept.is_object() && kept.value("algorithm", "") == algorithm) return kept;
    }
    json found = make();
    found["algorithm"] = algorithm;
    if (!file.empty()) {
        const std::vector<uint8_t> packed = json::to_cbor(found);
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char *>(packed.data()), std::streamsize(packed.size()));
    }
    return found;
}

}  // namespace

void try_loops(const StepProgram &p, Step &step, const Machine &m, const CompileOptions &how,
               const std::string &request, const std::string &folder) {
    const json asked = json::parse(request);
    const ir::Kernel &k = find_kernel(p, asked.at("kernel"), asked.value("algorithm", ""), m);
    const auto candidates = asked.at("candidates").get<std::vector<std::string>>();
    const KernelStore store(how.store);
    auto print = [](const json &line) {
        fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
        fflush(stdout);
    };
    // The extents of arguments do not depend on loops, so the same expected results serve for all candidates.
    const json kept = kept_expected(asked.value("expected", ""), asked.value("algorithm", ""),
                                    [&] { return expected_in_child(p, k, m, how); });
    Expected expected;
    expected.hindrance = kept["hindrance"];
    for (const json &o : kept["outputs"]) {
        const auto &bytes = o[1].get_binary();
        expected.outputs.emplace_back(Inputs(o[0].get<int>()), std::string(bytes.begin(), bytes.end()));
    }
    run_children(
        int(candidates.size()), how.jobs, how.time_limit,
        [&](int n) {
            give(step, p, k, candidates[size_t(n)]);
            const BuiltKernel built = scheduled_kernel(p, k, m, step, expected);
            if (!store.has(built.key))
                store.put(built.key, [&](const std::string &path) { compile_kernel(built, m, path); });
            return built.key;
        },
        [&](int n, const ChildResult &r) {
            json line = {{"candidate", n}};
            if (r.error.empty()) {
                const std::string place = fmt::format("{}/{}", folder, n);
                std::filesystem::create_directories(place);
                CompileReport one;
                one.kernels.emplace_back().key = r.output;
                link_kernels(one, how, m.target, place);
                line["symbol"] = "cryolite_" + r.output, line["unsure"] = expected.hindrance;
            } else {
                line["error"] = r.error;
            }
            print(line);
        });
}

}  // namespace cryolite::compiler
