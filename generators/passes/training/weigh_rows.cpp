// The loss of some of a batch's examples, for evaluation: the last batch of a file is padded, and padding counts for
// nothing. Where the loss is made of means over rows, each of them becomes the sum over its rows of the row's loss
// times its weight, an input: 1 / n for each of the n rows that count, 0 for padding.

#include <algorithm>

#include "generators/passes/placement/by_row.h"
#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"
#include "generators/passes/training/weighted_sum.h"

namespace cryolite::compiler {

namespace {

int last(const Shape &s) { return s[s.rank() - 1]; }

/// y = sum over rows r of weight(r) l(r), where l(r) is what a mean over rows makes of row r alone. Its inputs are
/// those of the mean, then the weights. The sum is in double, so that only the rows' losses are rounded to float.
struct WeightedRows : Layer {
    WeightedRows(Layer &mean, int inputs, int examples, const Casts &casts)
        : Layer(mean.path), mean(mean), inputs(inputs), examples(examples) {
        numerics(casts);
        for (Parameter *w : mean.parameters()) share(*w);
    }
    int rank() const override { return 1; }
    int input_rank(int k) const override { return k < inputs ? mean.input_rank(k) : 1; }
    Shape shape(const std::vector<Shape> &) const override { return {1}; }
    double flops(const Shape &x) const override { return mean.flops(x); }

    Func forward(const std::vector<Array> &x) override {
        Halide::Param<int> at("row_of_loss_at");
        Var row("row_of_loss"), u("u");
        std::vector<Array> one;  // a row of each input
        for (int k = 0; k < inputs; k++) one.push_back(mean.has_rows(k) ? row_of(x[size_t(k)], at) : x[size_t(k)]);
        const Func loss = by_row(mean.forward(one), at.name(), row);
        std::vector<Expr> index(size_t(loss.dimensions()), 0);
        index.back() = row;
        const Array &weights = x.back();
        const int rows = last(x[0].shape), of_targets = weights.extent(0);
        // A loss may have another number of rows than there are targets. Then each row has several targets, or each
        // example has equally many rows.
        const Expr at_target = rows == of_targets       ? Expr(row)
                               : of_targets % rows == 0 ? row * (of_targets / rows)
                                                        : row / (rows / examples) * (of_targets / examples);
        Expr weight = weights(at_target);
        if (rows != of_targets) weight *= float(of_targets) / float(rows);
        Func each("loss_of_row"), sum("sum_of_rows"), total("loss_of_rows");
        each(row) = select(weight == 0, cast(loss.type(), 0), loss(index) * cast(loss.type(), weight));
        RDom r(0, rows, "r");
        sum(u) += cast<double>(each(r));
        total(u) = cast(loss.type(), sum(u));
        return total;
    }

private:
    Layer &mean;
    const int inputs, examples;

    static Array row_of(const Array &x, const Expr &at) {
        Func one("row");
        std::vector<Var> v;
        for (int d = 0; d < x.dimensions(); d++) v.emplace_back(fmt::format("i{}", d));
        std::vector<Expr> index(v.begin(), v.end());
        index.back() += at;
        one(v) = x(index);
        return Array(one, x.shape.with(x.shape.rank() - 1, 1));
    }
};

class WeighRows {
public:
    explicit WeighRows(StepProgram &p)
        : p(p), g(p.graph), targets(named("targets")), examples(last(g.tensor(targets).shape())) {}

    void run() {
        p.evaluation.hindrance = hindrance(p.loss);
        if (const std::string &why = p.evaluation.hindrance; !why.empty()) {
            if (p.chunks.rows)
                fail("the head and its loss are computed in blocks of rows, and a loss cannot be evaluated from these: "
                     "{}",
                     why);
            return;
        }
        const int first = p.calls.size();
        const Tensor weights = g.input("row_weights", {int(g.tensor(targets).shape().size())}, Halide::Float(32));
        p.evaluation.row_weights = ValueId(weights.id());
        p.evaluation.loss = ValueId(weighted(p.loss));
        for (const ir::Program::Term &t : p.terms) {
            if (const std::string why = hindrance(t.value); !why.empty()) fail("the metric '{}': {}", t.name, why);
            p.evaluation.terms.emplace_back(weighted(t.value));
        }
        take_calls(p);
        place(first);
    }

private:
    StepProgram &p;
    Graph &g;
    const int targets, examples;
    std::map<ValueId, int> made;

    int named(const std::string &name) const {
        for (ValueId v : p.values.ids())
            if (p.values[v].role == ir::Role::input && p.traced_name(v) == name) return v.index;
        fail("the model has no input '{}'", name);
    }
    /// An input of which the call sees a chunk of rows; -1: it sees all rows.
    int part(const ir::Call &c) const {
        const auto at = std::ranges::find_if(c.inputs, [&](ValueId v) { return bool(p.values[v].part_of); });
        return at == c.inputs.end() ? -1 : int(at - c.inputs.begin());
    }

    /// Why this number cannot be computed for some of the examples alone; empty: it can.
    std::string hindrance(ValueId value) const {
        const CallId id = p.values[value].producer;
        if (!id) return "it is an input of the model";
        const ir::Call &c = p.calls[id];
        const std::string layer = fmt::format("'{}' ({})", p.layer(id).path, p.layer(id).kind);
        if (p.layer(id).mean_of_rows) {
            const int all = rows_read(p, id, 0);
            for (size_t k = 0; k < c.inputs.size(); k++)
                if (const int n = rows_read(p, id, k);
                    p.source(id).has_rows(int(k)) && (n != all || (part(c) < 0 && n % examples)))
                    return fmt::format("{} is said to be a mean over rows (Layer::mean_of_rows), but its input {} has "
                                       "{} rows, and the "
                                       "first {}, of {} examples",
                                       layer, k, n, all, examples);
            return "";
        }
        const bool of_numbers = std::ranges::all_of(
            c.inputs, [&](ValueId v) { return p.values[v].shape.size() == 1 && p.values[v].producer; });
        if (!of_numbers || c.inputs.empty())
            return layer + " may make its number of all rows together: where it is the mean over the rows of its "
                           "inputs of what each "
                           "makes, let its mean_of_rows() return true";
        for (ValueId v : c.inputs)
            if (std::string why = hindrance(v); !why.empty()) return why;
        return "";
    }

    /// The same number for only those rows that count.
    int weighted(ValueId value) {
        if (auto known = made.find(value); known != made.end()) return known->second;
        const CallId c = p.values[value].producer;
        return made[value] = (p.layer(c).mean_of_rows ? of_rows(c) : of_numbers(c)).id();
    }
    Tensor of_rows(CallId id) {
        const ir::Call &c = p.calls[id];
        std::vector<Tensor> read;
        for (ValueId v : c.inputs) read.push_back(g.tensor(v.index));
        const Tensor weights = g.tensor(p.evaluation.row_weights.index);
        if (const int k = part(c); k < 0) {
            read.push_back(weights);
        } else {
            const ir::Value &v = p.values[c.inputs[size_t(k)]];
            const int64_t count = rows_read(p, id, size_t(k)), of_row = v.shape.size() / count;
            const int64_t weights_of_row = weights.shape().size() / (p.values[v.part_of].shape.size() / of_row);
            read.push_back(g.rows(weights, 1, int(v.begin / of_row * weights_of_row), int(count * weights_of_row)));
        }
        const Casts inputs_only{.inputs = p.layer(id).half_inputs};
        return g.call(g.own(std::make_unique<WeightedRows>(p.source(id), int(c.inputs.size()), examples, inputs_only)),
                      read);
    }
    Tensor of_numbers(CallId id) {
        std::vector<Tensor> read;
        for (ValueId v : p.calls[id].inputs) read.push_back(g.tensor(weighted(v)));
        // The mean of the chunks becomes a sum, because the weights of rows are those of the whole batch.
        if (dynamic_cast<const WeightedSum *>(&p.source(id)))
            return g.call(g.own(std::make_unique<WeightedSum>(std::vector<double>(read.size(), 1.0))), read);
        return g.call(p.source(id), read);
    }

    /// Puts the new calls into the entry `evaluate`. A chunk's loss comes right after its head, so that one chunk's
    /// logits exist at a time.
    void place(int first) {
        ir::Entry &evaluate = p.entries[entry::evaluate];
        evaluate.mode = ir::Entry::evaluation, evaluate.results = {p.loss, p.evaluation.loss};
        evaluate.results.insert(evaluate.results.end(), p.evaluation.terms.begin(), p.evaluation.terms.end());
        std::vector<OpId> &ops = evaluate.ops;
        std::map<ValueId, OpId> heads;
        for (OpId id : ops)
            if (p.calls[ir::as<ir::Forward>(p.ops[id])->call].layer == p.chunks.head)
                heads[p.ops[id].writes[0].value] = id;
        ops.clear();
        for (int c = first; c < p.calls.size(); c++) {
            for (ValueId v : p.calls[CallId(c)].inputs)
                if (auto head = heads.find(v); head != heads.end()) ops.push_back(head->second);
            add_op(p, entry::evaluate, forward_op(p, CallId(c), ir::Forward::in_forward));
        }
    }
};

}  // namespace

void weigh_rows(StepProgram &p, const Context &) { WeighRows(p).run(); }

}  // namespace cryolite::compiler
