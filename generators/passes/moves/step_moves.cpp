#include "generators/passes/moves/step_moves.h"

#include <algorithm>

#include "bundle/block_names.h"
#include "dsl/layers/linear.h"
#include "generators/passes/moves/moves.h"

namespace cryolite::compiler {

namespace {

class StepMoves {
public:
    explicit StepMoves(StepProgram &p) : p(p) {}

    std::vector<StepMove> run() {
        fusions();
        alone();
        updates();
        head();
        dialects();
        panels();
        rematerialised();
        return for_blocks();
    }

private:
    StepProgram &p;
    std::vector<StepMove> list;

    void add(const std::string &line, int64_t bytes = 0) { list.push_back({line, bytes}); }

    /// Makes one move of the same moves of several blocks, since all blocks have the same loops.
    std::vector<StepMove> for_blocks() const {
        std::map<std::string, int> blocks;
        for (const StepMove &m : list)
            if (const auto all = line_for_blocks(m.line)) blocks[*all]++;
        std::vector<StepMove> moves;
        for (const StepMove &m : list) {
            const auto all = line_for_blocks(m.line);
            const std::string &line = all && blocks[*all] > 1 ? *all : m.line;
            const auto same = std::ranges::find(moves, line, &StepMove::line);
            if (same == moves.end())
                moves.push_back({line, m.bytes});
            else
                same->bytes += m.bytes;
        }
        std::ranges::stable_sort(moves, std::greater(), &StepMove::bytes);
        return moves;
    }

    void fusions() {
        int64_t all = 0;
        for (const Move &m : fusions_of(p)) {
            add(text_of(m), m.bytes);
            if (m.is_epilogue) all += m.bytes;
        }
        if (!p.schedule->chooses && all > 0) add("s.automatic()", all);
    }
    /// Stages that a line has placed with another stage, each in a kernel of its own.
    void alone() {
        for (const ir::Line &l : p.lines) {
            const bool of_layer = l.stage.kind == ir::Stage::value || l.stage.kind == ir::Stage::adjoint;
            if (l.places() && l.how != ir::Line::root && of_layer && !l.verdict.by.empty())
                add(fmt::format("s({}).compute_root()", l.stage.text));
        }
    }
    void updates() {
        for (ParamId w : p.trained()) {
            const std::string &name = p.parameters[w].path;
            if (p.parameters[w].deferred) {
                add(fmt::format("s(next({})).compute_root()", name));
                continue;
            }
            const bool beside = std::ranges::any_of(p.ops, [&](const ir::Op &op) {
                return ir::is<ir::Update>(op) && ir::parameter_of(op) == w && op.placed == "with its gradient";
            });
            if (beside)
                add(fmt::format("s(d({})).compute_root()", name));
            else
                add(fmt::format("s(d({})).compute_at(next({}))", name, name),
                    2 * p.values[p.parameters[w].gradient].bytes());
            add(fmt::format("s(next({})).compute_at(forward)", name));
        }
    }
    void head() {
        if (!p.chunks.head || !p.chunks.loss) return;
        const std::string &name = p.layers[p.chunks.head].path, &loss = p.layers[p.chunks.loss].path;
        const Shape &logits = p.values[p.output].shape;
        if (p.chunks.rows) add(fmt::format("s({}).compute_root()", name));
        for (int rows = 32; rows < int(logits.size() / logits[0]); rows *= 2)
            if (rows != p.chunks.rows) add(fmt::format("s({}).compute_at({}, {})", name, loss, rows));
    }
    void dialects() {
        for (const char *entry : {entry::forward, p.backward_entry()}) {
            if (!p.entries.count(entry)) continue;
            const EntryView e(p, entry);
            for (KernelId k : e.entry.kernels) {
                const ir::Kernel &kernel = p.kernels[k];
                const std::optional<Stage> stage = kernel.anchor ? stage_of(p, e, kernel.anchor) : std::nullopt;
                if (!stage) continue;
                for (const std::string &dialect : kernel.dialects)
                    add(fmt::format("s({}).dialect({})", stage->str(), dialect));
                if (kernel.dialect != "halide") add(fmt::format("s({}).dialect(halide)", stage->str()));
            }
        }
    }
    void panels() {
        for (const ir::Parameter &w : p.parameters) {
            const Layout &layout = p.values[w.value].layout;
            if (layout.row_major()) continue;
            for (int width : {16, 32, 48, 64})
                if (width != layout.panel && w.shape[layout.dim] % width == 0)
                    add(fmt::format("s.layout({}, panels({}, {}))", w.path, width, layout.dim));
        }
    }
    void rematerialised() {
        std::vector<bool> saved(size_t(p.values.size()));
        for (const auto &[name, entry] : p.entries)
            for (OpId id : entry.ops)
                if (ir::in_backward(p.ops[id]))
                    for (const ir::Ref &r : p.ops[id].reads) saved[size_t(p.base(r.value).index)] = true;
        for (CallId c : p.calls.ids()) {
            const ValueId v = p.calls[c].output;
            const ir::Value &value = p.values[v];
            const bool kept = saved[size_t(v.index)] && value.stored && value.role == ir::Role::activation &&
                              !value.part_of && !value.remat && !p.is_result(v);
            if (kept && !p.graph.owns(as_written(p.source(c))) && !p.chunks.calls.count(c))
                add(fmt::format("s({}).store_at(forward)", p.layer(c).path));
        }
    }
};

}  // namespace

std::vector<StepMove> moves_of(StepProgram &p) { return StepMoves(p).run(); }

}  // namespace cryolite::compiler
