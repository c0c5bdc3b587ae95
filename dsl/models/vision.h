#pragma once

#include "dsl/model.h"
#include "dsl/models/resnet.h"
#include "dsl/models/vision_transformer.h"

namespace cryolite {

/// A classifier of images of one channel: a residual network or a vision transformer.
/// x: [1, size, size, batch] -> [classes, batch].
struct Vision : Classifier {
    GeneratorParam<int> size{"size", 28, "pixels of an image, across and down"};
    GeneratorParam<bool> transformer{"transformer", false, "a vision transformer, not a residual network"};
    GeneratorParam<int> width{"width", 16, "channels: of the first convolution, or of a patch"};
    GeneratorParam<int> layers{"layers", 2, "blocks: of each of three stages, or of the transformer"};
    static constexpr int usual_heads = 4, usual_patch = 4;
    GeneratorParam<int> heads{"heads", usual_heads, "attention heads of the transformer"};
    GeneratorParam<int> patch{"patch", usual_patch, "pixels of its patches, across and down"};

    std::optional<ResidualNetwork> resnet;
    std::optional<VisionTransformer> vit;

    Vision() {
        if (transformer)
            vit.emplace(size, patch, width, heads, layers, classes);
        else if (heads != usual_heads || patch != usual_patch)
            fail("a residual network has no heads and no patches: leave them out, or choose the transformer");
        else
            resnet.emplace(width, layers, classes);
    }
    Shape features() const override { return {1, size, size}; }
    Tensor forward(Tensor x) override { return vit ? (*vit)(x) : (*resnet)(x); }
};

}  // namespace cryolite
