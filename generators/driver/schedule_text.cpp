#include "generators/driver/schedule_text.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <fmt/ranges.h>

#include "bundle/block_names.h"
#include "dsl/layers/linear.h"
#include "generators/driver/trials/loop_trials.h"
#include "generators/ir/printer.h"
#include "generators/passes/moves/moves.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

/// A line about a layer or a parameter, and the comment behind it.
struct Line {
    std::string name, text, comment;
};

/// Whether a line's name, in which a star stands for any characters between two dots, matches another name.
bool matches(std::string pattern, std::string name) {
    for (std::string *s : {&pattern, &name}) std::ranges::replace(*s, '.', '/');
    return fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME | FNM_NOESCAPE) == 0;
}

class ScheduleText {
public:
    ScheduleText(StepProgram &p, const StepOptions &options, int64_t budget, const CompileReport &compiled)
        : p(p), options(options), budget(budget), compiled(compiled) {
        for (CallId c : p.calls.ids()) {
            if (p.graph.owns(as_written(p.source(c)))) continue;
            named.insert(p.calls[c].layer);
            layers.insert(p.layer(c).path);
        }
        for (const ir::Parameter &w : p.parameters) parameters.insert(w.path);
    }

    std::string run() {
        text = "# The whole schedule of this step, as lines that --schedule takes. What is computed, flags say.\n";
        text += "s.clear();\n";
        written();
        workers();
        head();
        dialects();
        updates();
        memory();
        layouts();
        loops();
        if (!options.groups) text += "# --group none: no addition is in the kernel of what it adds; no line says so\n";
        return text;
    }

private:
    StepProgram &p;
    const StepOptions &options;
    const int64_t budget;
    const CompileReport &compiled;
    std::set<LayerId> named;  ///< layers that a line can name; operators of the model have no name
    std::set<std::string> layers, parameters;
    std::map<ParamId, std::vector<Line>> of_updates;  ///< lines that were written
    std::string text;

    void add(const std::string &line, const std::string &comment, const char *before = "") {
        text += fmt::format("{}{};{}{}\n", before, line, comment.empty() ? "" : "  // ", comment);
    }
    /// A key, equal for lines that differ in their blocks' numbers alone; empty: the line is of no block.
    static std::string blocks_of(const Line &l) {
        const auto all = line_for_blocks(l.text);
        return all ? *all + without_numbers(l.comment) : "";
    }
    /// Adds lines. Equal lines of several blocks become one line with a star, if the star matches these blocks alone.
    void add(const std::vector<Line> &lines, const std::set<std::string> &names, const char *before = "") {
        std::map<std::string, int> blocks;
        for (const Line &l : lines) blocks[blocks_of(l)]++;
        std::set<std::string> done;
        for (const Line &l : lines) {
            const std::string all = blocks_of(l), name = without_numbers(l.name);
            const auto meant = std::ranges::count_if(names, [&](const std::string &n) { return matches(name, n); });
            if (all.empty() || blocks[all] == 1 || blocks[all] != meant)
                add(l.text, l.comment, before);
            else if (done.insert(all).second)
                add(*line_for_blocks(l.text), without_numbers(l.comment), before);
        }
    }
    static Line split(const std::string &name, const std::string &line) {
        const size_t end = line.find(";  // ");
        return {name, line.substr(0, end), line.substr(end + std::string(";  // ").size())};
    }
    static bool is_of_update(const ir::Line &l) {
        return l.places() && (l.stage.kind == ir::Stage::gradient || l.stage.kind == ir::Stage::next);
    }

    /// Adds the lines that were written or chosen, in their order. Those of updates are kept for `updates`.
    void written() {
        std::istringstream all(ir::lines_of(p));
        std::vector<Line> run;  // lines in a row that one line with a star may stand for
        std::string key;
        bool of_parameter = false;
        auto end_run = [&] { add(run, of_parameter ? parameters : layers), run.clear(); };
        for (const ir::Line &l : p.lines) {
            std::string line;
            std::getline(all, line);
            const ParamId w = l.stage.parameter;
            const Line one = split(w ? p.parameters[w].path : l.stage.layer ? p.layers[l.stage.layer].path : "", line);
            if (is_of_update(l)) {
                of_updates[w].push_back(one);
                continue;
            }
            if (const std::string next = blocks_of(one); next != key || bool(w) != of_parameter)
                end_run(), key = next, of_parameter = bool(w);
            run.push_back(one);
        }
        end_run();
    }
    bool any_line(auto &&of) const { return std::ranges::any_of(p.lines, of); }

    void workers() {
        if (p.workers > 1 && !any_line([](const ir::Line &l) { return l.how == ir::Line::distribute; }))
            add("s(d(net)).distribute(workers)", fmt::format("--workers {}", p.workers));
    }

    void head() {
        if (!p.chunks.head || !p.chunks.loss) return;
        if (any_line([&](const ir::Line &l) {
                return l.places() && l.stage.kind == ir::Stage::value && l.stage.layer == p.chunks.head;
            }))
            return;
        const std::string &name = p.layers[p.chunks.head].path, &loss = p.layers[p.chunks.loss].path;
        const std::string flag =
            options.head_rows < 0 ? "as the compiler chooses" : fmt::format("--head-rows {}", options.head_rows);
        const bool usually = head_block_rows(p.values[p.output].shape.size() * 4, p.schedule->machine) > 0;
        if (!p.chunks.rows && !usually) return;
        if (!named.count(p.chunks.head) || !named.count(p.chunks.loss))
            text += fmt::format("# blocks of {} rows of the head, which no line can name: {}\n", p.chunks.rows, flag);
        else if (p.chunks.rows)
            add(fmt::format("s({}).compute_at({}, {})", name, loss, p.chunks.rows), flag);
        else
            add(fmt::format("s({}).compute_root()", name), flag);
    }

    /// Adds a line for each product that --dialect applies to.
    void dialects() {
        if (options.dialect == "halide") return;
        std::vector<Line> of_layers, of_parameters;
        std::set<std::string> seen;
        for (const ir::Line &l : p.lines)
            if (l.how == ir::Line::dialect) seen.insert(l.stage.text);
        int unnamed = 0;
        for (auto &[entry, _] : p.entries) {
            const EntryView e(p, entry);
            for (KernelId id : e.entry.kernels) {
                const ir::Kernel &k = p.kernels[id];
                if (k.dialect_why.empty() || !k.anchor) continue;
                const std::optional<Stage> stage = stage_of(p, e, k.anchor);
                if (!stage) unnamed++;
                if (!stage || !seen.insert(stage->str()).second) continue;
                const std::string line = fmt::format("s({}).dialect({}).where_legal()", stage->str(), options.dialect);
                const std::string why = "--dialect " + options.dialect;
                if (stage->parameter)
                    of_parameters.push_back({stage->parameter->path(), line, why});
                else
                    of_layers.push_back({stage->layer->path, line, why});
            }
        }
        add(of_layers, layers), add(of_parameters, parameters);
        if (unnamed)
            text += fmt::format("# {} products that no line can name: --dialect {}\n", unnamed, options.dialect);
    }

    void updates() {
        std::map<ParamId, const ir::Op *> ops;
        for (const ir::Op &op : p.ops)
            if (ir::is<ir::Update>(op)) ops.emplace(ir::parameter_of(op), &op);
        std::vector<Line> lines;
        for (ParamId w : p.parameters.ids()) {
            lines.insert(lines.end(), of_updates[w].begin(), of_updates[w].end());
            if (!p.parameters[w].trained()) continue;
            if (any_line([&](const ir::Line &l) { return is_of_update(l) && l.stage.parameter == w && !l.left_out(); }))
                continue;
            const std::string &name = p.parameters[w].path;
            const ir::Op &op = *ops.at(w);
            const std::string line = p.parameters[w].deferred ? fmt::format("s(next({})).compute_at(forward)", name)
                                     : op.placed == "with its gradient"
                                         ? fmt::format("s(d({})).compute_at(next({}))", name, name)
                                     : op.placed.starts_with("with next(")
                                         ? fmt::format("s(next({})).compute_with({})", name, op.placed.substr(5))
                                         : fmt::format("s(next({})).compute_root()", name);
            lines.push_back({name, line, op.rule.empty() ? op.why : fmt::format("{} [{}]", op.why, op.rule)});
        }
        add(lines, parameters);
    }

    /// Adds lines for what the budget rematerialises, if lines can name all of it: layers, each with all of its calls.
    void memory() {
        if (budget) add(fmt::format("s.budget({})", budget), "");
        std::map<LayerId, std::vector<CallId>> calls;
        std::set<LayerId> again;
        for (CallId c : p.calls.ids())
            if (!p.chunks.calls.count(c)) calls[p.calls[c].layer].push_back(c);
        auto is_again = [&](CallId c) { return p.values[p.calls[c].output].remat && !p.layer(c).remat; };
        for (auto &[layer, list] : calls)
            if (std::ranges::any_of(list, is_again)) again.insert(layer);
        const bool all = std::ranges::all_of(
            again, [&](LayerId l) { return named.count(l) && std::ranges::all_of(calls[l], is_again); });
        if (!all) return unnamed_again(again);
        std::vector<Line> lines;
        for (LayerId l : again)
            lines.push_back(
                {p.layers[l].path, fmt::format("s({}).store_at(forward)", p.layers[l].path), "by the budget"});
        add(lines, layers);
    }
    void unnamed_again(const std::set<LayerId> &again) {
        std::map<std::string, int> count;
        for (LayerId l : again) count[without_numbers(p.layers[l].path)]++;
        std::vector<std::string> names;
        for (auto &[name, n] : count) names.push_back(n > 1 ? fmt::format("{} of {}", n, name) : name);
        text += fmt::format("# the budget rematerialises, beside operators that no line can name: {}\n",
                            fmt::join(names, ", "));
    }

    void layouts() {
        std::vector<Line> lines;
        for (ParamId w : p.parameters.ids()) {
            const ir::Parameter &parameter = p.parameters[w];
            const Layout &layout = p.values[parameter.value].layout;
            const bool written = p.schedule->layouts.count(&p.source(w)) > 0;
            if (parameter.state || (layout.row_major() && !written)) continue;
            const std::string how =
                layout.row_major() ? "row_major()" : fmt::format("panels({}, {})", layout.panel, layout.dim);
            lines.push_back({parameter.path, fmt::format("s.layout({}, {})", parameter.path, how),
                             written ? "" : "as the compiler chooses"});
        }
        add(lines, parameters);
    }

    void loops() {
        if (!p.schedule->loops_written) add("s.clear_loops()", "");
        std::vector<std::pair<std::string, std::string>> owners;  // with their numbers that differ from the usual
        for (const Step::LoopValue &v : p.schedule->loop_values) {
            const std::string of =
                fmt::format("{}, {}", v.layer ? v.layer->path : v.parameter->path(), form_name(v.form));
            if (!differs(of, v.name)) continue;
            auto at = std::ranges::find(owners, of, &std::pair<std::string, std::string>::first);
            if (at == owners.end()) at = owners.insert(at, {of, ""});
            at->second += fmt::format(" {}={}", v.name, v.value);
        }
        for (bool of_parameter : {false, true}) {
            std::vector<Line> lines;
            for (auto &[of, numbers] : owners)
                if (is_of_parameter(of) == of_parameter)
                    lines.push_back({name_of(of), fmt::format("loops({}):{}", of, numbers), ""});
            add(lines, of_parameter ? parameters : layers);
        }
        all_loops();
        if (!p.schedule->loops_of.empty())
            text += "# the program has loop schedules of its own, in C++, which no line clears\n";
    }
    bool differs(const std::string &of, const std::string &number) const {
        return std::ranges::any_of(compiled.kernels, [&](const CompiledKernel &k) {
            return k.loops_of == of && std::ranges::any_of(k.tunables, [&](const Tunable &t) {
                       return t.name == number && t.value != t.usual;
                   });
        });
    }
    static std::string name_of(const std::string &loops_of) { return loops_of.substr(0, loops_of.rfind(", ")); }
    static bool is_of_parameter(const std::string &loops_of) {
        return loops_of.ends_with(", update") || loops_of.ends_with(", norm");
    }
    /// Adds the numbers of all loops as comments, because a kernel with a given number is compared when it is compiled.
    void all_loops() {
        std::vector<Line> of_layers, of_parameters;
        std::istringstream lines(loop_lines(compiled, p.schedule->machine));
        for (std::string line; std::getline(lines, line);) {
            const size_t name = std::string("loops(").size();
            const std::string of = line.substr(name, line.find("):") - name);
            if ((is_of_parameter(of) ? parameters : layers).count(name_of(of)))
                (is_of_parameter(of) ? of_parameters : of_layers).push_back(split(name_of(of), line));
        }
        if (of_layers.empty() && of_parameters.empty()) return;
        text += "# The numbers of all loops, each with what is legal; without its # a line gives them. What is legal "
                "depends\n# on the others: a line of one's own has those that it changes alone.\n";
        add(of_layers, layers, "# "), add(of_parameters, parameters, "# ");
    }
};

}  // namespace

std::string schedule_text(StepProgram &p, const StepOptions &options, int64_t budget, const CompileReport &compiled) {
    return ScheduleText(p, options, budget, compiled).run();
}

}  // namespace cryolite::compiler
