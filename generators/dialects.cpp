#include "generators/dialects.h"

#include <algorithm>

#include "generators/partition.h"

namespace cryolite::compiler {

namespace {

const Graph::Call &call_of(const StepProgram &p, const StageSpec &s) { return p.graph.calls()[s.call]; }

/// Whether a stage is a matrix product: the value of its layer, the adjoint of its input, the gradient of its weight.
bool is_product(const StepProgram &p, const StageSpec &s) {
    if (s.call < 0 || (s.part != Part::forward && s.part != Part::d_input && s.part != Part::d_parameter)) return false;
    const auto layer = call_of(p, s).layer->product();
    return layer && (s.part != Part::d_parameter || s.parameter == layer->weight);
}

/// The stages that the words of a line mean: a value is also made again, an adjoint is made by who reads the value.
bool means(const StepProgram &p, const Stage &words, const StageSpec &s) {
    if (words.kind == Stage::gradient) return s.part == Part::d_parameter && s.parameter == words.parameter;
    if (words.kind == Stage::value) return s.part == Part::forward && call_of(p, s).layer == words.layer;
    if (words.kind != Stage::adjoint) return false;
    return std::ranges::any_of(p.stages, [&](const StageSpec &reader) {
        return reader.dy >= 0 && reader.dy == s.writes[0] && reader.call >= 0 && call_of(p, reader).layer == words.layer;
    });
}

/// The word of a layer that works element by element; empty: dialects have none.
std::string op_of(const Layer &layer) {
    static const std::map<std::string, std::string> ops = {{"Relu", "relu"}, {"Gelu", "gelu_tanh"}, {"GeluExact", "gelu_erf"}};
    auto op = ops.find(layer.kind());
    return op == ops.end() ? "" : op->second;
}

class Reader {
public:
    Reader(const StepProgram &p, const Kernel &k) : p(p), k(k), anchor(p.stages[k.anchor]) {}

    Product read() {
        const Graph::Call &c = call_of(p, anchor);
        const ProductLayer layer = *c.layer->product();
        const Buffer &weight = p.buffers[p.parameter_buffer.at(layer.weight)];
        const Shape &x = p.graph.values()[c.inputs[0]].shape;
        q.form = anchor.part == Part::forward ? Product::forward : anchor.part == Part::d_input ? Product::d_input : Product::d_parameter;
        q.in = x[0], q.rows = int(x.size() / x[0]), q.out = weight.shape[layer.out_dim];
        if (weight.layout.row_major() ? layer.out_dim != 0 : weight.layout.dim != layer.out_dim)
            fail("the weight '{}' is stored with the product's inputs innermost", weight.name);
        q.panel = weight.layout.panel, q.accumulate = anchor.accumulate;
        if (q.form != Product::d_parameter) q.weight = factor(p.parameter_buffer.at(layer.weight));
        if (q.form != Product::d_input) q.x = factor(p.seen(anchor, c.inputs[0]));
        if (q.form != Product::forward) q.dy = factor(anchor.dy);
        now = anchor.writes[0];
        q.stores = stored(now);
        if (q.form == Product::forward && layer.bias) q.then.push_back({"bias", p.parameter_buffer.at(layer.bias), -1});
        // The product's own value is that with its bias and what is added: the last step of those stores it.
        add(anchor.addends);
        if (!q.then.empty()) q.then.back().stores = q.stores, q.stores = -1;
        follow();
        for (int s : k.stages)
            if (&p.stages[s] != &anchor && !taken.count(s)) fail("'{}' is in its loops", p.stages[s].name);
        return q;
    }

private:
    const StepProgram &p;
    const Kernel &k;
    const StageSpec &anchor;
    Product q;
    int now = -1;  ///< buffer of the value so far
    std::set<int> taken;

    int stored(int buffer) {
        if (!p.buffers[buffer].stored) return -1;
        if (p.buffers[buffer].type != Halide::Float(32)) q.type = "bfloat16";
        return buffer;
    }
    int factor(int buffer) {
        if (!p.buffers[buffer].stored) fail("'{}' is computed in its loops, which then have a prologue", p.buffers[buffer].name);
        for (int s : k.stages)
            if (std::ranges::count(p.stages[s].writes, buffer)) fail("'{}' is computed in its loops, which then have a prologue", p.stages[s].name);
        return stored(buffer);
    }
    void add(const std::vector<int> &buffers) {
        for (int b : buffers) q.then.push_back({"add", factor(b), -1});
    }
    /// Each stage of the kernel that takes the value so far, element by element.
    void follow() {
        for (bool more = true; more;) {
            more = false;
            for (int s : k.stages)
                if (!taken.count(s) && &p.stages[s] != &anchor && take(p.stages[s])) taken.insert(s), more = true;
        }
    }
    bool take(const StageSpec &s) {
        if (s.call < 0) return false;
        const Graph::Call &c = call_of(p, s);
        const std::string op = op_of(*c.layer);
        if (s.part == Part::forward && c.layer->nature() == Nature::sum && c.inputs.size() == 2) {
            const int a = p.seen(s, c.inputs[0]), b = p.seen(s, c.inputs[1]);
            if (a == b || (a != now && b != now)) return false;
            q.then.push_back({"add", factor(a == now ? b : a), -1});
        } else if (s.part == Part::forward && !op.empty() && p.seen(s, c.inputs[0]) == now) {
            q.then.push_back({op, -1, -1});
        } else if (s.part == Part::d_input && !op.empty() && s.dy == now) {
            q.then.push_back({"d_" + op, factor(p.seen(s, c.inputs[0])), -1});
            add(s.addends);
        } else {
            return false;
        }
        now = s.writes[0];
        q.then.back().stores = stored(now);
        return true;
    }
};

}  // namespace

Product product_of(const StepProgram &p, const Kernel &k) {
    if (k.anchor < 0 || !is_product(p, p.stages[k.anchor])) fail("it is no product");
    for (int s : k.stages)
        if (p.stages[s].part == Part::next) fail("an update is in its loops");
    return Reader(p, k).read();
}

Product with_arguments(Product q, const std::vector<KernelArgument> &arguments) {
    auto place = [&](int &buffer, bool written) {
        for (int a = 0; buffer >= 0 && a < int(arguments.size()); a++)
            if (arguments[a].buffer == buffer && arguments[a].written == written) return void(buffer = a);
        if (buffer >= 0) fail("a kernel has no argument for what its product {}: report this", written ? "stores" : "reads");
    };
    for (int *read : {&q.weight, &q.x, &q.dy}) place(*read, false);
    place(q.stores, true);
    for (Product::Then &t : q.then) place(t.reads, false), place(t.stores, true);
    return q;
}

std::string why_not(const StepProgram &p, const Kernel &k, const std::string &dialect) {
    const DialectLine *line = find_dialect(dialect);
    if (!line) return fmt::format("there is no dialect '{}', expected {}", dialect, dialect_names());
    if (p.schedule->machine.gpu()) return fmt::format("{} runs on the CPU, and the step on {}", dialect, p.schedule->machine.device);
    try {
        return line->why_not(product_of(p, k));
    } catch (const Error &e) {
        return e.what();
    }
}

Asked asked_dialect(const StepProgram &p, const StepOptions &options, const Kernel &k) {
    for (int s : k.stages)
        for (auto &[stage, dialect] : p.schedule->dialects)
            if (means(p, stage, p.stages[s])) return {dialect, "a line of the step schedule"};
    return {options.dialect, options.dialect == "halide" ? "the default" : "--dialect " + options.dialect};
}

void choose_dialects(StepProgram &p, const StepOptions &options) {
    for (auto &[stage, dialect] : p.schedule->dialects) {
        auto refuse = [&, &stage = stage, &dialect = dialect](const std::string &why) {
            fail("s({}).dialect({}) is refused: {}; the nearest legal line is s({}).dialect(halide)", stage.str(), dialect, why, stage.str());
        };
        bool met = false;
        for (const Kernel &k : p.kernels)
            for (int s : k.stages) {
                if (!means(p, stage, p.stages[s])) continue;
                met = true;
                if (dialect == "halide") continue;
                if (!is_product(p, p.stages[s])) refuse("it is no product");
                if (s != k.anchor) refuse(fmt::format("'{}' owns the loops that it is in", p.stages[k.anchor].name));
                if (std::string why = why_not(p, k, dialect); !why.empty()) refuse(why);
            }
        if (!met) refuse("it is no value, adjoint or gradient of this step");
    }
    for (Kernel &k : p.kernels) {
        if (k.anchor < 0 || !is_product(p, p.stages[k.anchor])) continue;
        const Asked asked = asked_dialect(p, options, k);
        k.dialect_why = asked.why;
        std::string why = asked.dialect == "halide" ? "" : why_not(p, k, asked.dialect);
        if (why.empty()) k.dialect = asked.dialect;
        if (asked.why == "the default" && k.dialect == "halide")
            for (const DialectLine &d : dialect_table()) {
                const std::string not_this = why_not(p, k, d.name);
                if (not_this.empty()) k.dialects.push_back(d.name);
                else why += (why.empty() ? "" : "; ") + not_this;
            }
        if (!why.empty()) k.dialect_why = why;
    }
}

}  // namespace cryolite::compiler
