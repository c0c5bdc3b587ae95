#pragma once
// How lines of a step schedule as text name stages, and the advice for a name that does not exist.

#include <string>
#include <utility>
#include <vector>

#include "dsl/model.h"
#include "schedules/step_schedule.h"

namespace cryolite {

/// A stage as a line of text has it: "d(h.*.mlp)".
struct StageText {
    enum Kind { value, derivative, next, pass, gradients } kind = value;
    std::string name{};
    size_t at = 0;  ///< where the name begins
    int call = 0;   ///< "name[2]": the second call; 0: all calls
};

/// The names of a model's layers and parameters. Layers that operators make have no name that a line can use.
class LineNames {
public:
    explicit LineNames(Model &net);

    struct Found {
        Stage stage;
        std::vector<std::string> stars;
    };
    /// The stages that a text names, each once, with what the stars of the text stand for in their names.
    std::vector<Found> find(const StageText &text) const;
    /// How often the model calls a layer.
    int calls(const Layer *h) const;
    /// What a name that does not exist may be meant for: "near it are ...", or, for a name in C++ ("net.up.W"), its
    /// name in a line of text.
    std::string advice(const StageText &text) const;

private:
    std::vector<std::pair<std::string, const Layer *>> layers_;
    std::vector<std::pair<std::string, const Parameter *>> parameters_;
    std::vector<std::string> nameless_;  ///< stages that operators and functions of tensors make

    std::vector<std::string> names(const StageText &text) const;
    std::vector<std::string> of_blocks(const StageText &text, const std::string &part) const;
    std::vector<std::string> of_kind(const std::string &member) const;
    std::string advice_to_cpp(const StageText &text, size_t dot) const;
};

}  // namespace cryolite
