// The head and its loss in chunks of rows: the logits of one chunk are used before those of the next are computed.

#include <algorithm>

#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"
#include "generators/passes/training/weighted_sum.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

class ChunkHead {
public:
    ChunkHead(StepProgram &p, const Context &cx)
        : p(p), cx(cx), head(p.values[p.output].producer), loss(p.values[p.loss].producer) {}

    void run() {
        if (!head || !loss || p.calls[loss].inputs.empty()) return;
        p.chunks.head = p.calls[head].layer, p.chunks.loss = p.calls[loss].layer;
        const int block = block_rows(), rows = int(p.values[p.output].shape.size() / p.values[p.output].shape[0]);
        if (!block || block >= rows) return;
        p.chunks.rows = block, p.chunks.whole_head = head, p.chunks.whole_loss = loss;
        const int first = p.calls.size();
        call_blocks(block, rows);
        take_calls(p);
        for (int c = first; c < p.calls.size(); c++) p.chunks.calls.insert(CallId(c));
        p.values[p.loss].name = p.traced_name(p.loss);
        p.loss = p.calls[CallId(p.calls.size() - 1)].output;
        p.values[p.loss].name = "loss";
        place_calls();
    }

private:
    StepProgram &p;
    const Context &cx;
    const CallId head, loss;

    bool read_by_another(ValueId v, CallId reader) const {
        return std::ranges::any_of(p.calls.ids(),
                                   [&](CallId c) { return c != reader && std::ranges::count(p.calls[c].inputs, v); });
    }
    /// Why these two calls cannot be computed chunk by chunk.
    Reason hindrance() const {
        const ir::Call &h = p.calls[head], &l = p.calls[loss];
        int reads = 0;
        for (const ir::Call &c : p.calls) reads += int(std::ranges::count(c.inputs, h.output));
        if (reads != 1) return rules::head_has_readers;
        if (l.inputs.at(0) != h.output) return {rules::loss_reads_head, p.layer(loss).path};
        if (!p.layer(loss).mean_of_rows) return {rules::loss_is_mean, p.layer(loss).path};
        for (size_t k = 1; k < l.inputs.size(); k++)
            if (p.source(loss).has_rows(int(k)) && rows_read(p, loss, k) != rows_read(p, loss, 0))
                return {rules::rows_differ, k, p.layer(loss).path};
        if (!p.layer(head).by_rows || h.inputs.size() != 1) return rules::head_by_rows;
        if (read_by_another(h.inputs[0], head)) return rules::head_input_has_readers;
        if (!p.values[h.inputs[0]].producer) return rules::head_reads_input;
        return {};
    }
    /// The rows of a chunk; 0: all rows at once.
    int block_rows() const {
        const Reason why = hindrance();
        const auto line = std::ranges::find_if(p.lines, [&](const ir::Line &l) {
            return l.places() && l.stage.kind == ir::Stage::value && l.stage.layer == p.chunks.head;
        });
        // The arrays of a chunk must begin where a kernel's arguments can, whatever the width: at multiples of so many
        // elements.
        const int bytes = p.format == fp32 ? 4 : 2;
        const int alignment = std::max(32, cx.schedule.machine.alignment / bytes), asked = cx.options.head_rows;
        if (line == p.lines.end()) {
            if (why) return 0;
            const int usual =
                asked < 0 ? head_block_rows(p.values[p.output].shape.size() * 4, cx.schedule.machine) : asked;
            return usual ? std::max(rounded_up(usual, alignment), least_rows(alignment)) : 0;
        }
        if (line->how != ir::Line::at || !p.chunks.takes(*line)) return 0;
        const bool legal = obey(*line, [&] {
            if (why) refuse(*line, why, ".compute_root()");
            if (line->rows % alignment == 0 && line->rows >= 0) return;
            ir::Line nearest = *line;
            nearest.rows = std::max(line->rows / alignment, 1) * alignment;
            refuse(*line, {rules::blocks_begin, alignment}, nearest.placement());
        });
        return !legal       ? 0
               : line->rows ? line->rows
                            : std::max(head_block_rows(cx.schedule.machine), least_rows(alignment));
    }
    static int rounded_up(int rows, int alignment) { return (rows + alignment - 1) / alignment * alignment; }
    /// The rows of the smallest chunk: each chunk has calls of its own, and the time to compile a step grows with the
    /// square of their number.
    int least_rows(int alignment) const {
        constexpr int most_chunks = 256;
        const int64_t rows = p.values[p.output].shape.size() / p.values[p.output].shape[0];
        return rounded_up(int((rows + most_chunks - 1) / most_chunks), alignment);
    }
    void call_blocks(int block, int rows) {
        Graph &g = p.graph;
        Layer &h = p.source(head), &l = p.source(loss);
        std::vector<Tensor> losses;
        std::vector<double> weights;
        auto part = [&](ValueId v, int rank, int begin, int count) {
            return g.rows(g.tensor(v.index), rank, begin, count);
        };
        for (int begin = 0; begin < rows; begin += block) {
            const int count = std::min(block, rows - begin);
            std::vector<Tensor> read = {g.call(h, {part(p.calls[head].inputs[0], h.input_rank(0), begin, count)})};
            for (int k = 1; k < int(p.calls[loss].inputs.size()); k++) {
                const ValueId v = p.calls[loss].inputs[size_t(k)];
                read.push_back(l.has_rows(k) ? part(v, l.input_rank(k), begin, count) : g.tensor(v.index));
            }
            losses.push_back(g.call(l, read));
            weights.push_back(double(count) / rows);
        }
        g.call(g.own(std::make_unique<WeightedSum>(weights)), losses);
    }
    /// The whole head runs for predictions alone, the whole loss never. Chunks run when the model is evaluated, and in
    /// the backward pass.
    void place_calls() {
        auto &forward = p.entries.at(entry::forward).ops;
        auto of = [&](CallId c) { return [&, c](OpId id) { return ir::as<ir::Forward>(p.ops[id])->call == c; }; };
        std::vector<ValueId> results = p.losses();
        results.push_back(p.output);
        p.entries[entry::forward].results = results;
        p.entries[entry::predict] = {
            .mode = ir::Entry::evaluation, .results = results, .ops = {*std::ranges::find_if(forward, of(head))}};
        std::erase_if(forward, of(head));
        std::erase_if(forward, of(loss));
        p.entries[entry::evaluate].mode = ir::Entry::evaluation;
        for (CallId c : p.chunks.calls) {
            const OpId id = add_op(p, entry::evaluate, block_op(p, c, ir::Forward::in_forward));
            for (ir::Line &l : p.lines)
                if (p.chunks.takes(l) && p.calls[c].layer == p.chunks.head) l.met(id);
        }
    }
};

}  // namespace

ir::Op block_op(const StepProgram &p, CallId c, ir::Forward::When when) {
    ir::Op op = forward_op(p, c, when);
    op.name = p.traced_name(p.calls[c].output);
    if (p.calls[c].layer == p.chunks.head)
        op.placed = fmt::format("at {}, {} rows at a time", p.layer(p.chunks.whole_loss).path, p.chunks.rows);
    return op;
}

void chunk_head(StepProgram &p, const Context &cx) { ChunkHead(p, cx).run(); }

}  // namespace cryolite::compiler
