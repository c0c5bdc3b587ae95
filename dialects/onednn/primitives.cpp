#include "dialects/onednn/primitives.h"

#include <HalideRuntime.h>
#include <omp.h>

#include <functional>
#include <stdexcept>

namespace cryolite::of_onednn {

using dnnl::algorithm;
using dnnl::matmul;

// Objects that are made once are never destroyed: at exit the library's own static data may be destroyed before ours.
dnnl::engine &engine() {
    static auto *cpu = new dnnl::engine(dnnl::engine::kind::cpu, 0);
    return *cpu;
}

/// A stream of the CPU holds no state, so threads share it.
dnnl::stream &stream() {
    static auto *one = new dnnl::stream(engine());
    return *one;
}

// Inside a parallel region of several threads the library uses the calling thread alone. Inside a region of one thread
// it would open a region of its own.
OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

namespace {

dnnl::primitive_attr attributes(bool add) {
    dnnl::primitive_attr a;
    a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (!add) return a;
    dnnl::post_ops after;
    after.append_sum(1.0f);
    a.set_post_ops(after);
    return a;
}

algorithm function(const std::string &op) {
    if (op == "relu") return algorithm::eltwise_relu;
    if (op == "gelu_tanh") return algorithm::eltwise_gelu_tanh;
    if (op == "gelu_erf") return algorithm::eltwise_gelu_erf;
    throw std::runtime_error("onednn has no '" + op + "'");
}

void describe(std::vector<int64_t> &key, const Md &md) {
    const auto *bytes = reinterpret_cast<const int64_t *>(&md.data);
    key.insert(key.end(), bytes, bytes + sizeof md.data / sizeof *bytes);
}

/// A primitive with its description. `made` finds it by a key of everything that it is made of. The library's own cache
/// takes too long to find a primitive for each of the thousand tasks of a large product.
template <typename Pd> struct Made {
    Pd description;
    dnnl::primitive primitive;
};
template <typename Pd> const Made<Pd> &made(const std::vector<int64_t> &key, const std::function<Pd()> &make) {
    static std::mutex lock;
    static auto &all = *new std::map<std::vector<int64_t>, Made<Pd>>;
    const std::lock_guard hold(lock);
    auto at = all.find(key);
    if (at == all.end()) {
        Pd description = make();
        dnnl::primitive primitive(description.get());
        at = all.emplace(key, Made<Pd>{description, primitive}).first;
    }
    return at->second;
}

const Made<matmul::primitive_desc> &made_product(const Md &a, const Md &b, const Md &c, bool bias, bool add) {
    std::vector<int64_t> key = {bias, add};
    for (const Md *md : {&a, &b, &c}) describe(key, *md);
    return made<matmul::primitive_desc>(key, [&] {
        const OneThread one;
        const matmul::desc what =
            bias ? matmul::desc(a, b, matrix(1, c.dims()[1], c.dims()[1]), c) : matmul::desc(a, b, c);
        return matmul::primitive_desc(what, attributes(add), engine());
    });
}

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;
constexpr algorithm direct = algorithm::convolution_direct;

std::vector<int64_t> key_of(const Convolution &c) {
    std::vector<int64_t> key = {c.bias};
    for (const Md *md : {&c.x, &c.weight, &c.y}) describe(key, *md);
    for (const Dims *d : {&c.stride, &c.dilation, &c.padding}) key.insert(key.end(), d->begin(), d->end());
    return key;
}

Md bias_of(const Convolution &c) { return Md({c.y.dims()[1]}, dnnl::memory::data_type::f32, Dims{1}); }

Forward::desc described(const Convolution &c) {
    const auto training = dnnl::prop_kind::forward_training;
    if (!c.bias) return {training, direct, c.x, c.weight, c.y, c.stride, c.dilation, c.padding, c.padding};
    return {training, direct, c.x, c.weight, bias_of(c), c.y, c.stride, c.dilation, c.padding, c.padding};
}
const Made<Forward::primitive_desc> &made_forward(const Convolution &c) {
    return made<Forward::primitive_desc>(key_of(c), [&] {
        const OneThread one;
        return Forward::primitive_desc(described(c), attributes(false), engine());
    });
}
/// The gradient of x (BackwardData) or of the weight (BackwardWeights).
template <typename Backward> const Made<typename Backward::primitive_desc> &made_backward(const Convolution &c) {
    using Pd = typename Backward::primitive_desc;
    return made<Pd>(key_of(c), [&] {
        const OneThread one;
        return Pd({direct, c.x, c.weight, c.y, c.stride, c.dilation, c.padding, c.padding}, attributes(false), engine(),
                  Forward::primitive_desc(described(c), engine()));
    });
}

}  // namespace

void Action::bind(int argument, const Md &md, void *address) {
    memory_.emplace_back(md, engine(), address);
    arguments_.push_back({argument, memory_.back().get()});
}

template <typename Pd> void Action::finish(const Pd &made) {
    primitive_ = made.primitive;
    const Md scratch = made.description.scratchpad_desc();
    scratch_ = scratch.get_size();
    if (scratch_) bind(DNNL_ARG_SCRATCHPAD, scratch, DNNL_MEMORY_NONE);
}

bool Action::good(const Md &a, const Md &b, const Md &c, bool bias) {
    try {
        return std::string(made_product(a, b, c, bias, false).description.impl_info_str()).rfind("ref", 0) != 0;
    } catch (const dnnl::error &) {
        return false;
    }
}

Action Action::product(const Md &a, float *at_a, const Md &b, float *at_b, const Md &c, float *at_c, float *bias,
                       bool add) {
    Action action;
    action.bind(DNNL_ARG_SRC, a, at_a), action.bind(DNNL_ARG_WEIGHTS, b, at_b), action.bind(DNNL_ARG_DST, c, at_c);
    if (bias) action.bind(DNNL_ARG_BIAS, matrix(1, c.dims()[1], c.dims()[1]), bias);
    action.finish(made_product(a, b, c, bias, add));
    return action;
}

Md Convolution::packed() const {
    if (form == Product::forward) return made_forward(*this).description.weights_desc();
    if (form == Product::d_input) return made_backward<BackwardData>(*this).description.weights_desc();
    return made_backward<BackwardWeights>(*this).description.diff_weights_desc();
}

Action Action::convolution(const Convolution &c, float *x, float *y, float *bias) {
    Action action;
    const Md weight = c.packed();
    if (c.form == Product::forward) {
        action.bind(DNNL_ARG_SRC, c.x, x), action.bind(DNNL_ARG_WEIGHTS, weight, nullptr);
        action.bind(DNNL_ARG_DST, c.y, y);
        if (c.bias) action.bind(DNNL_ARG_BIAS, bias_of(c), bias);
        action.finish(made_forward(c));
    } else if (c.form == Product::d_input) {
        action.bind(DNNL_ARG_DIFF_SRC, c.x, x), action.bind(DNNL_ARG_WEIGHTS, weight, nullptr);
        action.bind(DNNL_ARG_DIFF_DST, c.y, y);
        action.finish(made_backward<BackwardData>(c));
    } else {
        action.bind(DNNL_ARG_SRC, c.x, x), action.bind(DNNL_ARG_DIFF_WEIGHTS, weight, nullptr);
        action.bind(DNNL_ARG_DIFF_DST, c.y, y);
        action.finish(made_backward<BackwardWeights>(c));
    }
    return action;
}

Action Action::pointwise(const std::string &op, const Md &rows, float *x, float *y) {
    using Forward = dnnl::eltwise_forward;
    std::vector<int64_t> key = {int64_t(function(op))};
    describe(key, rows);
    Action action;
    action.bind(DNNL_ARG_SRC, rows, x), action.bind(DNNL_ARG_DST, rows, y);
    action.finish(made<Forward::primitive_desc>(key, [&] {
        const OneThread one;
        return Forward::primitive_desc({dnnl::prop_kind::forward_inference, function(op), rows}, attributes(false),
                                       engine());
    }));
    return action;
}

Action Action::slope(const std::string &op, const Md &rows, float *x, float *y) {
    using Forward = dnnl::eltwise_forward;
    using Backward = dnnl::eltwise_backward;
    std::vector<int64_t> key = {int64_t(function(op))};
    describe(key, rows);
    Action action;
    action.bind(DNNL_ARG_SRC, rows, x), action.bind(DNNL_ARG_DIFF_DST, rows, y),
        action.bind(DNNL_ARG_DIFF_SRC, rows, y);
    action.finish(made<Backward::primitive_desc>(key, [&] {
        const OneThread one;
        const Forward::primitive_desc hint({dnnl::prop_kind::forward_training, function(op), rows}, engine());
        return Backward::primitive_desc({function(op), rows, rows}, attributes(false), engine(), hint);
    }));
    return action;
}

Action Action::copy(const Md &from, float *x, const Md &to, float *y, bool add) {
    std::vector<int64_t> key = {add};
    describe(key, from), describe(key, to);
    Action action;
    action.bind(DNNL_ARG_FROM, from, x), action.bind(DNNL_ARG_TO, to, y);
    action.finish(made<dnnl::reorder::primitive_desc>(key, [&] {
        const OneThread one;
        return dnnl::reorder::primitive_desc(engine(), from, engine(), to, attributes(add));
    }));
    return action;
}

Action Action::add(const Md &rows, float *x, float *y) {
    std::vector<int64_t> key;
    describe(key, rows);
    Action action;
    action.bind(DNNL_ARG_SRC_0, rows, y), action.bind(DNNL_ARG_SRC_1, rows, x), action.bind(DNNL_ARG_DST, rows, y);
    action.finish(made<dnnl::binary::primitive_desc>(key, [&] {
        const OneThread one;
        return dnnl::binary::primitive_desc({algorithm::binary_add, rows, rows, rows}, attributes(false), engine());
    }));
    return action;
}

int Action::run(void *context) const {
    void *scratch = scratch_ ? halide_malloc(context, scratch_) : nullptr;
    if (scratch_ && !scratch) return halide_error_code_out_of_memory;
    if (scratch) dnnl_memory_set_data_handle(memory_.back().get(), scratch);
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream().get(), int(arguments_.size()), arguments_.data());
    if (scratch) halide_free(context, scratch);
    return status == dnnl_success ? 0 : -int(status);
}

}  // namespace cryolite::of_onednn
