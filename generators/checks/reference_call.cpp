#include "generators/checks/reference_call.h"

namespace cryolite::compiler {

ReferenceCall::ReferenceCall(const Graph &g, const Graph::Call &call)
    : layer(*call.layer), reads(call.inputs), output(call.output) {
    bind(g);
    build();
}

void ReferenceCall::bind(const Graph &g) {
    for (size_t k = 0; k < reads.size(); k++) {
        const Graph::Value &v = g.values()[size_t(reads[k])];
        if (v.part_of >= 0 || g.is_mode(reads[k]))
            fail("[{}] reads {}, which the reference does not know", layer.path,
                 v.part_of >= 0 ? "rows of another value" : "whether it trains");
        const std::string name = fmt::format("x{}", k);
        const int rank = layer.input_rank(int(k)) ? layer.input_rank(int(k)) : v.shape.rank();
        const Halide::Type type = v.type.is_float() ? Halide::Float(64) : Halide::Int(32);
        inputs.emplace_back(name, name, type, v.shape.folded(rank));
        inputs.back().constant = !v.type.is_float() || !layer.differentiates(int(k));
    }
    for (Parameter *w : layer.parameters()) {
        if (w->is_state()) fail("[{}] keeps '{}', which the reference does not know", layer.path, w->name());
        weights.emplace_back(w->name(), w->symbol(), Halide::Float(64), w->shape());
        weights.back().gradient = "d_" + w->name();
        parameters.push_back(w);
        w->bind(weights.back().array);
    }
    const Shape &shape = g.values()[size_t(output)].shape;
    const Shape folded = shape.folded(layer.output_rank() ? layer.output_rank() : shape.rank());
    dy.emplace("dy", "dy", Halide::Float(64), folded);
    y.emplace("y", "y", Halide::Float(64), folded);
}

void ReferenceCall::build() {
    Call call;
    for (SourceArray &s : inputs) call.inputs.push_back(s.array);
    const Func result = of_ids_in_float64(layer.forward(call.inputs), inputs, !parameters.empty());
    sums_at_root({result});
    made = Halide::Pipeline(result);
    call.output = y->array;
    const std::map<std::string, Func> all = layer.gradient(call, dy->array);
    std::vector<Func> outputs;
    auto add = [&](const SourceArray &s, int input, const Parameter *w) {
        const auto found = all.find(s.gradient);
        if (found == all.end() || !found->second.defined())
            fail("[{}] {} defines no gradient of '{}'", layer.path, layer.kind(), s.name);
        gradients_.push_back({input, w, Numbers(s.floats.size()), s.array.shape.extents()});
        outputs.push_back(found->second);
    };
    for (size_t k = 0; k < inputs.size(); k++)
        if (!inputs[k].constant) add(inputs[k], int(k), nullptr);
    for (size_t k = 0; k < weights.size(); k++) add(weights[k], -1, parameters[k]);
    if (outputs.empty()) return;
    sums_at_root(outputs);
    derived = Halide::Pipeline(outputs);
}

void ReferenceCall::forward(std::vector<Numbers> &values, const std::map<const Parameter *, Numbers> &of) {
    for (size_t k = 0; k < reads.size(); k++) {
        const Numbers &from = values[size_t(reads[k])];
        if (inputs[k].floats.empty())
            std::copy(from.begin(), from.end(), inputs[k].ints.begin());
        else
            std::copy(from.begin(), from.end(), inputs[k].floats.begin());
    }
    for (size_t k = 0; k < weights.size(); k++) weights[k].floats = of.at(parameters[k]), weights[k].attach();
    Halide::Buffer<double> out(y->floats.data(), y->array.shape.extents());
    made.realize(out);
    values[size_t(output)] = y->floats;
}

void ReferenceCall::backward(std::vector<Numbers> &adjoints, std::map<const Parameter *, Numbers> &gradients) {
    const Numbers &given = adjoints[size_t(output)];
    if (given.empty() || gradients_.empty()) return;
    std::copy(given.begin(), given.end(), dy->floats.begin());
    std::vector<Halide::Buffer<>> out;
    for (Gradient &g : gradients_) out.emplace_back(Halide::Buffer<double>(g.numbers.data(), g.extents));
    derived.realize(Halide::Realization(std::move(out)));
    for (const Gradient &g : gradients_) {
        Numbers &sum = g.parameter ? gradients[g.parameter] : adjoints[size_t(reads[size_t(g.input)])];
        sum.resize(g.numbers.size());
        for (size_t i = 0; i < sum.size(); i++) sum[i] += g.numbers[i];
    }
}

}  // namespace cryolite::compiler
