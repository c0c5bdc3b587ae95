#include "dsl/graph.h"

#include <algorithm>

#include "dsl/layer.h"

namespace cryolite {

Tensor Graph::input(const std::string &name, const Shape &shape, Halide::Type type) {
    for (int e : shape.extents())
        if (e < 1) fail("the input '{}' has the shape {}: every extent must be positive", name, shape.str());
    values_.push_back({name, shape, type, -1});
    return Tensor(this, int(values_.size()) - 1);
}

Tensor Graph::constant(const std::string &name, const Shape &shape, std::vector<float> elements) {
    if (shape.size() != int64_t(elements.size()))
        fail("[{}] has {} elements, its shape is {}", name, elements.size(), shape.str());
    values_.push_back({.name = name, .shape = shape, .type = Halide::Float(32), .constant = std::move(elements)});
    return Tensor(this, int(values_.size()) - 1);
}

Tensor Graph::mode() {
    if (mode_ < 0) mode_ = input("mode", {mode_words}, Halide::Int(32)).id();
    return tensor(mode_);
}

void Graph::takes(const Ids &ids) {
    const Value &v = values_[size_t(ids.value)];
    if (v.producer < 0 && v.part_of < 0 && v.name == "targets") return ids_.push_back(ids);
    if (ids.mean_weight >= 0)
        fail("[{}] weighs rows by '{}', but only the rows of the model's own targets are counted before a step: pass "
             "the targets that loss() is given",
             ids.loss, v.name);
}

void Graph::metric(const std::string &name, const Tensor &x) {
    if (x.shape().size() != 1)
        fail("the metric '{}' has shape {}, expected one number: a mean over rows, as Accuracy computes it", name,
             x.shape().str());
    if (name.empty()) fail("a metric needs a name, as in metric(\"accuracy\", x)");
    if (std::ranges::count(metrics_, name, &Metric::name)) fail("two metrics are named '{}'", name);
    metrics_.push_back({name, x.id()});
}

Tensor Graph::rows(const Tensor &x, int rank, int begin, int count) {
    const Shape whole = x.shape().folded(rank), part = whole.with(rank - 1, count);
    const int64_t before = whole.size() / whole[rank - 1] * begin;
    const Value &of = values_[size_t(x.id())];
    values_.push_back({fmt::format("{}[{}:{}]", of.name, begin, begin + count), part, of.type, -1, x.id(), before});
    return Tensor(this, int(values_.size()) - 1);
}

Layer &Graph::own(std::unique_ptr<Layer> layer) {
    owned_.push_back(std::move(layer));
    return *owned_.back();
}

bool Graph::owns(const Layer &layer) const {
    return std::ranges::any_of(owned_, [&](const auto &own) { return own.get() == &layer; });
}

Tensor Graph::call(Layer &layer, const std::vector<Tensor> &inputs) {
    std::vector<Shape> shapes;
    std::vector<int> ids;
    Halide::Type type = Halide::Float(32);
    for (const Tensor &t : inputs) {
        if (&t.graph() != this)
            fail("[{}] is called on tensors of two different traces: keep no Tensor from one call of forward() or "
                 "loss() to the next",
                 layer.path);
        shapes.push_back(t.shape());
        ids.push_back(t.id());
    }
    Shape out = layer.shape(shapes);
    for (int e : out.extents())
        if (e < 1) fail("[{}] has an output of shape {}: every extent must be positive", layer.path, out.str());
    values_.push_back({layer.path, out, type, int(calls_.size())});
    calls_.push_back({&layer, ids, int(values_.size()) - 1});
    called_.push_back({layer.path, layer.lifetime()});
    return Tensor(this, int(values_.size()) - 1);
}

void Graph::check_layers_live() const {
    for (const Called &c : called_)
        if (c.lifetime.expired())
            fail("[{}] is gone before the step is built, as a local variable of the function that calls it is: make it "
                 "a member of the model",
                 c.path);
}

void Graph::redo(int call, Layer &layer, const std::vector<int> &inputs) {
    Call &c = calls_[size_t(call)];
    std::vector<Shape> shapes;
    for (int v : inputs) shapes.push_back(values_[size_t(v)].shape);
    const Shape &made = values_[size_t(c.output)].shape, out = layer.shape(shapes);
    if (out != made) fail("[{}] makes {} for {}", layer.path, out.str(), made.str());
    c.layer = &layer, c.inputs = inputs;
}

std::vector<int> Graph::drop(const std::vector<int> &instead) {
    std::vector<int> now(values_.size(), -1), number(calls_.size(), -1);
    std::vector<Value> values;
    std::vector<Call> calls;
    for (size_t v = 0; v < values_.size(); v++) {
        if (instead[v] != int(v)) continue;
        now[v] = int(values.size());
        values.push_back(std::move(values_[v]));
    }
    for (size_t v = 0; v < now.size(); v++)
        if (instead[v] >= 0) now[v] = now[size_t(instead[v])];
    auto renumber = [&](int &v) {
        if (v >= 0) v = now[size_t(v)];
    };
    for (size_t c = 0; c < calls_.size(); c++) {
        if (instead[size_t(calls_[c].output)] != calls_[c].output) continue;
        number[c] = int(calls.size());
        Call &call = calls.emplace_back(std::move(calls_[c]));
        std::ranges::for_each(call.inputs, renumber), renumber(call.output);
    }
    for (Value &v : values) {
        if (v.producer >= 0) v.producer = number[size_t(v.producer)];
        renumber(v.part_of);
    }
    for (Ids &ids : ids_)
        for (int *v : {&ids.value, &ids.class_weights, &ids.mean_weight}) renumber(*v);
    for (Metric &m : metrics_) renumber(m.value);
    renumber(mode_);
    values_ = std::move(values), calls_ = std::move(calls);
    return now;
}

}  // namespace cryolite
