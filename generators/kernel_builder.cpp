#include "generators/kernel_builder.h"

#include <algorithm>
#include <functional>
#include <set>

#include "dsl/ghost_norm.h"
#include "generators/hash.h"
#include "generators/kernel_inputs.h"
#include "generators/partition.h"
#include "generators/reads.h"
#include "generators/scatter.h"
#include "schedules/cpu/table.h"

namespace cryolite {

namespace {

using namespace Halide;

/// Names of Funcs and arguments depend on places in the kernel alone, so that equal kernels have equal keys.
class KernelBuilder {
public:
    KernelBuilder(const StepProgram &p, const Kernel &k)
        : p(p), k(k), in(p, k, [this](const StageSpec &s) { define(s); }) {}

    BuiltKernel build() {
        for (int s : k.stages) define(p.stages[s]);
        for (int s : k.stages) store(p.stages[s]);
        gather_outputs();
        finish_group();
        return std::move(built);
    }
    void bind_arguments();
    void check_reads() const;
    std::string name_of(int buffer) const;
    BuiltKernel built;

private:
    struct Output {
        int buffer, offset;
        std::vector<int> extents;
        std::function<Expr(const std::vector<Var> &)> element;  ///< at storage indices
        Func whole = {};        ///< where defined, the output itself
        bool in_place = false;
    };

    const StepProgram &p;
    const Kernel &k;
    KernelInputs in;
    std::vector<Output> outputs;
    std::map<const Parameter *, Func> scattered;  ///< beside the product of a tied table, its embedding's gradient
    std::vector<std::pair<const StageSpec *, Func>> defined;

    const Graph::Call &call(const StageSpec &s) const { return p.graph.calls()[s.call]; }
    void define(const StageSpec &s) {
        switch (s.part) {
        case Part::forward: return forward(s);
        case Part::d_input:
        case Part::d_parameter: return gradient(s);
        case Part::norm: return ghost(s) ? ghost_norm(s) : void();
        case Part::sum: return sum(s);
        default: return;  // updates are defined where they are stored
        }
    }
    std::vector<Array> inputs(const StageSpec &s) {
        const Graph::Call &c = call(s);
        std::vector<Array> x;
        for (int j = 0; j < int(c.inputs.size()); j++)
            x.push_back(in.array(p.seen(s, c.inputs[j]), fmt::format("x{}", j)));
        return x;
    }
    void forward(const StageSpec &s) {
        const Graph::Call &c = call(s);
        int out = s.writes[0];
        std::vector<Array> x = inputs(s);
        in.bind_parameters(c);
        Func y = half_products(c, c.layer->forward(x));
        check_arity(s, y, in.rank(out));
        in.arrays[out] = in.kept(out, y, p.buffers[out].shape.folded(in.rank(out)));
        defined.push_back({&s, y});
    }
    Func half_products(const Graph::Call &c, const Func &f) const {
        return c.layer->casts_in(p.format).products ? with_half_factors(f, in.halves) : f;
    }
    /// A Func that leaves its pure definition undefined, writing bf16.
    static Func undefined_half(const Func &f) {
        Func g(f.name().substr(0, f.name().find('$')));
        g(f.args()) = undef(BFloat(16));
        g(f.update_args()) = rounded(f.update_value());
        return g;
    }
    void check_arity(const StageSpec &s, const Func &f, int rank) const {
        if (!f.defined()) fail("[{}] defines no result", s.name);
        if (f.dimensions() != rank)
            fail("[{}] the result has {} dimensions, but its layer says rank {}", s.name, f.dimensions(), rank);
    }

    void gradient(const StageSpec &s) {
        const Graph::Call &c = call(s);
        ::cryolite::Call seen;
        seen.inputs = inputs(s);
        int out = p.seen(s, c.output);
        seen.output = in.array(out, "y");
        in.bind_parameters(c);
        std::map<std::string, Func> d = c.layer->gradient(seen, adjoint(s, out));
        bool of_input = s.part == Part::d_input;
        std::string of = of_input ? seen.inputs[s.index].name() : s.parameter->name();
        auto it = d.find("d_" + of);
        if (it == d.end() || !it->second.defined())
            fail("[{}] {}::backward defines no gradient of its {}", c.layer->path, c.layer->kind(),
                 of_input ? "input" : "parameter '" + of + "'");
        Func f = half_products(c, it->second);
        if (p.buffers[s.writes[0]].type == BFloat(16) && s.addends.empty() && f.num_update_definitions() == 1 && starts_undefined(f))
            f = undefined_half(f);
        check_arity(s, f, of_input ? in.rank(s.writes[0]) : s.parameter->shape().rank());
        defined.push_back({&s, f});
        if (!s.addends.empty()) f = with_addends(s, f);
        if (!of_input && fused_update(s.parameter) && is_scatter(f)) {
            scattered[s.parameter] = f;
            return;
        }
        Shape shape = p.buffers[s.writes[0]].shape;
        in.arrays[s.writes[0]] = in.kept(s.writes[0], f, of_input ? shape.folded(in.rank(s.writes[0])) : shape);
    }
    Factors factors(const StageSpec &s, int index, int dy) {
        const Graph::Call &c = p.graph.calls()[index];
        ::cryolite::Call seen;
        for (int v : c.inputs) seen.inputs.push_back(in.array(p.seen(s, v), "x"));
        Factors both = c.layer->factors(*s.parameter, seen, in.array(dy, "dy"));
        if (c.layer->casts_in(p.format).products)
            for (Factor *one : {&both.first, &both.second}) one->f = rounded_factor(one->f);
        return both;
    }
    /// As the product reads it.
    Func rounded_factor(const Func &f) const {
        Func g("factor");
        std::vector<Var> v = storage_vars(f.dimensions());
        g(v) = widened(narrowed(f(as_exprs(v)), in.halves));
        return g;
    }
    void ghost_norm(const StageSpec &s) {
        bool same = s.call == s.call2;
        Factors a = factors(s, s.call, s.dy), b = same ? a : factors(s, s.call2, s.dy2);
        Func norm = GhostNorm(a, b, same).norm;
        outputs.push_back({p.norms, s.index, {1}, [norm](auto &v) -> Expr { return norm(v[0]); }});
        defined.push_back({&s, norm});
    }
    /// The adjoint of the output; that of the loss itself is the scale given at run time.
    Array adjoint(const StageSpec &s, int out) {
        if (s.dy != p.scalars) return in.array(s.dy, "dy");
        Func dy("dy");
        Var u("u");
        dy(u) = cast<float>(scalar(1));
        return Array(dy, p.buffers[out].shape.folded(1));
    }
    Func with_addends(const StageSpec &s, const Func &f) {
        Func total("total");
        std::vector<Var> v = storage_vars(in.rank(s.writes[0]));
        Expr e = f.defined() ? Expr(f(as_exprs(v))) : Expr(0.0f);
        for (int b : s.addends) e += in.array(b, "addend")(as_exprs(v));
        total(v) = e;
        return total;
    }
    void sum(const StageSpec &s) {
        Func f = with_addends(s, Func());
        in.arrays[s.writes[0]] = in.kept(s.writes[0], f, p.buffers[s.writes[0]].shape.folded(in.rank(s.writes[0])));
    }

    // What is stored.
    void store(const StageSpec &s) {
        if (s.part == Part::next) return store_update(s);
        if (s.part == Part::norm) return store_norm(s);
        if (s.part == Part::scale) return store_scale(s);
        int b = s.writes[0];
        if (s.part == Part::d_parameter && fused_update(s.parameter)) return;
        if (!p.buffers[b].stored) return;
        if (s.part == Part::d_parameter) return store_gradient(s);
        const Array &a = in.arrays.at(b);
        // A Func that leaves its pure definition undefined writes each element by its updates: it is the output.
        const Func stored = a.half.value_or(a);
        bool complete = s.part == Part::d_input && k.stages.size() == 1 && starts_undefined(stored);
        auto element = [stored](const std::vector<Var> &v) -> Expr { return stored(as_exprs(v)); };
        outputs.push_back({b, 0, a.shape.extents(), element, complete ? stored : Func()});
    }
    static bool starts_undefined(const Func &f) {
        const auto *call = f.value().as<Internal::Call>();
        return f.has_update_definition() && f.outputs() == 1 && call && call->is_intrinsic(Internal::Call::undef);
    }
    const StageSpec *fused_update(const Parameter *w) const {
        for (int s : k.stages)
            if (p.stages[s].part == Part::next && p.stages[s].parameter == w) return &p.stages[s];
        return nullptr;
    }
    /// An element of a logical Func at storage indices; zero in the padding of a panel.
    Expr at_storage(const Func &f, const Buffer &b, const std::vector<Var> &v) const {
        std::vector<Expr> at = b.layout.to_logical(as_exprs(v));
        if (!b.layout.padded(b.shape)) return f(at);
        int d = b.layout.dim, n = b.shape[d];
        Expr inside = at[d] < n;
        at[d] = min(at[d], n - 1);
        return select(inside, f(at), cast(f.type(), 0));
    }
    void store_gradient(const StageSpec &s) {
        int id = s.writes[0];
        const Buffer &b = p.buffers[id];
        std::vector<Var> v = storage_vars(b.storage().rank());
        Func f = in.arrays.at(id);
        Output o{id, 0, b.storage().extents(), [this, f, &b](auto &v) { return at_storage(f, b, v); }};
        o.in_place = s.accumulate;
        if (is_scatter(f)) {
            o.whole = scatter_into_storage(f, b.layout, v, s.accumulate);
        } else if (s.accumulate) {
            o.whole = Func("sum");
            o.whole(v) = undef<float>();
            o.whole(v) = o.whole(as_exprs(v)) + at_storage(f, b, v);
        }
        outputs.push_back(o);
    }

    Expr scalar(int index) {
        return in.image(p.scalars, {int(p.scalar_names.size())}, "scalars")(index);
    }
    Expr clip_scale() { return in.image(p.scale, p.buffers[p.scale].shape.extents(), "scale")(0); }
    Expr all_finite() { return in.image(p.scale, p.buffers[p.scale].shape.extents(), "scale")(1) > 0; }

    /// The optimizer's rule, in place on the parameter and its states, over storage.
    void store_update(const StageSpec &s) {
        const Buffer &w = p.buffers[s.writes[0]];
        int gradient = p.gradient_buffer.at(s.parameter);
        bool fused = in.arrays.count(gradient);
        std::vector<int> extents = w.storage().extents();
        if (!fused) extents = {int(w.storage().size())};
        std::vector<Var> v = storage_vars(int(extents.size()));
        Func next("next");
        std::vector<Expr> nothing;
        for (int b : s.writes) nothing.push_back(undef(p.buffers[b].type));
        next(v) = Tuple(nothing);
        FuncRef old = next(v);
        const bool halves = p.remainder_buffer.count(s.parameter);
        auto element = [&](int j) -> Expr {
            if (s.writes.size() == 1) return old;
            return j == 0 && halves ? Master{old[0], old[int(s.writes.size()) - 1]}.whole() : Expr(old[j]);
        };
        Expr g;
        if (fused) {
            g = at_storage(in.arrays.at(gradient), w, v);
            const StageSpec *d = gradient_stage(s.parameter);
            if (d->accumulate) g = in.image(gradient, extents, "earlier")(as_exprs(v)) + g;
            if (auto rows = scattered.find(s.parameter); rows != scattered.end())
                g = scatter_into_panels(rows->second, w.layout, v, g)(as_exprs(v));
        } else {
            g = in.image(gradient, extents, "g")(as_exprs(v));
        }
        if (s.scaled) g *= clip_scale();
        std::vector<Expr> values = rule(s, element, g);
        // Withheld: every bit as it was.
        for (int j = 0; p.guarded() && j < int(values.size()); j++) values[j] = select(all_finite(), values[j], element(j));
        if (halves) {
            Master split = Master::split(values[0]);
            values[0] = split.half;
            values.push_back(split.remainder);
        }
        next(v) = Tuple(values);
        for (int j = 0; j < int(s.writes.size()); j++)
            outputs.push_back({s.writes[j], 0, extents, nullptr, next, true});
    }
    const StageSpec *gradient_stage(const Parameter *w) const {
        for (int s : k.stages)
            if (p.stages[s].part == Part::d_parameter && p.stages[s].parameter == w) return &p.stages[s];
        return nullptr;
    }
    template <typename Element>
    std::vector<Expr> rule(const StageSpec &s, const Element &element, const Expr &g) {
        Optimizer &o = *p.optimizer;
        o.decays = s.parameter->shape().rank() > 1;
        o.step = p.guarded() ? cast<double>(in.image(p.count, {2}, "count")(0)) : scalar(0);
        for (int j = 0; j < int(o.scalars().size()); j++) o.scalars()[j]->exact = scalar(3 + j);
        for (int j = 0; j < int(o.states().size()); j++) o.states()[j]->now = element(j + 1);
        Expr next = o(element(0), g);
        std::vector<Expr> values = {next};
        for (const State *state : o.states()) values.push_back(state->now);
        // The same bits wherever the rule is placed: no multiply-add made here and not there.
        for (Expr &e : values) e = strict_float(e);
        return values;
    }
    void store_norm(const StageSpec &s) {
        if (ghost(s)) return;  // stored where it was defined
        int n = int(p.buffers[p.gradient_buffer.at(s.parameter)].storage().size());
        Func g = in.image(p.gradient_buffer.at(s.parameter), {n}, "g"), norm("norm");
        RDom i(0, n, "i");
        Var u("u");
        norm(u) += g(i) * g(i);
        outputs.push_back({p.norms, s.index, {1}, [norm](auto &v) -> Expr { return cast<double>(norm(v[0])); }});
        defined.push_back({&s, norm});
    }
    /// min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; guarded, also whether the norm is finite, and
    /// the updates done and withheld.
    void store_scale(const StageSpec &s) {
        int n = p.buffers[p.norms].shape[0];
        Func square("square"), scale("scale");
        RDom i(0, n, "i");
        Var u("u");
        square(u) += in.image(p.norms, {n}, "norms")(i);
        scale(u) = cast<float>(min(cast<double>(1), scalar(2) / (sqrt(max(square(u), cast<double>(0))) + Expr(1e-6))));
        if (p.guarded()) {
            // Of bits as they are stored: the compiler takes what it has computed itself for finite.
            Expr bits = reinterpret<uint64_t>(in.image(p.norms, {n}, "norms")(i));
            Func infinite("infinite"), next("next");
            infinite(u) += cast<int32_t>(((bits >> 52) & cast<uint64_t>(0x7ff)) == 0x7ff);
            Expr finite = infinite(0) == 0;
            next(u) = Tuple(undef<float>(), undef<int32_t>());
            next(u) = Tuple(select(u == 0, s.scaled ? scale(0) : cast<float>(1), cast<float>(finite)),
                            next(u)[1] + cast<int32_t>(finite == (u == 0)));
            for (int b : {p.scale, p.count}) outputs.push_back({b, 0, {2}, nullptr, next, true});
            return;
        }
        outputs.push_back({p.scale, 0, {1}, [scale](auto &v) -> Expr { return scale(v[0]); }});
    }

    // The stored stage: results of one shape as a Tuple of `out`, the others beside it.
    void gather_outputs() {
        Group &g = built.group;
        if (outputs.empty()) fail("[{}] stores nothing", k.name);
        const Output &main = *std::max_element(outputs.begin(), outputs.end(), [](auto &a, auto &b) {
            return volume(a.extents) < volume(b.extents);
        });
        std::vector<Output> same, others;
        for (const Output &o : outputs)
            (o.extents == main.extents && o.whole.defined() == main.whole.defined() ? same : others).push_back(o);
        g.in_place = main.in_place;
        g.extents = main.extents;
        g.out = main.whole.defined() ? main.whole : tuple_of(same);
        outputs = same;
        for (const Output &o : others) {
            g.others.push_back(o.whole.defined() ? o.whole : tuple_of({o}));
            outputs.push_back(o);
        }
    }
    static int64_t volume(const std::vector<int> &e) { return Shape(e).size(); }
    static Func tuple_of(const std::vector<Output> &list) {
        Func out("out");
        std::vector<Var> v = storage_vars(int(list[0].extents.size()));
        std::vector<Expr> values;
        for (const Output &o : list) values.push_back(o.element(v));
        if (values.size() == 1) out(v) = values[0];
        else out(v) = Tuple(values);
        return out;
    }
    /// The Func that does the work, where `f` only gives its indices another order.
    static Func behind_views(Func f) {
        while (!f.has_update_definition() && f.outputs() == 1) {
            const auto *call = f.value().as<Internal::Call>();
            if (!call || call->call_type != Internal::Call::Halide) break;
            f = Func(Internal::Function(call->func));
        }
        return f;
    }
    void finish_group() {
        Group &g = built.group;
        g.name = k.name;
        const StageSpec *anchor = k.anchor < 0 ? nullptr : &p.stages[k.anchor];
        if (anchor && anchor->call >= 0)
            for (const Parameter *w : p.graph.calls()[anchor->call].layer->parameters())
                if (w->shape().rank() > 1) g.panel = p.buffers[p.parameter_buffer.at(w)].layout.panel;
        bool seen = false;
        std::set<std::string> used = {g.out.name()};
        for (const Func &f : g.funcs()) used.insert(f.name());
        for (auto &[s, f] : defined) {
            if (!used.count(f.name()) && s != anchor) continue;  // offered to a gradient that does not read it
            if (s == anchor) g.anchor = behind_views(f), seen = true;
            else (seen ? g.epilogue : g.prologue).push_back(f);
        }
        Part part = anchor ? anchor->part : p.stages[k.stages[0]].part;
        g.form = part == Part::d_input       ? Form::d_input
                 : part == Part::d_parameter ? Form::d_parameter
                 : part == Part::next        ? Form::update
                 : part == Part::norm || part == Part::scale ? Form::norm
                                                             : Form::forward;
    }
};

/// Keeps the arguments that the pipeline really reads, in their order; sets the outputs' bounds.
void KernelBuilder::bind_arguments() {
    Group &g = built.group;
    std::vector<Func> outs = {g.out};
    outs.insert(outs.end(), g.others.begin(), g.others.end());
    int o = 0;
    for (Func &f : outs) {
        bool first = true;  // the buffers of a Tuple share the extents of its first
        for (OutputImageParam &b : f.output_buffers()) {
            const Output &out = outputs.at(o++);
            int stride = 1;
            for (int d = 0; d < int(out.extents.size()); d++) {
                if (first) b.dim(d).set_bounds(0, out.extents[d]);
                b.dim(d).set_estimate(0, out.extents[d]);
                b.dim(d).set_stride(stride);
                stride *= out.extents[d];
            }
            b.set_host_alignment(out.buffer == p.norms ? 8 : 64);
            first = false;
        }
    }
    built.pipeline = Pipeline(outs);
    std::set<std::string> used;
    for (const Argument &a : built.pipeline.infer_arguments()) used.insert(a.name);
    for (const KernelInputs::Image &i : in.images) {
        if (!used.count(i.param.name())) continue;
        const Buffer &b = p.buffers[i.buffer];
        if (!b.stored)
            fail("'{}' reads '{}', which the step schedule never stores and which is too expensive to build "
                 "again; place it with compute_with, or at root", k.name, b.name);
        built.inputs.push_back(i.param);
        built.arguments.push_back({i.buffer, 0, b.type, i.extents, false});
    }
    for (const Output &out : outputs)
        built.arguments.push_back({out.buffer, out.offset, p.buffers[out.buffer].type, out.extents, true});
}

/// Compiled kernels check no index: one outside its array is refused here, while the algorithm has no schedule yet.
void KernelBuilder::check_reads() const {
    std::vector<KnownArray> read, written;
    for (const KernelInputs::Image &i : in.images)
        if (auto a = in.arrays.find(i.buffer); a != in.arrays.end())
            read.push_back({a->second, a->second.shape.extents(), name_of(i.buffer)});
    written.push_back({built.group.out, built.group.extents, name_of(outputs[0].buffer)});
    for (size_t j = 0, n = built.group.others.size(); j < n; j++) {
        const Output &o = outputs[outputs.size() - n + j];
        written.push_back({built.group.others[j], o.extents, name_of(o.buffer)});
    }
    if (std::string where = touched_outside(written, read); !where.empty())
        fail("{}; indices begin at 0: clamp the index, or build the layer for this extent", where);
}

/// What a layer calls a buffer: "[h.0.norm] RmsNorm: input 0 (h.0.x)".
std::string KernelBuilder::name_of(int buffer) const {
    const Buffer &b = p.buffers[buffer];
    for (int i : k.stages) {
        const StageSpec &s = p.stages[i];
        if (s.call < 0) continue;
        const Graph::Call &c = call(s);
        const std::string layer = fmt::format("[{}] {}: ", c.layer->path, c.layer->kind());
        if (b.parameter && std::ranges::count(c.layer->parameters(), b.parameter))
            return fmt::format("{}{}parameter '{}'", layer, s.writes[0] == buffer ? "the gradient of " : "",
                               b.parameter->name());
        if (s.writes[0] == buffer) return layer + "its result";
        if (buffer == s.dy) return layer + "the adjoint of its output";
        for (size_t j = 0; j < c.inputs.size(); j++)
            if (p.value_buffer[c.inputs[j]] == buffer) return fmt::format("{}input {} ({})", layer, j, b.name);
    }
    return "'" + b.name + "'";
}

}  // namespace

BuiltKernel build_kernel(const StepProgram &p, const Kernel &k, const Machine &m, bool scheduled) {
    KernelBuilder builder(p, k);
    BuiltKernel built = builder.build();
    builder.built = built;
    builder.bind_arguments();
    built = builder.built;
    builder.check_reads();
    if (scheduled) {
        const Layer *anchor = k.anchor >= 0 && p.stages[k.anchor].call >= 0
                                  ? p.graph.calls()[p.stages[k.anchor].call].layer
                                  : nullptr;
        built.layer = anchor ? anchor->kind() : "";
        if (auto written = written_loops(built.group, anchor, *p.schedule)) {
            share_numbers(built.group);
            written->apply(built.group, m);
            built.loops = written->name;
        } else {
            // What an autoscheduler makes of an algorithm follows from its parameters.
            for (const AutomaticLoops &way : p.schedule->automatic)
                built.automatic_keys.push_back(kernel_key(built, m, way.str()));
        }
    }
    built.key = built.automatic_keys.empty() ? kernel_key(built, m) : built.automatic_keys[0];
    return built;
}

void apply_automatic(BuiltKernel &k, const Step &step, const Machine &m, int way) {
    const AutomaticLoops &loops = step.automatic.at(size_t(way));
    share_numbers(k.group);
    loops.apply(loops, k.group, k.pipeline, m);
    k.loops = loops.name;
    k.key = k.automatic_keys.at(size_t(way));
}

void compile_kernel(const BuiltKernel &k, const Machine &m, const std::string &object) {
    Halide::Pipeline pipeline = k.pipeline;
    pipeline.compile_to({{OutputFileType::object, object}}, k.inputs, "cryolite_" + k.key, m.target);
}

}  // namespace cryolite
