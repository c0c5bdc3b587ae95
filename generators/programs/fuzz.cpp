// A random model with a random step schedule, from --param choices=NUMBERS: what `cryolite fuzz` compares with its
// reference. `fuzz --print ...` prints the model as a program of its own.

#include <cstring>

#include "generators/driver/program.h"
#include "generators/fuzz/random_model.h"

namespace {

using cryolite::fuzz::RandomModel;

void schedule(RandomModel &m, cryolite::Step &s) { m.schedule(s); }

/// The text after --param NAME=; empty: it is not given.
std::string given(int argc, char **argv, const std::string &name) {
    for (int k = 1; k + 1 < argc; k++)
        if (std::string(argv[k]) == "--param" && std::string(argv[k + 1]).starts_with(name + "="))
            return std::string(argv[k + 1]).substr(name.size() + 1);
    return "";
}

int print(int argc, char **argv) {
    auto &arguments = cryolite::Arguments::current().given;
    for (const char *name : {"choices", "without", "kind", "vocab", "columns"})
        if (const std::string text = given(argc, argv, name); !text.empty()) arguments.push_back({name, text});
    fmt::print("{}", RandomModel().program());
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        if (argc > 1 && std::strcmp(argv[1], "--print") == 0) return print(argc, argv);
        cryolite::ProgramInfo info{.name = "fuzz"};
        info.param_groups = RandomModel::param_groups(given(argc, argv, "choices"));
        return cryolite::program<RandomModel, schedule>(argc, argv, info);
    } catch (const cryolite::Error &e) {
        fmt::print(stderr, "fuzz: {}\n", e.what());
        return 1;
    }
}
