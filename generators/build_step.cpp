// From a model to stages: trace, differentiate in reverse, add the update.

#include <algorithm>
#include <set>

#include "generators/blocks.h"
#include "generators/formats.h"
#include "generators/parts.h"
#include "generators/step.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

const char *role_name(Role role) {
    static const char *names[] = {"input",  "parameter", "state", "gradient", "activation",
                                  "scalars", "norms",    "scale", "remainder", "count", "share"};
    return names[int(role)];
}

namespace {

class Builder {
public:
    Builder(StepProgram &p, const StepOptions &options) : p(p), options(options) {}

    void run(Model &model) {
        p.workers = options.workers;
        trace(model);
        parameters();
        if (p.workers > 1) parts = divide(p);
        if (options.traced) options.traced(p);
        scalars();
        forward();
        if (options.accumulate) {
            backward("first", false);
            backward("accumulate", true);
        }
        backward("step", options.accumulate);
        update();
        check_used();
    }

private:
    StepProgram &p;
    const StepOptions &options;
    std::map<int, std::vector<int>> pending;  ///< graph value -> buffers that add up to its adjoint
    std::set<int> built_again;                ///< graph values, in this plan
    std::map<int, int> whole_adjoint;         ///< graph value -> the buffer whose parts are the adjoints of its parts
    int loss_value = -1;
    std::map<const Parameter *, std::vector<int>> gradient_stages;  ///< of the last backward pass
    std::map<const Parameter *, std::vector<PartOf>> parts;  ///< with several workers

    int buffer(Buffer b) {
        p.buffers.push_back(std::move(b));
        return int(p.buffers.size()) - 1;
    }
    int activation(const std::string &name, const Shape &shape, Halide::Type type) {
        return buffer({name, Role::activation, type, shape, {}, nullptr});
    }
    /// Adds a stage as a kernel of its own to a plan.
    void add(const std::string &plan, const std::string &pass, StageSpec s) {
        Kernel k{s.name, pass, {int(p.stages.size())}};
        p.stages.push_back(std::move(s));
        p.kernels.push_back(k);
        p.plans[plan].push_back(int(p.kernels.size()) - 1);
    }
    Layer &layer(const Graph::Call &c) const { return *c.layer; }
    const Shape &shape(int value) const { return p.graph.values()[value].shape; }

    void trace(Model &model) {
        p.format = model.format();
        Tensor x = model.input(p.graph), t = model.targets(p.graph);
        Tensor y = model.forward(x), loss = model.loss(y, t);
        if (loss.shape().size() != 1)
            fail("the model's loss has shape {}, expected one number", loss.shape().str());
        loss = split_head(p, options, y, loss);
        for (const Graph::Value &v : p.graph.values()) {
            Role role = v.producer < 0 ? Role::input : Role::activation;
            p.value_buffer.push_back(buffer({v.name, role, v.type, v.shape, {}, nullptr}));
            if (v.part_of >= 0) become_part(p.value_buffer.back(), p.value_buffer[v.part_of], v.begin);
        }
        p.value_writer.assign(p.value_buffer.size(), -1);
        p.value_again.assign(p.value_buffer.size(), -1);
        loss_value = loss.id();
        p.loss = p.value_buffer[loss.id()], p.output = p.value_buffer[y.id()];
        p.buffers[p.loss].name = "loss", p.buffers[p.output].name = "output";
        for (int v = 0; v < int(p.value_buffer.size()); v++)
            if (int b = p.value_buffer[v]; b != p.loss && b != p.output)
                p.buffers[b].type = value_format(p, part_of(v) >= 0 ? part_of(v) : v);
    }
    int part_of(int value) const { return p.graph.values()[value].part_of; }
    void become_part(int buffer, int whole, int64_t begin) {
        Buffer &b = p.buffers[buffer];
        b.part_of = whole, b.begin = begin, b.role = p.buffers[whole].role, b.type = p.buffers[whole].type;
    }

    void parameters() {
        std::map<std::string, const Parameter *> names;
        for (const Graph::Call &c : p.graph.calls())
            for (const Parameter *w : c.layer->parameters()) {
                if (p.parameter_buffer.count(w)) continue;
                if (!names.emplace(w->path(), w).second)
                    fail("two parameters are named {}: give their layers different paths", w->path());
                add_parameter(w);
            }
    }
    void add_parameter(const Parameter *w) {
        auto chosen = p.schedule->layouts.find(w);
        Layout layout = chosen != p.schedule->layouts.end()
                            ? chosen->second
                            : default_layout(p.graph, *w, p.schedule->machine);
        Buffer b{w->path(), Role::parameter, Halide::Float(32), w->shape(), layout, w};
        const bool halves = in_halves(p, *w);
        if (halves) b.type = Halide::BFloat(16);
        p.parameter_buffer[w] = buffer(b);
        b.type = Halide::Float(32);
        b.role = Role::gradient;
        p.gradient_buffer[w] = buffer(b);
        b.role = Role::state;
        for (const State *s : p.optimizer->states()) {
            b.name = w->path() + "." + s->name;
            p.state_buffers[w].push_back(buffer(b));
        }
        b.name = w->path(), b.role = Role::share;
        // A norm of the sum has to be known first, and the update reads what was stored for that.
        for (b.worker = 0; p.workers > 1 && !p.takes_norms(options.clip) && b.worker < p.workers; b.worker++)
            p.share_buffers[w].push_back(buffer(b));
        if (!halves) return;
        b.worker = -1, b.role = Role::remainder, b.type = Halide::UInt(16), b.name = w->path() + ".remainder";
        p.remainder_buffer[w] = buffer(b);
    }
    /// Every parameter that a layer of the model declares must be met by the trace.
    void check_used() {
        for (const Parameter *w : Parameter::living())
            if (!p.parameter_buffer.count(w))
                fail("[{}] is never used: the model does not call its layer; call it, or remove it", w->path());
        for (auto &[w, id] : p.gradient_buffer) {
            bool written = false;
            for (const StageSpec &s : p.stages)
                written |= s.part == Part::d_parameter && s.parameter == w;
            if (!written)
                fail("[{}] has no gradient: the loss does not depend on it; remove it or use its layer",
                     w->path());
        }
    }

    void scalars() {
        p.scalar_names = {"step", "loss_scale", "clip"};
        p.scalar_values = {1, 1, 0};
        for (const Scalar *s : p.optimizer->scalars()) {
            p.scalar_names.push_back(s->name);
            p.scalar_values.push_back(s->value);
        }
        int n = int(p.scalar_names.size()), w = int(p.parameter_buffer.size());
        p.scalars = buffer({"scalars", Role::scalars, Halide::Float(64), {n}, {}, nullptr});
        p.norms = buffer({"norms", Role::norms, Halide::Float(64), {w}, {}, nullptr});
        p.scale = buffer({"scale", Role::scale, Halide::Float(32), {p.guarded() ? 2 : 1}, {}, nullptr});
        if (p.guarded()) p.count = buffer({"count", Role::count, Halide::Int(32), {2}, {}, nullptr});
    }

    void forward() {
        for (int c = 0; c < int(p.graph.calls().size()); c++) {
            if (c == p.blocks.whole_loss && c != p.blocks.whole_head) continue;
            forward(c == p.blocks.whole_head ? "predict" : p.blocks.calls.count(c) ? "evaluate" : "forward", c);
        }
    }
    void forward(const std::string &plan, int c, bool late = false) {
        const Graph::Call &call = p.graph.calls()[c];
        const bool of_block = p.blocks.calls.count(c);
        StageSpec s{Part::forward, layer(call).path, c};
        s.writes = {p.value_buffer[call.output]}, s.late = late;
        s.flops = layer(call).flops(shape(call.inputs[0]));
        if (of_block) s.name = p.graph.values()[call.output].name;
        if (of_block && call.layer == p.blocks.head)
            s.placed = fmt::format("at {}, {} rows at a time", p.graph.calls()[p.blocks.whole_loss].layer->path, p.blocks.rows);
        p.value_writer[call.output] = int(p.stages.size());
        add(plan, "forward", s);
    }

    bool differentiable(int value) const {
        const Graph::Value &v = p.graph.values()[part_of(value) >= 0 ? part_of(value) : value];
        return v.type.is_float() && v.producer >= 0;
    }

    void backward(const std::string &plan, bool accumulate) {
        pending.clear(), built_again.clear(), whole_adjoint.clear();
        auto &calls = p.graph.calls();
        std::map<const Parameter *, int> uses;
        std::set<int> made;
        for (int c = int(calls.size()) - 1; c >= 0; c--) {
            int dy = adjoint(plan, calls[c].output);
            if (dy < 0) continue;
            for (int v : calls[c].inputs) build_again(plan, v);
            build_again(plan, calls[c].output);
            if (p.value_buffer[calls[c].output] != p.loss) make_late(plan, c, made);
            for (int k = 0; k < int(calls[c].inputs.size()); k++)
                if (differentiable(calls[c].inputs[k])) d_input(plan, c, k, dy);
            for (int k = 0; k < int(layer(calls[c]).parameters().size()); k++) {
                const Parameter *w = layer(calls[c]).parameters()[k];
                d_parameter(plan, c, k, dy, accumulate || uses[w]++ > 0);
            }
        }
        if (p.blocks.rows) make_late(plan, p.graph.values()[loss_value].producer, made);
    }

    /// A call of a block, and what it reads of the same block, where the backward pass first needs it.
    void make_late(const std::string &plan, int c, std::set<int> &made) {
        if (!p.blocks.calls.count(c) || !made.insert(c).second) return;
        for (int v : p.graph.calls()[c].inputs)
            if (int producer = p.graph.values()[v].producer; producer >= 0) make_late(plan, producer, made);
        for (int v : p.graph.calls()[c].inputs) build_again(plan, v);
        forward(plan, c, true);
    }

    /// Before its first use in the backward pass: the value of a layer that is not stored until then, and what that needs.
    void build_again(const std::string &plan, int value) {
        if (int whole = part_of(value); whole >= 0) {
            build_again(plan, whole);
            if (p.value_again[whole] < 0 || p.value_again[value] >= 0) return;
            p.value_again[value] = activation(p.graph.values()[value].name + " again", shape(value), {});
            return become_part(p.value_again[value], p.value_again[whole], p.graph.values()[value].begin);
        }
        const int c = p.graph.values()[value].producer;
        if (c < 0 || p.value_buffer[value] == p.loss || p.blocks.calls.count(c)) return;
        const Graph::Call &call = p.graph.calls()[c];
        if (!p.schedule->rebuilt.count(call.layer) && !options.rebuilt.count(c)) return;
        if (!built_again.insert(value).second) return;
        for (int x : call.inputs) build_again(plan, x);
        StageSpec s{Part::forward, call.layer->path + " again", c};
        s.again = true;
        if (p.value_again[value] < 0) p.value_again[value] = activation(s.name, shape(value), p.buffers[p.value_buffer[value]].type);
        s.writes = {p.value_again[value]};
        s.flops = call.layer->flops(shape(call.inputs[0]));
        s.placed = "built again";
        add(plan, "rebuild", s);
    }

    /// The buffer that holds the whole adjoint of a value; -1 where the loss does not depend on it.
    int adjoint(const std::string &plan, int value) {
        if (p.value_buffer[value] == p.loss) return p.scalars;
        auto it = pending.find(value);
        if (it == pending.end()) return -1;
        if (it->second.size() == 1) return it->second[0];
        StageSpec s{Part::sum, "d(" + p.graph.values()[value].name + ")"};
        s.addends = it->second;
        s.writes = {activation(s.name, shape(value), adjoint_format(p, value))};
        add(plan, "backward", s);
        return s.writes[0];
    }

    void d_input(const std::string &plan, int c, int k, int dy) {
        const Graph::Call &call = p.graph.calls()[c];
        int value = call.inputs[k];
        if (call.layer->nature() == Nature::sum) return pending[value].push_back(dy);
        StageSpec s{Part::d_input, "d(" + p.graph.values()[value].name + ")", c, k};
        s.dy = dy;
        s.addends = pending[value];
        s.writes = {adjoint_buffer(s.name, value)};
        s.flops = layer(call).gradient_flops(shape(call.inputs[0]), true);
        pending[part_of(value) >= 0 ? part_of(value) : value] = {p.base(s.writes[0])};
        add(plan, "backward", s);
    }
    /// Of a part of a value: that part of the value's adjoint. Its parts have one reader each, and it has no other.
    int adjoint_buffer(const std::string &name, int value) {
        const int whole = part_of(value);
        if (whole < 0) return activation(name, shape(value), adjoint_format(p, value));
        if (!whole_adjoint.count(whole))
            whole_adjoint[whole] = activation("d(" + p.graph.values()[whole].name + ")", shape(whole), adjoint_format(p, whole));
        const int b = activation(name, shape(value), {});
        become_part(b, whole_adjoint[whole], p.graph.values()[value].begin);
        return b;
    }

    void d_parameter(const std::string &plan, int c, int k, int dy, bool accumulate) {
        const Graph::Call &call = p.graph.calls()[c];
        const Parameter *w = layer(call).parameters()[k];
        StageSpec s{Part::d_parameter, "d(" + w->path() + ")", c, k, w, dy};
        s.accumulate = accumulate;
        s.writes = {p.gradient_buffer[w]};
        bool heavy = w->shape().rank() > 1;
        s.flops = heavy ? layer(call).gradient_flops(shape(call.inputs[0]), false) : 0;
        add(plan, "backward", s);
    }

    /// Squared norms of the stored gradients, and of those that need not be stored: `partition` keeps one or the other.
    /// Then those of parameters, where the rule takes them.
    void norms() {
        std::vector<StageSpec> list;
        if (const Machine &m = p.schedule->machine; m.gpu()) p.norms_apart = m.alignment / Halide::Float(64).bytes();
        const int apart = p.norms_apart;
        auto norm = [&](const Parameter *w, const char *of) {
            StageSpec s{Part::norm, fmt::format("norm({}{})", of, w->path()), -1, 0, w};
            s.writes = {p.norms};
            return s;
        };
        gradient_stages.clear();
        for (int k : p.plans.at("step"))
            if (const int g = p.kernels[k].stages[0]; p.stages[g].part == Part::d_parameter) gradient_stages[p.stages[g].parameter].push_back(g);
        for (auto &[w, id] : ordered()) {
            if (!p.takes_norms(options.clip)) break;
            StageSpec s = norm(w, "");
            p.norms_of[w].first = int(list.size()) * apart;
            for (const StageSpec &part : parts_of(s)) list.push_back(part);
            if (!options.accumulate && p.workers == 1) ghost_norms(w, s, list);
            p.norms_of[w].count = int(list.size()) - p.norms_of[w].first / apart;
        }
        p.gradient_norms = int(list.size()) * apart;
        for (auto &[w, id] : ordered()) {
            if (!p.optimizer->takes(Norm::weight)) break;
            StageSpec s = norm(w, "old ");
            s.of_weight = true;
            p.norms_of[w].weight = int(list.size()) * apart;
            for (const StageSpec &part : parts_of(s)) list.push_back(part);
            p.norms_of[w].weights = int(list.size()) - p.norms_of[w].weight / apart;
        }
        for (int k = 0; k < int(list.size()); k++) {
            list[k].index = k * apart;
            add("step", "update", list[k]);
        }
        p.buffers[p.norms].shape = {int(list.size()) * apart};
    }
    /// Of the inner products of rows with rows; a factor of one-hot rows has none. Equal calls need half of the pairs, a bound
    /// each row with itself.
    double gram_flops(const StageSpec &s) const {
        const Graph::Call &a = p.graph.calls()[s.call], &b = p.graph.calls()[s.call2];
        const Shape y = shape(layer(b).scatters() ? b.output : a.output);
        const bool one_hot = layer(a).scatters() || layer(b).scatters();
        const double width = y[0] + (one_hot ? 0 : shape(a.inputs[0])[0]), rows = double(y.size()) / y[0];
        return width * (s.bounded ? 2 * rows : s.call == s.call2 ? rows * (rows + 1) : 2 * rows * rows);
    }

    /// One for each two calls that use the parameter; none where a layer does not factor its gradient.
    void ghost_norms(const Parameter *w, StageSpec s, std::vector<StageSpec> &list) const {
        std::vector<const StageSpec *> uses;
        int products = 0;
        const auto made = gradient_stages.find(w);
        if (made == gradient_stages.end()) return;  // `check_used` says so
        for (int k : made->second) {
            const StageSpec &g = p.stages[k];
            if (!p.graph.calls()[g.call].layer->factored(*w)) return;
            products += !p.graph.calls()[g.call].layer->scatters();
            uses.push_back(&g);
        }
        if (products > 1) return;  // it is their sum, and stored
        s.bounded = !options.clip && !p.optimizer->takes(Norm::gradient);
        for (size_t a = 0; a < uses.size(); a++)
            for (size_t b = a; b < (s.bounded ? a + 1 : uses.size()); b++) {
                s.call = uses[a]->call, s.dy = uses[a]->dy, s.call2 = uses[b]->call, s.dy2 = uses[b]->dy;
                s.flops = gram_flops(s);
                list.push_back(s);
            }
    }

    void update() {
        if (p.takes_norms(options.clip) || p.optimizer->takes(Norm::weight)) norms();
        if (options.clip || p.guarded()) {
            StageSpec s{Part::scale, options.clip ? "clip" : "finite"};
            s.scaled = options.clip;
            s.writes = {p.scale};
            if (p.guarded()) s.writes.push_back(p.count);
            add("step", "update", s);
        }
        for (auto &[w, id] : ordered()) {
            StageSpec s{Part::next, "next(" + w->path() + ")", -1, 0, w};
            s.scaled = options.clip;
            s.writes = {id};
            for (int state : p.state_buffers[w]) s.writes.push_back(state);
            if (auto lower = p.remainder_buffer.find(w); lower != p.remainder_buffer.end()) s.writes.push_back(lower->second);
            for (const StageSpec &part : parts_of(s)) add("step", "update", part);
        }
    }
    /// The same stage for each part of its parameter.
    std::vector<StageSpec> parts_of(const StageSpec &s) const {
        if (p.workers == 1) return {s};
        std::vector<StageSpec> list;
        for (const PartOf &part : parts.at(s.parameter)) {
            list.push_back(s);
            list.back().worker = part.worker, list.back().begin = part.begin, list.back().count = part.count;
        }
        return list;
    }
    /// Parameters in the order of their buffers, which is that of the trace.
    std::vector<std::pair<const Parameter *, int>> ordered() const {
        std::vector<std::pair<const Parameter *, int>> list(p.parameter_buffer.begin(),
                                                            p.parameter_buffer.end());
        std::sort(list.begin(), list.end(), [](auto &a, auto &b) { return a.second < b.second; });
        return list;
    }
};

}  // namespace

void build_step(StepProgram &p, Model &model, Optimizer &optimizer, const StepOptions &options,
                const Step &schedule) {
    p.optimizer = &optimizer;
    p.schedule = &schedule;
    Builder(p, options).run(model);
}

}  // namespace cryolite::compiler
