#include "generators/blocks.h"

#include <algorithm>

#include "generators/joining.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

/// y = sum over k of weight[k] x_k, of numbers.
struct WeightedSum : Layer {
    std::vector<double> weights;

    explicit WeightedSum(std::vector<double> w) : Layer("loss"), weights(std::move(w)) {}
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 1; }
    Func forward(const std::vector<Array> &x) override {
        Func y("y");
        Var u("u");
        Expr sum = weight(x[0], 0) * x[0](u);
        for (size_t k = 1; k < x.size(); k++) sum += weight(x[k], k) * x[k](u);
        y(u) = sum;
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Var u("u");
        for (size_t k = 0; k < call.inputs.size(); k++) d(call.inputs[k])(u) = weight(dy, k) * dy(u);
    }

private:
    Expr weight(const Array &like, size_t k) const { return cast(like.type(), Expr(weights[k])); }
};

struct Asked {
    Stage stage;
    Placement where;
};

/// The line of the step schedule that places the head; none: what is usual.
std::optional<Asked> line_of(const Step &schedule, const Layer *head) {
    for (auto &[stage, where] : schedule.placements)
        if (stage == Stage(*head)) return Asked{stage, where};
    return {};
}

/// Why these two calls cannot go block by block; empty: they can.
std::string hindrance(const Graph &g, const Graph::Call &head, const Graph::Call &loss) {
    const Layer &h = *head.layer, &l = *loss.layer;
    int reads = 0;
    for (const Graph::Call &c : g.calls()) reads += int(std::count(c.inputs.begin(), c.inputs.end(), head.output));
    if (reads != 1) return "another layer reads it too";
    if (loss.inputs.at(0) != head.output) return "'" + l.path + "' does not read it";
    if (!l.mean_of_rows()) return "'" + l.path + "' is not a mean over rows (Layer::mean_of_rows)";
    if (!h.by_rows() || head.inputs.size() != 1) return "its rows depend on each other (Layer::by_rows)";
    for (const Graph::Call &c : g.calls())
        if (c.output != head.output && std::count(c.inputs.begin(), c.inputs.end(), head.inputs[0])) return "another layer reads what it reads";
    if (g.values()[head.inputs[0]].producer < 0) return "it reads the model's input";
    return "";
}

/// The rows of a block; 0: all at once.
int rows_of_block(const StepProgram &p, const StepOptions &options, const Graph::Call &head, const Graph::Call &loss) {
    const Shape &logits = p.graph.values()[head.output].shape;
    const std::string why = hindrance(p.graph, head, loss);
    const auto line = line_of(*p.schedule, head.layer);
    // Parts of arrays begin where a kernel's arguments can, the smallest of 2 bytes for a row.
    const int alignment = std::max(32, p.schedule->machine.alignment / 4);
    if (!line) {
        if (!why.empty()) return 0;
        return options.head_rows < 0 ? head_block_rows(logits.size() * 4) : (options.head_rows + alignment - 1) / alignment * alignment;
    }
    if (line->where.target != Stage(*loss.layer) || line->where.how != Placement::at) return 0;
    if (!why.empty()) refuse(line->stage, line->where, why, ".compute_root()");
    if (line->where.rows % alignment || line->where.rows < 0) {
        Placement legal = line->where;
        legal.rows = std::max(line->where.rows / alignment, 1) * alignment;
        refuse(line->stage, line->where, fmt::format("blocks begin where kernels can, at multiples of {} rows", alignment), legal.line());
    }
    return line->where.rows ? line->where.rows : 256;
}

}  // namespace

Tensor split_head(StepProgram &p, const StepOptions &options, const Tensor &y, const Tensor &loss) {
    Graph &g = p.graph;
    const int h = g.values()[y.id()].producer, l = g.values()[loss.id()].producer;
    if (h < 0 || l < 0 || g.calls()[l].inputs.empty()) return loss;
    const Graph::Call head = g.calls()[h], last = g.calls()[l];
    p.blocks.head = head.layer, p.blocks.loss = last.layer;
    const int block = rows_of_block(p, options, head, last), rows = int(y.shape().size() / y.shape()[0]);
    if (!block || block >= rows) return loss;
    p.blocks.rows = block, p.blocks.whole_head = h, p.blocks.whole_loss = l;
    std::vector<Tensor> losses;
    std::vector<double> weights;
    auto part = [&](int value, int rank, int begin, int count) { return g.rows(g.tensor(value), rank, begin, count); };
    for (int begin = 0; begin < rows; begin += block) {
        const int count = std::min(block, rows - begin);
        std::vector<Tensor> read = {g.call(*head.layer, {part(head.inputs[0], head.layer->input_rank(0), begin, count)})};
        for (size_t k = 1; k < last.inputs.size(); k++)
            read.push_back(part(last.inputs[k], last.layer->input_rank(int(k)), begin, count));
        losses.push_back(g.call(*last.layer, read));
        weights.push_back(double(count) / rows);
    }
    Layer &mean = g.own(std::make_unique<WeightedSum>(weights));
    const Tensor total = g.call(mean, losses);
    for (int c = std::max(h, l) + 1; c < int(g.calls().size()); c++) p.blocks.calls.insert(c);
    return total;
}

}  // namespace cryolite::compiler
