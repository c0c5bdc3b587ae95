#pragma once

#include "dsl/mode.h"

namespace cryolite {

/// In training, y = x / (1 - p) with probability 1 - p, else 0, each element by itself; y = x in evaluation.
/// The mask is computed where it is read, forward and backward, from a counter: nothing of it is stored. With p = 0 the
/// layer adds nothing to the step.   x: any shape, examples outermost -> same. torch.nn.Dropout.
/// Errors: p is not in 0 ... 1, 1 excluded.   Dropout: A Simple Way to Prevent Neural Networks from Overfitting,
/// Srivastava et al., 2014.
struct Dropout : ModedLayer {
    const double p;

    Dropout(std::string path, double p) : ModedLayer(std::move(path)), p(p) {
        if (!(p >= 0 && p < 1)) fail("[{}] has a probability of {}, expected 0 to less than 1", this->path, p);
    }
    /// Each call of a step has a mask of its own.
    Tensor operator()(const Tensor &x) {
        if (p == 0) return x;
        Graph &g = x.graph();
        int before = 0;
        for (const Graph::Call &c : g.calls()) before += dynamic_cast<const Dropout *>(c.layer) != nullptr;
        return g.call(*this, {x, g.mode(), g.constant(path + ".stream", {1}, {float(before)})});
    }
    Nature nature() const override { return Nature::pointwise; }
    bool by_rows() const override { return false; }  // the mask depends on the row's number
    int rank() const override { return 0; }
    CastRow cast_row() const override { return CastRow::pointwise; }

    Func forward(const std::vector<Array> &in) override {
        Func y("y");
        const std::vector<Var> at = places(in[0]);
        y(at) = in[0](at) * factor(in, at);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Var> at = places(dy);
        d(call.input())(at) = dy(at) * factor(call.inputs, at);
    }

private:
    static std::vector<Var> places(const Array &x) {
        std::vector<Var> v;
        for (int k = 0; k < x.dimensions(); k++) v.emplace_back(fmt::format("i{}", k));
        return v;
    }
    /// dy/dx at a place.
    Expr factor(const std::vector<Array> &in, const std::vector<Var> &at) const {
        const Mode mode(in[1]);
        const Halide::Type type = in[0].type();
        const Expr bits = mode.bits(in[0].shape, at, cast<uint32_t>(cast<int32_t>(in[2](0))));
        const Expr kept = bits >= Expr(uint32_t(p * 0x1p32));
        const Expr in_training = select(kept, cast(type, Expr(1 / (1 - p))), cast(type, 0));
        return select(mode.training(), in_training, cast(type, 1));
    }
};

}  // namespace cryolite
