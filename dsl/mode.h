#pragma once
// What an algorithm may know of the run that it is part of: whether it trains, and random numbers that are the same
// whenever they are computed.

#include <array>

#include "dsl/layer.h"

namespace cryolite {

/// Philox-4x32 with 10 rounds: the first of the four random words, uint32, that a key of two words makes of a counter
/// of four. It is a pure function, and stays small for compilers that expand every use of a value.
/// Parallel Random Numbers: As Easy as 1, 2, 3, Salmon et al., 2011.
inline Expr philox(const std::array<Expr, 2> &key, std::array<Expr, 4> counter) {
    auto high = [](const Expr &x, uint32_t by) {
        return cast<uint32_t>((cast<uint64_t>(x) * cast<uint64_t>(Expr(by))) >> 32);
    };
    for (uint32_t round = 0; round < 10; round++) {
        const auto [a, b, c, d] = counter;
        counter = {high(c, 0xcd9e8d57u) ^ b ^ (key[0] + Expr(round * 0x9e3779b9u)), c * Expr(0xcd9e8d57u),
                   high(a, 0xd2511f53u) ^ d ^ (key[1] + Expr(round * 0xbb67ae85u)), a * Expr(0xd2511f53u)};
    }
    return counter[0];
}

/// The input of `Graph::mode`, which the runtime writes before each forward pass.
class Mode {
public:
    explicit Mode(const Array &input) : input(input) {}

    /// Whether this pass is one of a step: false in evaluations and predictions.
    Expr training() const { return input(0) != 0; }
    /// 32 random bits, uint32, for the element `at` of an array of this shape, whose examples are outermost. They
    /// depend only on the run's seed, the step, `stream` (uint32, another for each call) and the element's number in
    /// the batch of the whole step. So they are the same when computed again, after a resume, and however the batch is
    /// split into micro-batches and workers.
    Expr bits(const Shape &shape, const std::vector<Var> &at, const Expr &stream) const {
        Expr place = 0;
        for (int d = shape.rank(); d-- > 0;) place = place * shape[d] + at[size_t(d)];
        const Expr number = cast<uint64_t>(word(4)) * cast<uint64_t>(Expr(shape.size())) + cast<uint64_t>(place);
        return philox({word(1), word(2)}, {cast<uint32_t>(number), cast<uint32_t>(number >> 32), word(3), stream});
    }

private:
    /// `Graph::mode_words` of int32: 0 whether it trains; 1, 2 the seed; 3 the step; 4 how many parts of the step's
    /// batch come before this one.
    Array input;
    Expr word(int k) const { return cast<uint32_t>(input(k)); }
};

/// A layer of one tensor that works differently in training and evaluation. Its inputs: the tensor, the mode, others.
struct ModedLayer : Layer {
    using Layer::Layer;

    Tensor operator()(const Tensor &x) { return x.graph().call(*this, {x, x.graph().mode()}); }
    using Layer::shape;
    Shape shape(const std::vector<Shape> &x) const override {
        if (x.size() < 2 || x[1] != Shape{Graph::mode_words})
            fail("[{}] is called without the mode of the run, Graph::mode()", path);
        return shape(x[0]);
    }
    int input_rank(int k) const override { return k == 0 ? rank() : 1; }
    bool has_rows(int k) const override { return k == 0; }
    bool differentiates(int k) const override { return k == 0; }
};

}  // namespace cryolite
