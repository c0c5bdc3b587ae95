#pragma once
// The main program of a generator: from the command's request to a bundle, or to words about the model. Users' programs
// include this: the compiler's own types are in cryolite::compiler, and none of them is named here.

#include <map>
#include <string>

#include "bundle/program_description.h"
#include "dsl/model.h"
#include "dsl/optimizer.h"
#include "schedules/step_schedule.h"

namespace cryolite {

/// What the command should know of a model before it is compiled.
struct ProgramInfo {
    std::string name;
    std::string optimizer = "adamw";
    /// preset -> flags that it sets; the first is used where none is given.
    std::vector<std::pair<std::string, std::map<std::string, std::string>>> presets = {};
    /// Rules of the program's own beside the library's: {{"name", rule<MyRule>}}.
    std::vector<std::pair<std::string, std::unique_ptr<Optimizer> (*)()>> optimizers = {};
    /// Parameters of another rate or decay (bundle/param_group.h): {"wte=lr:0.1x,decay:0"}. Those of the command come
    /// after them.
    std::vector<std::string> param_groups = {};
    WeightFiles weights = {};  ///< of other programs
    std::string peer = "";     ///< the script of apps/cryolite/peers that does the same work in PyTorch
    std::string data = "";     ///< of rows: the data that it is for (bundle/program_description.h)
};

template <typename O> std::unique_ptr<Optimizer> rule() { return std::make_unique<O>(); }

using ModelMaker = std::unique_ptr<Model> (*)();
using ScheduleModel = void (*)(Model &, Step &);

/// Exit status: 0 done, 1 failed (a message on stderr), 2 bad usage.
int run_program(int argc, char **argv, const ProgramInfo &info, ModelMaker make, ScheduleModel schedule);

template <typename M> void no_schedule(M &, Step &) {}

/// `int main(int argc, char **argv) { return cryolite::program<MyModel, schedule>(argc, argv, {"my model"}); }`
template <typename M, void (*schedule)(M &, Step &) = no_schedule<M>>
int program(int argc, char **argv, const ProgramInfo &info) {
    return run_program(
        argc, argv, info, []() -> std::unique_ptr<Model> { return std::make_unique<M>(); },
        [](Model &m, Step &s) { schedule(static_cast<M &>(m), s); });
}

}  // namespace cryolite
