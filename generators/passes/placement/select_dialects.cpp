// What computes each product: Halide's loops, or a dialect that a line or the command asks for.

#include <algorithm>
#include <optional>

#include "generators/passes/placement/dialects.h"
#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

/// Whether an operation is a matrix product or a convolution: the value of its layer, the adjoint of its input,
/// the gradient of its weight.
bool is_product(const StepProgram &p, const ir::Op &op) {
    const auto call = ir::call_of(op);
    if (!call || ir::is<ir::Norm>(op) || ir::is<ir::NextState>(op)) return false;
    const auto &product = p.layer(*call).product;
    auto *g = ir::as<ir::ParamGrad>(op);
    return product && (!g || g->w == product->weight);
}

bool is_call_of(const StepProgram &p, const ir::Stage &words, CallId c) {
    return p.calls[c].layer == words.layer && (!words.call || p.number_of(c).first == words.call);
}

/// Whether a line's stage means an operation. A value may be rematerialised, too; its adjoint is made by its reader.
bool means(const StepProgram &p, const ir::Stage &words, const ir::Op &op) {
    if (words.kind == ir::Stage::gradient) return ir::is<ir::ParamGrad>(op) && ir::parameter_of(op) == words.parameter;
    if (words.kind == ir::Stage::value) {
        auto *f = ir::as<ir::Forward>(op);
        return f && is_call_of(p, words, f->call);
    }
    if (words.kind != ir::Stage::adjoint) return false;
    return std::ranges::any_of(p.ops, [&](const ir::Op &reader) {
        const auto use = ir::use_of(reader);
        return use && use->dy == op.writes[0].value && is_call_of(p, words, use->call);
    });
}

/// The name that dialects have for a layer that works element by element; empty: they have none.
std::string op_of(const ir::Layer &layer) {
    static const std::map<std::string, std::string> ops = {
        {"Relu", "relu"}, {"Gelu", "gelu_tanh"}, {"GeluExact", "gelu_erf"}};
    auto op = ops.find(layer.kind);
    return op == ops.end() ? "" : op->second;
}

class Reader {
public:
    Reader(const StepProgram &p, const ir::Kernel &k) : p(p), k(k), anchor(p.ops[k.anchor]) {}

    Product read() {
        const CallId call = *ir::call_of(anchor);
        const ir::Layer::Product layer = *p.layer(call).product;
        const ValueId w = p.parameters[layer.weight].value;
        const ir::Value &weight = p.values[w];
        const ValueId input = p.calls[call].inputs[0];
        const Shape &x = p.values[input].shape;
        q.form = ir::is<ir::Forward>(anchor)     ? Product::forward
                 : ir::is<ir::InputGrad>(anchor) ? Product::d_input
                                                 : Product::d_parameter;
        q.in = x[0], q.rows = int(x.size() / x[0]), q.out = weight.shape[layer.out_dim];
        if (layer.window) convolution(*layer.window, x, p.values[p.calls[call].output].shape);
        q.inputs_innermost = weight.layout.row_major() && layer.out_dim != 0;
        if (!weight.layout.row_major() && weight.layout.dim != layer.out_dim)
            fail("the weight '{}' is stored in panels of the product's inputs", weight.name);
        auto *g = ir::as<ir::ParamGrad>(anchor);
        q.panel = weight.layout.panel, q.accumulate = g && g->accumulate;
        if (q.form != Product::d_parameter) q.weight = factor(w);
        if (q.form != Product::d_input) q.x = factor(p.operand(anchor, input));
        if (auto use = ir::use_of(anchor)) q.dy = factor(use->dy);
        now = anchor.writes[0].value;
        q.stores = stored(now);
        if (q.form == Product::forward && layer.bias)
            q.then.push_back({"bias", bias(p.parameters[layer.bias].value), -1});
        // The anchor's own value includes the bias and the addends, so the last step of these stores it.
        add(ir::addends_of(anchor));
        if (!q.then.empty()) q.then.back().stores = q.stores, q.stores = -1;
        follow();
        for (OpId id : k.ops)
            if (id != k.anchor && !taken.count(id)) fail("'{}' is in its loops", p.ops[id].name);
        q.type = factors.value_or("float32"), q.result = result.value_or("float32");
        if (p.tfloat32 && q.type == "float32") q.type = "tfloat32";
        return q;
    }

private:
    const StepProgram &p;
    const ir::Kernel &k;
    const ir::Op &anchor;
    Product q;
    ValueId now;  ///< the value so far
    std::optional<std::string> factors, result;
    std::set<OpId> taken;

    /// A convolution whose window sees only its own place is a matrix product of rows.
    void convolution(const ir::Layer::Window &w, const Shape &x, const Shape &y) {
        if (w.size == 1 && w.stride == 1 && w.padding == 0 && w.groups == 1) return;
        q.rows = int(y.size() / y[0]);
        q.window = {x[3], x[1], x[2], w.size, w.stride, w.padding, w.dilation, w.groups};
    }
    /// Adds a value's element type to the known ones: one type, or several joined by "and".
    void note(std::optional<std::string> &known, ValueId v) const {
        const std::string type = p.values[v].type.str();
        known = !known || *known == type ? type : *known + " and " + type;
    }
    int stored(ValueId v) {
        if (!p.values[v].stored) return -1;
        note(result, v);
        return v.index;
    }
    int bias(ValueId v) { return note(result, v), v.index; }
    /// A value that is stored before the kernel begins.
    int whole(ValueId v) const {
        if (!p.values[v].stored)
            fail("'{}' is computed in its loops, and a dialect reads only stored arrays", p.values[v].name);
        for (OpId id : k.ops)
            if (ir::writes(p.ops[id], v))
                fail("'{}' is computed in its loops, and a dialect reads only stored arrays", p.ops[id].name);
        return v.index;
    }
    int factor(ValueId v) { return note(factors, v), whole(v); }
    int beside(ValueId v) { return note(result, v), whole(v); }
    void add(std::span<const ValueId> values) {
        for (ValueId v : values) q.then.push_back({"add", beside(v), -1});
    }
    /// Takes the operations of the kernel that follow the value so far, element by element, one after the other.
    void follow() {
        for (bool more = true; more;) {
            more = false;
            for (OpId id : k.ops)
                if (!taken.count(id) && id != k.anchor && take(p.ops[id])) taken.insert(id), more = true;
        }
    }
    bool take(const ir::Op &op) {
        const auto call = ir::call_of(op);
        if (!call) return false;
        const auto &inputs = p.calls[*call].inputs;
        const std::string word = op_of(p.layer(*call));
        auto *g = ir::as<ir::InputGrad>(op);
        const bool forward = ir::is<ir::Forward>(op);
        if (forward && p.is_sum(*call) && inputs.size() == 2) {
            const ValueId a = p.operand(op, inputs[0]), b = p.operand(op, inputs[1]);
            if (a == b || (a != now && b != now)) return false;
            q.then.push_back({"add", beside(a == now ? b : a), -1});
        } else if (forward && !word.empty() && p.operand(op, inputs[0]) == now) {
            q.then.push_back({word, -1, -1});
        } else if (g && !word.empty() && g->dy == now) {
            q.then.push_back({"d_" + word, beside(p.operand(op, inputs[0])), -1});
            add(g->addends);
        } else {
            return false;
        }
        now = op.writes[0].value;
        q.then.back().stores = stored(now);
        return true;
    }
};

/// Checks a line that names a dialect for each of the products that it means.
void check_line(StepProgram &p, ir::Line &l) {
    const std::string nearest = ".dialect(halide)";
    for (const ir::Kernel &k : p.kernels)
        for (OpId id : k.ops) {
            if (!means(p, l.stage, p.ops[id])) continue;
            l.met(id);
            if (l.dialect_name == "halide") continue;
            obey(l, [&] {
                if (!is_product(p, p.ops[id])) refuse(l, rules::no_product, nearest);
                if (id != k.anchor) refuse(l, {rules::in_loops_of, p.ops[k.anchor].name}, nearest);
                if (std::string why = why_not(p, k, l.dialect_name); !why.empty())
                    refuse(l, {rules::dialect_cannot, why}, nearest);
            });
        }
    if (!l.open()) return;
    if (const ir::Stage *none = without_adjoint(p, l))
        excuse(l, *none);
    else if (l.dialect_name == "halide")  // legal, since refusals here name it as the nearest legal line
        l.verdict = {.is = ir::Verdict::unneeded, .words = rules::not_in_step.words};
    else
        obey(l, [&] { refuse(l, rules::not_in_step, nearest); });
}

void select(StepProgram &p, const StepOptions &options, ir::Kernel &k) {
    const AskedDialect asked = asked_dialect(p, options, k);
    std::string why = asked.dialect == "halide" ? "" : why_not(p, k, asked.dialect);
    if (why.empty()) k.dialect = asked.dialect;
    if (asked.why == "the default" && k.dialect == "halide")
        for (const DialectLine &d : dialect_table()) {
            if (d.device != p.schedule->machine.device) continue;
            const std::string not_this = why_not(p, k, d.name);
            if (not_this.empty())
                k.dialects.push_back(d.name);
            else
                why += (why.empty() ? "" : "; ") + not_this;
        }
    k.dialect_why = why.empty() ? asked.why : why;
    if (const DialectLine *line = find_dialect(k.dialect); line && line->workspace) {
        const int64_t elements = (line->workspace(product_of(p, k)) + 3) / 4;
        k.workspace = add_activation(p, "workspace of " + k.name, Shape{int(elements)}, ir::float32);
    }
}

}  // namespace

Product product_of(const StepProgram &p, const ir::Kernel &k) {
    if (!k.anchor || !is_product(p, p.ops[k.anchor]))
        fail("it is not known to be a matrix product or a convolution, and a dialect computes only those");
    for (OpId id : k.ops)
        if (ir::is<ir::Update>(p.ops[id])) fail("an update is in its loops");
    return Reader(p, k).read();
}

std::string why_not(const StepProgram &p, const ir::Kernel &k, const std::string &dialect) {
    const DialectLine *line = find_dialect(dialect);
    if (!line) return fmt::format("there is no dialect '{}', expected {}", dialect, dialect_names());
    if (const std::string &device = p.schedule->machine.device; line->device != device)
        return fmt::format("{} runs on {}, and the step on {}", dialect,
                           line->device == "cpu" ? "the CPU" : line->device, device);
    try {
        return line->why_not(product_of(p, k));
    } catch (const Error &e) {
        return e.what();
    }
}

AskedDialect asked_dialect(const StepProgram &p, const StepOptions &options, const ir::Kernel &k) {
    const AskedDialect of_all = {options.dialect,
                                 options.dialect == "halide" ? "the default" : "--dialect " + options.dialect};
    for (OpId id : k.ops)
        for (bool of_one_call : {true, false})  // the line of a call goes before that of all
            for (const ir::Line &l : p.lines)
                if (l.how == ir::Line::dialect && (l.stage.call > 0) == of_one_call && means(p, l.stage, p.ops[id])) {
                    const bool same = l.dialect_name != "halide" && l.dialect_name == of_all.dialect;
                    return same ? of_all : AskedDialect{l.dialect_name, "a line of the step schedule"};
                }
    return of_all;
}

void select_dialects(StepProgram &p, const Context &cx) {
    for (ir::Line &l : p.lines)
        if (l.how == ir::Line::dialect) check_line(p, l);
    for (ir::Kernel &k : p.kernels)
        if (k.anchor && is_product(p, p.ops[k.anchor])) select(p, cx.options, k);
}

}  // namespace cryolite::compiler
