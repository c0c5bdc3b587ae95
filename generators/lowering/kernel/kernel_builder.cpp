#include "generators/lowering/kernel/kernel_builder.h"

#include <algorithm>
#include <set>

#include "dsl/layers/linear.h"
#include "generators/lowering/expressions/local_fences.h"
#include "generators/lowering/expressions/narrow_words.h"
#include "generators/lowering/hash.h"
#include "generators/lowering/kernel/kernel_outputs.h"
#include "generators/lowering/on_device.h"
#include "generators/lowering/bounds_check.h"
#include "schedules/table.h"
#include "schedules/views.h"

namespace cryolite::compiler {

namespace {

using namespace Halide;

HalfProducts half_products_on(const Machine &m) {
    if (m.gpu()) return HalfProducts::single;
    return m.matrix_tiles ? HalfProducts::tiles : m.dot_products ? HalfProducts::dot_products : HalfProducts::pairs;
}

/// Makes one pipeline of a kernel's outputs, with its arguments and the group that its loop schedule works on.
class KernelBuilder {
public:
    KernelBuilder(const StepProgram &p, const ir::Kernel &k, const Machine &m, bool bounds)
        : p(p), k(k), values(p, k, half_products_on(m)), outputs(KernelOutputs(p, k, values).list) {
        gather_outputs();
        describe_group();
        bind_arguments();
        if (m.gpu() && stores_narrow()) keep_words(m);
        if (m.device == "opencl") built.group.passes["local_fences 1"] = local_fences;
        if (m.gpu() && p.guarded) built.group.passes["conditions_in_threads 1"] = conditions_in_threads;
        if (bounds) check_bounds();
    }
    BuiltKernel built;

private:
    const StepProgram &p;
    const ir::Kernel &k;
    KernelValues values;
    std::vector<KernelOutput> outputs;

    void gather_outputs();
    void describe_group();
    void bind_arguments();
    bool stores_narrow() const;
    void keep_words(const Machine &m);
    void check_bounds() const;
    std::string name_of(ValueId value) const;
};

/// What a kernel computes whose loops this operation owns.
Form form_of(const ir::Op &op) {
    return ir::is<ir::InputGrad>(op)                               ? Form::d_input
           : ir::is<ir::ParamGrad>(op)                             ? Form::d_parameter
           : ir::is<ir::Update>(op) || ir::is<ir::NextState>(op)   ? Form::update
           : ir::is<ir::Norm>(op) || ir::is<ir::GradientScale>(op) ? Form::norm
                                                                   : Form::forward;
}

Func tuple_of(const std::vector<KernelOutput> &list) {
    Func out("out");
    std::vector<Var> v = storage_vars(int(list[0].extents.size()));
    std::vector<Expr> elements;
    for (const KernelOutput &o : list) elements.push_back(o.element(v));
    if (elements.size() == 1)
        out(v) = elements[0];
    else
        out(v) = Tuple(elements);
    return out;
}

/// Results of the largest result's shape become one Tuple, the group's `out`. Each other result is a Func of its own.
void KernelBuilder::gather_outputs() {
    Group &g = built.group;
    auto volume = [](const KernelOutput &o) { return Shape(o.extents).size(); };
    const KernelOutput &main = *std::ranges::max_element(outputs, {}, volume);
    std::vector<KernelOutput> same, others;
    for (const KernelOutput &o : outputs)
        (o.extents == main.extents && o.whole.defined() == main.whole.defined() ? same : others).push_back(o);
    g.in_place = main.in_place;
    g.extents = main.extents;
    g.out = main.whole.defined() ? main.whole : tuple_of(same);
    outputs = same;
    for (const KernelOutput &o : others) {
        g.others.push_back(o.whole.defined() ? o.whole : tuple_of({o}));
        outputs.push_back(o);
    }
}

void KernelBuilder::describe_group() {
    Group &g = built.group;
    g.name = k.name;
    const ir::Op *anchor = k.anchor ? &p.ops[k.anchor] : nullptr;
    if (const auto call = anchor ? ir::call_of(*anchor) : std::nullopt)
        for (ParamId w : p.layer(*call).parameters) {
            const ir::Value &value = p.values[p.parameters[w].value];
            if (value.shape.rank() > 1) g.panel = value.layout.panel, g.padded = value.layout.padded(value.shape);
        }
    bool seen = false;
    std::set<std::string> used = {g.out.name()};
    for (const Func &f : g.funcs()) used.insert(f.name());
    for (auto &[s, f] : values.defined) {
        if (!used.count(f.name()) && s != anchor) continue;  // offered to a gradient that does not read it
        if (s == anchor)
            g.anchor = behind_views(f), seen = true;
        else
            (seen ? g.epilogue : g.prologue).push_back(f);
    }
    g.form = form_of(anchor ? *anchor : p.ops[k.ops[0]]);
}

/// Keeps the arguments that the pipeline really reads, in their order; sets the outputs' bounds.
void KernelBuilder::bind_arguments() {
    Group &g = built.group;
    std::vector<Func> outs = {g.out};
    outs.insert(outs.end(), g.others.begin(), g.others.end());
    int o = 0;
    for (Func &f : outs) {
        bool first = true;  // the buffers of a Tuple share the extents of its first buffer
        for (OutputImageParam &b : f.output_buffers()) {
            const KernelOutput &out = outputs.at(o++);
            int stride = 1;
            for (int d = 0; d < int(out.extents.size()); d++) {
                if (first) b.dim(d).set_bounds(0, out.extents[d]);
                b.dim(d).set_estimate(0, out.extents[d]);
                b.dim(d).set_stride(stride);
                stride *= out.extents[d];
            }
            b.set_host_alignment(out.value == p.norms ? 8 : 64);
            first = false;
        }
    }
    built.pipeline = Pipeline(outs);
    std::set<std::string> used;
    for (const Argument &a : built.pipeline.infer_arguments()) used.insert(a.name);
    for (const KernelInputs::Image &i : values.in.images) {
        if (!used.count(i.param.name())) continue;
        const ir::Value &b = p.values[i.value];
        if (!b.stored)
            fail("'{}' reads '{}', which the step schedule never stores and which is too expensive to build "
                 "again; place it with compute_with, or at root",
                 k.name, b.name);
        if (ir::is<ir::NextState>(p.ops[k.ops[0]]) && ir::writes(p.ops[k.ops[0]], i.value))
            fail("'{}' reads '{}', whose old value may already be overwritten: in next(), read a state only as its "
                 "argument `old`",
                 k.name, b.name);
        built.inputs.push_back(i.param);
        built.arguments.push_back({i.value, i.offset, halide_type(b.type), i.extents, false});
    }
    for (const KernelOutput &out : outputs)
        built.arguments.push_back({out.value, out.offset, halide_type(p.values[out.value].type), out.extents, true});
    // A worker's kernel works on the worker's shard of a parameter, of its gradient and of its state.
    const ir::Op &first = p.ops[k.ops[0]];
    if (const ir::Shard shard = ir::shard_of(first); shard.worker >= 0)
        for (KernelArgument &a : built.arguments)
            if (p.values[a.value].parameter == ir::parameter_of(first)) a.offset = int(shard.begin);
}

bool KernelBuilder::stores_narrow() const {
    return std::ranges::any_of(built.arguments,
                               [&](const KernelArgument &a) { return is_narrow(p.values[a.value].type); });
}

/// Stores types that the device lacks as 16-bit integers. CUDA has float16, so that only bfloat16 has to be stored so.
void KernelBuilder::keep_words(const Machine &m) {
    if (m.device == "cuda")
        built.group.passes["bfloat16_as_words 2"] = bfloat16_as_words;
    else
        built.group.passes["narrow_as_words 2"] = narrow_as_words;
}

/// Compiled kernels check no index: one outside its array is refused here, while the algorithm has no schedule yet.
void KernelBuilder::check_bounds() const {
    std::vector<KnownArray> read, written;
    for (const KernelInputs::Image &i : values.in.images)
        if (auto a = values.in.arrays.find(i.value); a != values.in.arrays.end())
            read.push_back({a->second, a->second.shape.extents(), name_of(i.value)});
    written.push_back({built.group.out, built.group.extents, name_of(outputs[0].value)});
    for (size_t j = 0, n = built.group.others.size(); j < n; j++) {
        const KernelOutput &o = outputs[outputs.size() - n + j];
        written.push_back({built.group.others[j], o.extents, name_of(o.value)});
    }
    if (std::string where = touched_outside(written, read); !where.empty())
        fail("{}; indices begin at 0: clamp the index, or build the layer for this extent", where);
}

/// What a layer calls a value: "[h.0.norm] RmsNorm: input 0 (h.0.x)".
std::string KernelBuilder::name_of(ValueId value) const {
    const ir::Value &v = p.values[value];
    for (OpId id : k.ops) {
        const ir::Op &op = p.ops[id];
        const auto call = ir::call_of(op);
        if (!call) continue;
        const ir::Layer &l = p.layer(*call);
        const std::string layer = fmt::format("[{}] {}: ", l.path, l.kind);
        if (v.parameter && std::ranges::count(l.parameters, v.parameter))
            return fmt::format("{}{}parameter '{}'", layer, op.writes[0].value == value ? "the gradient of " : "",
                               p.parameters[v.parameter].name);
        if (op.writes[0].value == value) return layer + "its result";
        if (auto use = ir::use_of(op); use && use->dy == value) return layer + "the adjoint of its output";
        const auto &inputs = p.calls[*call].inputs;
        for (size_t j = 0; j < inputs.size(); j++)
            if (inputs[j] == value) return fmt::format("{}input {} ({})", layer, j, v.name);
    }
    return "'" + v.name + "'";
}

/// The owner of a kernel's loops, which lines name to give the loops numbers: the layer of its anchor, or of its first
/// operation; of an update or a norm, the parameter.
struct LoopOwner {
    const Layer *layer = nullptr;
    const Parameter *parameter = nullptr;

    LoopOwner(const StepProgram &p, const ir::Kernel &k, Form form) {
        const ir::Op &op = p.ops[k.anchor ? k.anchor : k.ops[0]];
        if (form == Form::update || form == Form::norm) {
            if (const ParamId w = ir::parameter_of(op)) parameter = &p.source(w);
        } else if (const auto call = ir::call_of(op)) {
            layer = &as_written(p.source(*call));
        }
    }
    std::string name(Form form) const {
        if (!layer && !parameter) return "";
        return fmt::format("{}, {}", layer ? layer->path : parameter->path(), form_name(form));
    }
};

void give_numbers(Group &g, const LoopOwner &owner, const Step &step) {
    for (const Step::LoopValue &v : step.loop_values)
        if (v.form == g.form && (v.layer || v.parameter) && v.layer == owner.layer && v.parameter == owner.parameter)
            g.tunables.given[v.name] = {v.value, v.source};
}

int tiled_number(const Step &step) { return int(step.fallback_loops.size() + step.wider_loops.size()) + 1; }

/// Declares the number `automatic` of a kernel's loops. 0: the written loops, or where there are none, the first
/// automatic loops that compute the right results. n: the nth automatic loops alone; the last: tiled_loops(), if any.
int automatic_number(Group &g, const Step &step) {
    const int last = tiled_number(step) - (tiled_loops(step.machine) ? 0 : 1);
    return g.tunables("automatic", 0, whole_numbers(1, last), Sums::other_order);
}

/// The number `automatic` that lines ask for. With written loops it is declared later, after the loops' own numbers,
/// unless a line asks for automatic loops.
int asked_automatic(Group &g, const Step &step, bool written) {
    const auto given = g.tunables.given.find("automatic");
    const bool asked = given != g.tunables.given.end() && given->second.value != 0;
    return may_be_automatic(g) && (asked || !written) ? automatic_number(g, step) : 0;
}

/// Finds the argument of a kernel that its result may replace, where the layer and the loops allow it.
void mark_replaceable(BuiltKernel &built, const StepProgram &p, const ir::Kernel &k) {
    const ValueId x = p.replaceable_input(k);
    if (!x || !built.group.rows_once) return;
    auto of = [&](ValueId value) { return p.base(value) == p.base(x); };
    const KernelArgument &result = built.arguments.back();
    if (std::ranges::count_if(built.arguments, of, &KernelArgument::value) != 1) return;
    for (KernelArgument &a : built.arguments)
        a.replaceable = of(a.value) && a.type == result.type && a.extents == result.extents;
}

}  // namespace

bool is_stage_of(const StepProgram &p, const ir::Op &op, const Step::LoopValue &line) {
    if (form_of(op) != line.form) return false;
    const auto call = ir::call_of(op);
    const ParamId w = ir::parameter_of(op);
    return line.layer ? call && line.layer == &as_written(p.source(*call)) : w && line.parameter == &p.source(w);
}

BuiltKernel build_kernel(const StepProgram &p, const ir::Kernel &k, const Machine &m, const BuildOptions &options) {
    BuiltKernel built = KernelBuilder(p, k, m, options.bounds).built;
    if (options.scheduled) {
        const auto call = k.anchor ? ir::call_of(p.ops[k.anchor]) : std::nullopt;
        const Layer *anchor = call ? &p.source(*call) : nullptr;
        built.layer = anchor ? as_written(*anchor).kind() : "";
        if (options.algorithm) built.algorithm = algorithm_key(built);
        const LoopOwner owner(p, k, built.group.form);
        built.loops_of = owner.name(built.group.form);
        give_numbers(built.group, owner, *p.schedule);
        const Nature nature = call ? p.layer(*call).nature : Nature::pointwise;
        auto written = written_loops(built.group, anchor, nature, *p.schedule);
        int way = asked_automatic(built.group, *p.schedule, written.has_value());
        const bool tiled = way == tiled_number(*p.schedule);
        if (tiled) written = tiled_loops(m), way = 0;
        if (written && way == 0) {
            share_numbers(built.group, m);
            written->apply(built.group, m);
            for (const auto &[name, add_to] : built.group.passes) add_to(built.pipeline);
            built.loops = name_of(*written, built.group);
            mark_replaceable(built, p, k);
            if (!tiled && may_be_automatic(built.group)) automatic_number(built.group, *p.schedule);
        } else {
            // An autoscheduler's loops follow from the algorithm and from its parameters, so both make the key.
            const size_t ways = p.schedule->fallback_loops.size();
            built.first_automatic = std::max(0, way - 1);
            for (size_t i = size_t(built.first_automatic); i < (way ? size_t(way) : ways); i++)
                built.automatic_keys.push_back(kernel_key(built, m, p.schedule->automatic_way(i).str()));
        }
    }
    if (options.key) built.key = built.automatic_keys.empty() ? kernel_key(built, m) : built.automatic_keys[0];
    return built;
}

void apply_automatic(BuiltKernel &k, const Step &step, const Machine &m, int way) {
    const AutomaticLoops &loops = step.automatic_way(size_t(k.first_automatic + way));
    share_numbers(k.group, m);
    loops.apply(loops, k.group, k.pipeline, m);
    for (const auto &[name, add_to] : k.group.passes) add_to(k.pipeline);
    k.loops = loops.name;
    k.key = k.automatic_keys.at(size_t(way));
}

void compile_kernel(const BuiltKernel &k, const Machine &m, const std::string &object) {
    Halide::Pipeline pipeline = k.pipeline;
    Halide::Module module = pipeline.compile_to_module(k.inputs, "cryolite_" + k.key, m.target);
    if (m.gpu()) check_on_device(module, k, m.device);
    module.compile({{OutputFileType::object, object}});
}

}  // namespace cryolite::compiler
