#pragma once

#include "dsl/layers/copy.h"

namespace cryolite {

/// Folds [channels, width, height, batch] into [channels * width * height, batch]; the elements stay in place.
struct Flatten : Refold {
    using Refold::Refold;
    Shape shape(const Shape &x) const override {
        int last = x.rank() - 1;
        return Shape{int(x.size() / x[last]), x[last]};
    }
};

/// Cuts an image into square patches, one row for each patch.   x: [channels, width, height, batch]
/// -> [channels size^2, patches, batch]; element c + channels (kx + size ky) of patch px + (width / size) py
/// is x(c, size px + kx, size py + ky).
/// An Image is Worth 16x16 Words, Dosovitskiy et al., 2021: a Linear follows.
struct Patches : Layer {
    const int size;

    Patches(std::string path, int size) : Layer(std::move(path)), size(size) {
        if (size < 1) fail("[{}] has patches of size {}, expected at least 1", this->path, size);
    }
    int rank() const override { return 4; }
    int output_rank() const override { return 3; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4) fail("[{}] input {} is not [channels, width, height, batch]", path, x.str());
        if (x[1] % size || x[2] % size) fail("[{}] patches of {} do not divide input {}", path, size, x.str());
        return {x[0] * size * size, x[1] / size * (x[2] / size), x[3]};
    }
    Func forward(Array x) override {
        Func y("y");
        const int channels = x.extent(0), across = x.extent(1) / size;
        Expr k = e / channels;
        y(e, p, n) = x(e % channels, p % across * size + k % size, p / across * size + k / size, n);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        const int channels = x.extent(0), across = x.extent(1) / size;
        Expr k = u % size + v % size * size;
        d(x)(c, u, v, n) = dy(c + channels * k, u / size + v / size * across, n);
    }

private:
    Var e{"e"}, p{"p"}, c{"c"}, u{"u"}, v{"v"}, n{"n"};
};

}  // namespace cryolite
