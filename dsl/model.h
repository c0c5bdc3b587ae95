#pragma once
// A model: layers, how they are connected, and the parameters of its generator program.

#include <memory>
#include <string>
#include <vector>

#include "dsl/layer.h"
#include "dsl/losses/cross_entropy.h"
#include "dsl/losses/mean_squared_error.h"

namespace cryolite {

/// A parameter of a generator program: a member of a model, a flag of the command, a constant to the compiler.
/// `T` is int (from 1 on: 0 has no meaning as an extent or a count), float or bool. It takes its value from the
/// program's arguments when it is constructed.
template <typename T> class GeneratorParam {
    static_assert(std::is_same_v<T, int> || std::is_same_v<T, float> || std::is_same_v<T, bool>,
                  "a GeneratorParam is an int, from 1 on, a float or a bool");

public:
    GeneratorParam(const std::string &name, T value, const std::string &help = "");
    operator T() const { return value_; }

private:
    T value_;
};

template <> GeneratorParam<int>::GeneratorParam(const std::string &, int, const std::string &);
template <> GeneratorParam<float>::GeneratorParam(const std::string &, float, const std::string &);
template <> GeneratorParam<bool>::GeneratorParam(const std::string &, bool, const std::string &);

/// What a generator program was asked for, while its model is constructed.
struct Arguments {
    struct Known {
        std::string name, type, value, help;
    };
    std::vector<std::pair<std::string, std::string>> given;  ///< name, text
    std::vector<Known> known;                                ///< every GeneratorParam constructed so far

    /// The text given for a parameter, or its default.
    std::string take(const std::string &name, const std::string &type, const std::string &value,
                     const std::string &help);
    static Arguments &current();
};

class Model {
public:
    Model() = default;
    Model(const Model &) = delete;
    virtual ~Model() = default;

    /// What it reads: "tokens" ([context, batch] int32) or "features" ([..., batch] float32).
    virtual std::string task() const = 0;
    virtual Tensor input(Graph &g) = 0;
    virtual Tensor targets(Graph &g) = 0;
    /// The model's output: [classes, ...rows].
    virtual Tensor forward(Tensor x) = 0;
    virtual Tensor loss(Tensor y, Tensor targets) = 0;

    /// The number format of the layers' values; `layer.numerics(...)` makes an exception.
    void numerics(Format f) { format_ = f; }
    Format format() const { return format_; }

private:
    Format format_ = fp32;
};

/// A model of text: predicts the next token at every position.
struct TextModel : Model {
    GeneratorParam<int> batch{"batch", 12, "sequences in a micro-batch"};
    GeneratorParam<int> context{"context", 64, "tokens in a sequence"};
    GeneratorParam<int> vocab{"vocab", 65, "size of the vocabulary"};

    std::string task() const override { return "tokens"; }
    Tensor input(Graph &g) override { return g.input("tokens", {context, batch}, Halide::Int(32)); }
    Tensor targets(Graph &g) override { return g.input("targets", {context, batch}, Halide::Int(32)); }

    CrossEntropy criterion{"loss"};
    Tensor loss(Tensor y, Tensor targets) override { return criterion(y, targets); }
};

/// A model of the rows of a table, given as [...features, batch].
struct TableModel : Model {
    GeneratorParam<int> batch{"batch", 32, "rows in a micro-batch"};

    /// Shape of one example.
    virtual Shape features() const = 0;
    std::string task() const override { return "features"; }
    Tensor input(Graph &g) override {
        std::vector<int> e = features().extents();
        e.push_back(batch);
        return g.input("features", Shape(e), Halide::Float(32));
    }
};

/// A classifier: one label for each row, the last column of a table. Its output: [classes, batch].
struct Classifier : TableModel {
    GeneratorParam<int> classes{"classes", 10, "number of labels"};

    Tensor targets(Graph &g) override { return g.input("targets", {batch}, Halide::Int(32)); }

    CrossEntropy criterion{"loss"};
    Tensor loss(Tensor y, Tensor targets) override { return criterion(y, targets); }
};

/// Predicts numbers from each row: the last columns of a table, unscaled. Its output: [outputs, batch].
struct Regressor : TableModel {
    GeneratorParam<int> outputs{"outputs", 1, "numbers to predict for each row: the last columns of a table"};

    Tensor targets(Graph &g) override { return g.input("targets", {outputs, batch}, Halide::Float(32)); }

    MeanSquaredError criterion{"loss"};
    Tensor loss(Tensor y, Tensor targets) override { return criterion(y, targets); }
};

}  // namespace cryolite
