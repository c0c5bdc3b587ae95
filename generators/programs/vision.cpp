// Joins the models of images with their schedules.

#include "dsl/models/vision.h"
#include "generators/driver/program.h"

namespace {

void schedule(cryolite::Vision &net, cryolite::Step &s) {
    if (net.vit)
        for (cryolite::VisionBlock &b : net.vit->blocks) {
            s(b.gelu).compute_with(b.up);      // GELU in the epilogue, on tiles still in registers
            s(d(b.gelu)).compute_at(d(b.up));  // its derivative in the epilogue of dX
        }
    else
        s.automatic();
    s(d(net)).distribute(cryolite::workers);
}

}  // namespace

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "vision"};
    info.data = "fashion-mnist", info.peer = "torch_vision.py";
    info.presets = {
        {"resnet",
         {{"transformer", "false"},
          {"width", "16"},
          {"layers", "2"},
          {"batch", "64"},
          {"shift", "2"},
          {"flip", "yes"},
          {"steps", "9400"},
          {"lr", "3e-3"},
          {"min-lr", "1e-5"},
          {"warmup", "200"},
          {"beta2", "0.99"},
          {"weight-decay", "0.05"},
          {"clip", "0"},
          {"eval-every", "940"}}},
        {"vit",
         {{"transformer", "true"},
          {"width", "64"},
          {"layers", "4"},
          {"heads", "4"},
          {"patch", "4"},
          {"batch", "64"},
          {"shift", "2"},
          {"flip", "yes"},
          {"steps", "9400"},
          {"lr", "1e-3"},
          {"min-lr", "1e-5"},
          {"warmup", "400"},
          {"beta2", "0.99"},
          {"weight-decay", "0.05"},
          {"clip", "1"},
          {"eval-every", "940"}}},
    };
    return cryolite::program<cryolite::Vision, schedule>(argc, argv, info);
}
