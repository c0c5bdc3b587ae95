// Joins the digits model with its schedule.

#include "dsl/models/digits.h"
#include "generators/driver/program.h"

namespace {

void schedule(cryolite::Digits &net, cryolite::Step &s) {
    s(net.relu1).compute_with(net.conv1);
    s(net.relu2).compute_with(net.conv2);
    s(net.relu3).compute_with(net.hidden);
}

}  // namespace

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "digits"};
    info.presets = {{"digits",
                     {{"batch", "32"},
                      {"steps", "1350"},
                      {"lr", "2e-3"},
                      {"min-lr", "1e-5"},
                      {"warmup", "50"},
                      {"beta2", "0.99"},
                      {"weight-decay", "0.05"},
                      {"clip", "0"},
                      {"eval-every", "225"}}}};
    return cryolite::program<cryolite::Digits, schedule>(argc, argv, info);
}
