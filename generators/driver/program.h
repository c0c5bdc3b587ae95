#pragma once
// The main program of a generator: it makes a bundle at the command's request, or prints facts about the model. Users'
// programs include this header, so it names none of the compiler's own types, which are in cryolite::compiler.

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
    /// Groups of parameters with a rate or decay of their own (bundle/param_group.h): {"wte=lr:0.1x,decay:0"}. The
    /// command's groups come after them.
    std::vector<std::string> param_groups = {};
    WeightFiles weights = {};  ///< how other programs' files hold the weights
    std::string peer = "";     ///< the script of apps/cryolite/peers that does the same work in PyTorch
    std::string data = "";     ///< the data that a model of features is for (bundle/program_description.h)
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
