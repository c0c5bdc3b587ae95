#pragma once
// Settings as the command makes them of flags.

#include "apps/cryolite/session/settings.h"

namespace cryolite::test {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// A request as the command makes it, for a program like gpt, without one.
inline Request request(const Pairs &line = {}, const std::string &preset = "", Command command = Command::train) {
    Request r;
    r.command = command;
    r.app = "gpt";
    ProgramDescription &d = r.program.description;
    d.name = "gpt", d.task = "tokens", d.optimizer = "adamw";
    const ProgramDescription::Number rate{"lr", 1e-3, RealRange::positive, "learning rate"},
        beta1{"beta1", 0.9, RealRange::fraction, "momentum"}, beta2{"beta2", 0.95, RealRange::fraction, "of squares"},
        decay{"weight-decay", 0.1, RealRange::not_negative, "decay"};
    d.optimizers = {{"adamw", {rate, beta1, beta2, decay}},
                    {"sgd", {{"lr", 0.25, RealRange::positive, "learning rate"}, beta1, decay}}};
    for (auto [name, value] : Pairs{{"batch", "12"},
                                    {"context", "64"},
                                    {"vocab", "65"},
                                    {"layers", "4"},
                                    {"heads", "4"},
                                    {"width", "128"},
                                    {"positions", "64"}})
        d.params.push_back({name, "int", value, ""});
    d.params.push_back({"dropout", "float", "0.5", ""});
    d.presets = {
        {"nano",
         {{"lr", "1e-3"}, {"min-lr", "1e-4"}, {"beta2", "0.99"}, {"clip", "1.0"}, {"layers", "4"}, {"steps", "2000"}}},
        {"large", {{"layers", "48"}, {"heads", "25"}, {"width", "1600"}}}};
    for (auto &[flag, text] : line) r.values.give(flag, {text, Origin::command_line});
    r.preset = give_preset(r.values, d, preset);
    return r;
}

inline TrainSettings settings(const Pairs &line, const std::string &preset = "") {
    return understand(request(line, preset));
}

}  // namespace cryolite::test
