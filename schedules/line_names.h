#pragma once
// The names that lines of a step schedule as text have for stages, and what is said of one that there is not.

#include <string>
#include <utility>
#include <vector>

#include "dsl/model.h"
#include "schedules/step_schedule.h"

namespace cryolite {

/// A stage as it is written: "d(h.*.mlp)".
struct StageText {
    enum Kind { value, derivative, next, pass, gradients } kind = value;
    std::string name{};
    size_t at = 0;  ///< where the name begins
    int call = 0;   ///< "name[2]": of the second call; 0: of all
};

/// The names of a model's layers and parameters. Layers that operators make have none that a line could have.
class LineNames {
public:
    explicit LineNames(Model &net);

    struct Found {
        Stage stage;
        std::vector<std::string> stars;
    };
    /// The stages that a text names, none twice.
    std::vector<Found> find(const StageText &text) const;
    /// How often the model calls a layer.
    int calls(const Layer *h) const;
    /// What somebody may have meant by a name that there is not: "near it are ...", or, where it is one of C++
    /// ("net.up.W"), the name that the text has for it.
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
