#pragma once
// What a generator program says of itself when it is asked (PROGRAM --describe): the command knows nothing else of
// any program.

#include <map>
#include <string>
#include <vector>

#include "bundle/range.h"

namespace cryolite {

/// How files of other programs hold the model's weights: what --init understands and what a run's config.json says.
/// Empty: they have the model's own names.
struct WeightFiles {
    /// An extent of a tensor that follows from a parameter of the model.
    struct Extent {
        std::string param, tensor;
        int dimension = 0;     ///< outermost first, as in the file
        bool decides = false;  ///< the file decides the parameter, where it is not given
    };
    /// Layers that are numbered from 0: of each there is a tensor of this name, with the number for '#'.
    struct Numbered {
        std::string param, tensor;
    };

    std::string prefix = "";                ///< that names may have: "transformer."
    std::vector<std::string> ignored = {};  ///< endings of names that are no weights of the model
    std::map<std::string, std::string> repeats =
        {};  ///< tensors that have to be equal to another one, and are not read
    std::vector<Extent> extents = {};
    std::vector<Numbered> numbered = {};
    /// JSON, in which "$width" stands for a parameter of the model, and "$end_of_text" for the tokenizer's last token.
    std::string config = "";
};

struct ProgramDescription {
    struct Param {
        std::string name, type, value, help;  ///< type: int or float; value: the default, as text
    };
    /// A number of an optimizer's rule, given at run time.
    struct Number {
        std::string name;
        double value = 0;  ///< where none is given
        RealRange range = {};
        std::string help;
    };
    struct Rule {
        std::string name;
        std::vector<Number> numbers;
        const Number *find(const std::string &number) const;
    };

    std::string name;
    std::string task;                 ///< what it reads: tokens or features
    std::string targets = "classes";  ///< of each row: classes (tokens are such, too) or numbers
    std::string optimizer;            ///< its own
    std::vector<Rule> optimizers = {};
    std::vector<Param> params = {};
    /// The flags that each sets; the first one is used where none is given.
    std::vector<std::pair<std::string, std::map<std::string, std::string>>> presets = {};
    WeightFiles weights = {};
    std::string peer = "";  ///< the script of apps/cryolite/peers that does the same work

    /// Null: it has none of this name.
    const Rule *rule(const std::string &optimizer) const;
    std::vector<std::string> optimizer_names() const;
};

/// One line of JSON.
std::string description_json(const ProgramDescription &description);
/// Throws std::exception: not JSON, or not of this form, or a name that can be no flag; the message says which.
ProgramDescription read_description(const std::string &text);

}  // namespace cryolite
