// From a model to a program: which layer is called on which values, what layers declare, and the schedule's lines.

#include "generators/passes/trace.h"

#include "dsl/scores.h"
#include "dsl/traced_model.h"
#include "generators/passes/legality.h"

namespace cryolite::compiler {

namespace {

void add_parameter(StepProgram &p, Parameter &w) {
    ir::Parameter known{.path = w.path(), .name = w.name(), .shape = w.shape()};
    if (w.is_state()) known.state = true, known.frozen = "it is a state of its layer";
    p.parameters.add(known);
    p.sources.push_back(&w);
}

LayerId layer_id(StepProgram &p, const Layer &layer) {
    if (auto known = p.layer_ids.find(&layer); known != p.layer_ids.end()) return known->second;
    const Casts casts = layer.casts_in(p.format);
    ir::Layer l{.path = layer.path,
                .kind = layer.kind(),
                .nature = layer.nature(),
                .scatters = layer.scatters(),
                .by_rows = layer.by_rows(),
                .mean_of_rows = layer.mean_of_rows(),
                .half_inputs = casts.inputs,
                .half_output = casts.output,
                .half_products = casts.products,
                .casts_why = layer.has_own_casts() ? "the model's line numerics(...)"
                                                   : fmt::format("the row '{}' of the cast table",
                                                                 cast_row_names[size_t(layer.cast_row())])};
    for (Parameter *w : layer.parameters()) {
        auto [at, fresh] = p.parameter_ids.emplace(w, ParamId(p.parameters.size()));
        if (fresh) add_parameter(p, *w);
        l.parameters.push_back(at->second);
        if (layer.factored(*w)) l.factored.push_back(at->second);
    }
    if (auto product = layer.product())
        l.product = {p.parameter_ids.at(product->weight), product->bias ? p.parameter_ids.at(product->bias) : ParamId(),
                     product->out_dim};
    return p.layer_ids[&layer] = p.layers.add(l);
}

std::vector<ValueId> ids(const std::vector<int> &values) {
    std::vector<ValueId> list;
    for (int v : values) list.push_back(ValueId(v));
    return list;
}

class Lines {
public:
    explicit Lines(const StepProgram &p) : p(p) {}

    ir::Stage stage(const Stage &s) const {
        ir::Stage to{.kind = kind(s.kind), .call = s.call, .text = s.str()};
        if (auto l = p.layer_ids.find(s.layer); l != p.layer_ids.end()) to.layer = l->second;
        if (auto w = p.parameter_ids.find(s.parameter); w != p.parameter_ids.end()) to.parameter = w->second;
        return to;
    }
    ir::Line line(const Stage &s, const Placement &where) const {
        const ir::Line::How how = where.how == Placement::root ? ir::Line::root
                                  : where.how == Placement::at ? ir::Line::at
                                                               : ir::Line::with;
        return {.how = how,
                .stage = stage(s),
                .target = how == ir::Line::root ? ir::Stage() : stage(where.target),
                .rows = where.rows,
                .source = where.source,
                .where_legal = where.where_legal,
                .saves = where.saves};
    }
    ir::Line line(const Step::Asked &asked, ir::Line::How how) const {
        return {.how = how,
                .stage = stage(asked.stage),
                .dialect_name = asked.what,
                .source = asked.source,
                .where_legal = asked.where_legal};
    }

private:
    const StepProgram &p;
    static ir::Stage::Kind kind(Stage::Kind k) {
        switch (k) {
        case Stage::value:
            return ir::Stage::value;
        case Stage::adjoint:
            return ir::Stage::adjoint;
        case Stage::gradient:
            return ir::Stage::gradient;
        case Stage::next:
            return ir::Stage::next;
        default:
            return ir::Stage::pass;
        }
    }
};

/// Refuses a line that names a layer which the model never calls.
void check_called(const StepProgram &p, ir::Line &l, const Stage &named) {
    if (!named.layer) return;
    const auto layer = p.layer_ids.find(named.layer);
    const auto calls = [&](LayerId id) { return std::ranges::count(p.calls, id, &ir::Call::layer); };
    if (layer == p.layer_ids.end() || named.call > calls(layer->second))
        refuse(l, {rules::never_called, named.layer->path + (named.call ? fmt::format("[{}]", named.call) : "")});
}

void take_lines(StepProgram &p) {
    const Lines lines(p);
    auto add = [&](ir::Line line, const Stage &stage, const Stage &target) {
        p.lines.push_back(std::move(line));
        check_called(p, p.lines.back(), stage), check_called(p, p.lines.back(), target);
    };
    for (auto &[stage, where] : p.schedule->placements)
        add(lines.line(stage, where), stage, where.how == Placement::root ? Stage() : where.target);
    for (const Step::Asked &a : p.schedule->dialects) add(lines.line(a, ir::Line::dialect), a.stage, {});
    for (const Step::Asked &a : p.schedule->rematerialised) {
        add(lines.line(a, ir::Line::store), a.stage, {});
        p.layers[p.lines.back().stage.layer].remat = true;
    }
    for (const Step::Asked &a : p.schedule->distributed) add(lines.line(a, ir::Line::distribute), a.stage, {});
}

/// The terms of a loss: the numbers of which it is a sum or another function, down to those that a layer makes of rows.
void add_terms(StepProgram &p, ValueId v) {
    const CallId c = p.values[v].producer;
    if (!c || std::ranges::any_of(p.terms, [v](const ir::Program::Term &t) { return t.value == v; })) return;
    const auto &inputs = p.calls[c].inputs;
    const bool of_numbers =
        std::ranges::all_of(inputs, [&](ValueId x) { return p.values[x].shape.size() == 1 && p.values[x].producer; });
    if (!p.layer(c).mean_of_rows && of_numbers) {
        for (ValueId x : inputs) add_terms(p, x);
        return;
    }
    const std::string &path = p.layer(c).path;
    const auto before = std::ranges::count_if(
        p.terms, [&](const ir::Program::Term &t) { return p.layer(p.values[t.value].producer).path == path; });
    p.terms.push_back({before ? fmt::format("{} {}", path, before + 1) : path, v});
}

}  // namespace

void take_calls(StepProgram &p) {
    const auto &values = p.graph.values();
    for (int v = p.values.size(); v < int(values.size()); v++) {
        const Graph::Value &g = values[size_t(v)];
        const ir::Role role = g.producer < 0 ? ir::Role::input : ir::Role::activation;
        p.values.add({.name = g.name,
                      .role = role,
                      .type = data_type(g.type),
                      .shape = g.shape,
                      .producer = CallId(g.producer)});
        if (g.part_of >= 0) become_part(p, ValueId(v), ValueId(g.part_of), g.begin);
    }
    const auto &calls = p.graph.calls();
    for (int c = p.calls.size(); c < int(calls.size()); c++) {
        const Graph::Call &g = calls[size_t(c)];
        const Shape &x = values[size_t(g.inputs.at(0))].shape;
        p.calls.add({layer_id(p, *g.layer), ids(g.inputs), ValueId(g.output), g.layer->flops(x),
                     g.layer->gradient_flops(x, true), g.layer->gradient_flops(x, false)});
        ir::Call &call = p.calls[CallId(c)];
        for (size_t k = 0; k < g.inputs.size(); k++) call.input_ranks.push_back(g.layer->input_rank(int(k)));
        for (size_t k = 0; k < g.inputs.size(); k++) call.has_rows.push_back(g.layer->has_rows(int(k)));
        call.output_rank = g.layer->output_rank();
    }
}

int rows_read(const StepProgram &p, CallId c, size_t input) {
    const Shape &s = p.values[p.calls[c].inputs.at(input)].shape;
    const int rank = p.source(c).input_rank(int(input));
    return rank ? s.folded(rank)[rank - 1] : s[s.rank() - 1];
}

ir::Op forward_op(const StepProgram &p, CallId c, ir::Forward::When when) {
    const ir::Call &call = p.calls[c];
    const bool remat = when == ir::Forward::remat;
    ir::Op op{.name = p.layers[call.layer].path + (remat ? " again" : ""), .kind = ir::Forward{c, when}};
    op.writes = {{remat ? p.values[call.output].remat : call.output}};
    op.flops = call.flops;
    return op;
}

/// Refuses an input that no run fills, so that it would be zeros.
void check_fed(const Graph &g, const Tensor &x, const Tensor &targets) {
    auto fed = [&](int v) {
        const auto is_weight = [v](const Graph::Ids &ids) { return ids.mean_weight == v; };
        return v == x.id() || v == targets.id() || g.is_mode(v) || std::ranges::any_of(g.ids(), is_weight);
    };
    for (int v = 0; v < int(g.values().size()); v++) {
        const Graph::Value &value = g.values()[size_t(v)];
        if (value.producer >= 0 || value.part_of >= 0 || !value.constant.empty() || fed(v)) continue;
        fail("the model has an input '{}' {}, which no run fills: runs fill '{}' and '{}' alone; make it of these by a "
             "layer, as Documents and PaddingMask do, or let it be Graph::constant(...)",
             value.name, value.shape.str(), x.name(), targets.name());
    }
}

StepProgram trace(const Context &cx) {
    TracedModel m = traced(cx.model);
    const Shape &loss = m.graph.values()[size_t(m.loss)].shape;
    if (loss.size() != 1) fail("the model's loss has shape {}, expected one number", loss.str());
    check_fed(m.graph, m.graph.tensor(m.input), m.graph.tensor(m.targets));
    check_scores(cx.model, m.graph, m.targets);
    return program_of(std::move(m.graph), m.output, m.loss, cx);
}

StepProgram program_of(Graph graph, int output, int loss, const Context &cx) {
    StepProgram p;
    p.graph = std::move(graph), p.optimizer = &cx.optimizer, p.schedule = &cx.schedule;
    p.format = cx.model.format(), p.guarded = p.format != fp32 && cx.options.finite_check;
    p.tfloat32 = cx.options.tfloat32;
    p.workers = cx.options.workers, p.parts = cx.options.parts;
    take_calls(p);
    p.output = ValueId(output), p.loss = ValueId(loss);
    p.values[p.loss].name = "loss", p.values[p.output].name = "output";
    add_terms(p, p.loss);
    if (p.terms.size() < 2) p.terms.clear();
    for (const Graph::Metric &m : p.graph.metrics()) {
        if (std::ranges::count(p.terms, m.name, &ir::Program::Term::name) || m.name == "loss")
            fail("the metric '{}' has the name of a loss: give it another name", m.name);
        p.terms.push_back({m.name, ValueId(m.value)});
    }
    take_lines(p);
    p.entries[entry::forward] = {.holds_forward = true, .results = p.losses()};
    p.entries[entry::forward].results.push_back(p.output);
    for (CallId c : p.calls.ids()) add_op(p, entry::forward, forward_op(p, c, ir::Forward::in_forward));
    return p;
}

}  // namespace cryolite::compiler
