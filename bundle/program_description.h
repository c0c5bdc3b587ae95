#pragma once
// What a generator program says of itself when it is asked (PROGRAM --describe): the command knows nothing else of
// any program.

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "bundle/range.h"

namespace cryolite {

/// How files of other programs store the model's weights: what --init understands and what a run's config.json says.
/// Empty: they have the model's own names.
struct WeightFiles {
    struct Config {
        /// JSON, in which "$width" stands for a parameter of the model, "$end_of_text" for the tokenizer's last token,
        /// "$width/$heads" for a quotient, {"$tied": {"true": A, "*": B}} for a choice by a parameter, and {"$every":
        /// A} for a list. Everything else has to be the same in a file.
        std::string written = "";
        std::string also = "";  ///< JSON of keys that a file may have, too; empty: none
        std::map<std::string, std::string> otherwise =
            {};                                 ///< of parameters that a file may leave out; "$heads": as that one
        std::vector<std::string> kept = {};     ///< keys that change no number: a run's file keeps those of --init
        std::vector<std::string> ignored = {};  ///< keys that say nothing of the model
        std::map<std::string, std::string> aliases = {};  ///< older names of keys within objects, and their names now
    };
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

    /// Tensors that are parts of one parameter of the model, along its outermost extent, in proportion to parameters:
    /// their names have "q_proj" where the model's has "qkv_proj".
    struct Packed {
        struct Part {
            std::string name, param;
        };
        std::string name;
        std::vector<Part> parts;
    };

    std::string prefix = "";                ///< that names may have: "transformer."
    std::vector<std::string> ignored = {};  ///< endings of names that are no weights of the model
    std::map<std::string, std::string> repeats =
        {};                          ///< tensors that have to be equal to another one, and are not read
    std::string repeats_where = "";  ///< a bool parameter of the model that says whether they repeat; empty: they do
    std::vector<Extent> extents = {};
    std::vector<Numbered> numbered = {};
    std::vector<Packed> packed = {};
    /// The config.json beside the weights: a run writes it, and --init FOLDER reads the model's parameters from it.
    Config config = {};
};

struct ProgramDescription {
    struct Param {
        std::string name, type, value, help;  ///< type: int, float or bool; value: the default, as text
    };
    /// A number of an optimizer's rule, given at run time.
    struct Number {
        std::string name;
        double value = 0;  ///< the default
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
    int64_t columns = 0;              ///< features of a row that it reads, with these parameters; 0: it reads tokens
    int64_t outputs = 0;              ///< numbers that it predicts for a row, where targets are numbers
    std::string optimizer;            ///< the program's own choice
    std::vector<Rule> optimizers = {};
    std::vector<Param> params = {};
    /// The flags that each preset sets; without --preset it is the first.
    std::vector<std::pair<std::string, std::map<std::string, std::string>>> presets = {};
    WeightFiles weights = {};
    std::string peer = "";  ///< the script of apps/cryolite/peers that does the same work
    std::string data = "";  ///< of rows: the data set without --data, such as fashion-mnist; empty: digits

    /// Null: it has none of this name.
    const Rule *rule(const std::string &optimizer) const;
    std::vector<std::string> optimizer_names() const;
};

/// A parameter or number of a program has a name that cannot be a flag; the message says which, and what to do.
struct NameError : std::runtime_error {
    using std::runtime_error::runtime_error;
};
/// The message for a GeneratorParam or Scalar that has the name of a flag. `what`: "the GeneratorParam 'lr'".
std::string taken_name_words(const std::string &what, const std::string &flag, const std::string &help);

/// One line of JSON.
std::string description_json(const ProgramDescription &description);
/// Throws std::exception: not JSON, or not of this form; NameError; the message says which.
ProgramDescription read_description(const std::string &text);

}  // namespace cryolite
