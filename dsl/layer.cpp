#include "dsl/layer.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "dsl/derive.h"
#include "dsl/layers/add.h"
#include "dsl/layers/times.h"
#include "dsl/tensor.h"

namespace cryolite {

Casts Layer::casts_in(Format model) const {
    if (format_.value_or(fp32) != fp32 && format_ != model)
        fail("[{}] has numerics({}) in a model of {}: a model has one narrow format; give it to the model, and "
             "numerics(fp32) to the layers that are to be an exception",
             path, format_name(*format_), format_name(model));
    if (model == fp32 || format_ == fp32) return {};
    return casts_.value_or(casts_of(model, cast_row()));
}

const Shape &Tensor::shape() const { return graph_->values()[id_].shape; }
const std::string &Tensor::name() const { return graph_->values()[id_].name; }
Halide::Type Tensor::type() const { return graph_->values()[id_].type; }

Tensor operator+(const Tensor &x, const Tensor &y) {
    Graph &g = x.graph();
    auto &add = static_cast<Add &>(g.own(std::make_unique<Add>()));
    const auto [a, b] = matched(add.path, x, y);
    return add(a, b);
}

std::pair<Tensor, Tensor> matched(const std::string &path, const Tensor &x, const Tensor &y) {
    const Shape a = x.shape(), b = y.shape();
    std::vector<int> both;
    for (int k = 0; k < std::max(a.rank(), b.rank()); k++) {
        const int p = k < a.rank() ? a[k] : 1, q = k < b.rank() ? b[k] : 1;
        if (p != q && p != 1 && q != 1)
            fail("[{}] of '{}' {} and '{}' {}: extents must match or be 1, counted from the innermost{}", path,
                 x.name(), a.str(), y.name(), b.str(),
                 a.rank() == b.rank() ? "" : "; reshape(x, {...}) gives a dimension that a sum or mean took away back");
        both.push_back(std::max(p, q));
    }
    const Tensor first = broadcast(x, Shape(both));
    return {first, broadcast(y, Shape(both))};
}

Tensor operator*(double k, const Tensor &x) {
    auto &times = static_cast<Times &>(x.graph().own(std::make_unique<Times>(k)));
    return times(x);
}

namespace {
std::vector<const Parameter *> &registry() {
    static std::vector<const Parameter *> list;
    return list;
}
}  // namespace

const std::vector<const Parameter *> &Parameter::living() { return registry(); }

Parameter::~Parameter() {
    // Those that were made last usually go first.
    auto &all = registry();
    all.erase(std::next(std::ranges::find(all.rbegin(), all.rend(), this)).base());
}

Parameter::Parameter(Layer *owner, std::string name, Shape shape, Init init, std::string symbol, bool state)
    : owner_(owner), name_(std::move(name)), symbol_(std::move(symbol)), shape_(std::move(shape)), init_(init),
      state_(state) {
    for (int e : shape_.extents())
        if (e < 1) fail("[{}] has shape {}: every extent must be positive", path(), shape_.str());
    // A step has code of its own for each.
    constexpr size_t most = 50'000;
    if (registry().size() >= most) fail("a model has at most {} tensors of weights: give it fewer layers", most);
    owner->parameters_.push_back(this);
    registry().push_back(this);
}

std::string Parameter::path() const { return owner_->path.empty() ? name_ : owner_->path + "." + name_; }

const Func &Parameter::func() const {
    if (!func_) fail("[{}] is read outside of forward and backward", path());
    return *func_;
}

Factors Layer::factors(const Parameter &w, const Call &, const Array &) {
    fail("[{}] the gradient of {} is not written as a sum of outer products", path, w.path());
}

Expr Layer::next(const LayerState &state, const Expr &, const std::vector<Var> &, const Call &) {
    fail("[{}] {} does not define the next value of its state '{}': write next()", path, kind(), state.name());
}

double Layer::gradient_flops(const Shape &x, bool of_input) const {
    return of_input || !parameters_.empty() ? flops(x) : 0;
}

Func Layer::forward(Array) {
    fail("[{}] {} defines no forward(Array): write one, or forward(const std::vector<Array> &)", path, kind());
}

std::string Layer::kind() const {
    std::unique_ptr<char, void (*)(void *)> s(abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, nullptr),
                                              std::free);
    std::string name = s ? s.get() : typeid(*this).name();
    if (auto at = name.rfind("::"); at != std::string::npos) name = name.substr(at + 2);
    return name;
}

Func &Layer::slot(const std::string &name, const std::string &called) {
    auto it = gradient_.find(name);
    if (it == gradient_.end()) it = gradient_.emplace(name, Func(called)).first;
    return it->second;
}

std::map<std::string, Func> Layer::gradient(const Call &call, const Array &dy) {
    gradient_.clear();
    backward(call, dy);
    return std::move(gradient_);
}

std::map<std::string, Func> Layer::derived_gradient(const Call &call, const Array &dy) {
    gradient_.clear();
    derive(call, dy);
    return std::move(gradient_);
}

void Layer::derive(const Call &call, const Array &dy) {
    // Gradients that are written stay.
    std::vector<Source> sources;
    std::vector<std::string> names;
    auto add = [&](const Array &x, const std::string &name, bool wanted) {
        names.push_back("d_" + name);
        sources.push_back({x, wanted && x.type().is_float() && !gradient_.count(names.back())});
    };
    for (size_t k = 0; k < call.inputs.size(); k++) add(call.inputs[k], call.inputs[k].name(), differentiates(int(k)));
    for (Parameter *w : parameters_) add(Array(w->func(), w->shape()), w->name(), !w->is_state());
    auto refuse = [&](const std::string &why) {
        fail("[{0}] {1}: its gradient cannot be derived: {2}; or write {1}::backward", path, kind(), why);
    };
    // Built anew: call.output is a stored array, which does not tell how it was computed.
    const Func y = forward(call.inputs);
    try {
        derive_gradients(y, dy, sources);
    } catch (const Underivable &e) {
        refuse(e.what());
    } catch (const Halide::Error &e) {
        refuse(std::string("Halide says: ") + e.what());
    }
    for (size_t k = 0; k < sources.size(); k++)
        if (sources[k].wanted) gradient_.emplace(names[k], sources[k].gradient);
}

}  // namespace cryolite
