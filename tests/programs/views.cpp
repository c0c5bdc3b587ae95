// Reshapes and slices: kind=1 has those of the library, which need no copy where they can be views, kind=2 layers that
// compute the same and are not known to move no element.

#include "generators/cryolite.h"

using namespace cryolite;

struct CopiedReshape : Reshape {
    using Reshape::Reshape;
};
struct CopiedSlice : Slice {
    using Slice::Slice;
};
struct CopiedConcat : Concat {
    using Concat::Concat;
};

struct Views : Classifier {
    GeneratorParam<int> kind{"kind", 1, "1 with views, 2 with copies"};
    GeneratorParam<int> half{"half", 16, "rows of the first part: the second begins where a kernel's arrays may"};

    Linear up{"up", 35, 51, he(35)}, mix{"mix", 17, 11, he(17)}, head{"head", 33, classes, he(33)};
    Linear inner{"inner", 22, 13, he(22)}, side{"side", 13, classes, he(13)};
    LayerNorm norm{"norm", 17};
    Relu relu{"relu"};
    Gelu gelu{"gelu"}, second{"second"};
    SiLU silu{"silu"};

    Shape features() const override { return {7, 5}; }
    Tensor to(const Tensor &x, const Shape &shape) const {
        return kind == 1 ? reshape(x, shape) : traced<CopiedReshape>({x}, x.shape(), shape);
    }
    Tensor cut(const Tensor &x, int dim, int begin, int end) const {
        return kind == 1 ? slice(x, dim, begin, end) : traced<CopiedSlice>({x}, x.shape(), dim, begin, end);
    }
    Tensor join(const Tensor &x, const Tensor &y, int dim) const {
        const std::vector<Shape> shapes = {x.shape(), y.shape()};
        return kind == 1 ? concat({x, y}, dim) : traced<CopiedConcat>({x, y}, shapes, dim);
    }
    Tensor forward(Tensor x) override {
        const int n = batch;
        const Tensor h = relu(up(to(x, {35, n})));
        const Tensor rows = mix(norm(to(h, {17, 3, n})));  // [11, 3, n]
        const Tensor z = join(gelu(cut(rows, 2, 0, half)), silu(cut(rows, 2, half, n)), 2);
        const Tensor apart = second(inner(to(cut(z, 1, 1, 3), {22, n})));  // a slice along an inner dimension: a copy
        return head(to(z, {33, n})) + side(apart);
    }
};

int main(int argc, char **argv) { return program<Views>(argc, argv, {"views"}); }
