#pragma once
// A random model with a random step schedule, both made of choices (choices.h): the first group decides on the input,
// the head and the losses, every other group on a layer and on the lines of the schedule about it. The model can also
// be written as a user's program.

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "dsl/model.h"
#include "generators/fuzz/choices.h"
#include "schedules/step_schedule.h"

namespace cryolite::fuzz {

class RandomModel : public Model {
public:
    RandomModel();

    std::string task() const override { return kind == text ? "tokens" : "features"; }
    Tensor input(Graph &g) override;
    Tensor targets(Graph &g) override;
    Tensor forward(Tensor x) override;
    Tensor loss(Tensor y, Tensor targets) override;

    /// Writes the lines of its schedule into a step, except those that `without` names.
    void schedule(Step &s);
    /// The model as a program in C++, which `train` takes.
    std::string program() const;
    /// The groups of parameters with a rate or decay of their own that the choices ask for (bundle/param_group.h).
    static std::vector<std::string> param_groups(const std::string &choices);

private:
    enum Kind { text = 1, labels = 2, numbers = 3 };
    GeneratorParam<int> kind{"kind", 1, "1: of tokens, 2: of a table with labels, 3: of a table with numbers"};
    GeneratorParam<int> batch{"batch", 2, "examples in a micro-batch"};
    GeneratorParam<int> context{"context", 5, "tokens in an example"};
    GeneratorParam<int> vocab{"vocab", 19, "tokens, labels or numbers to predict"};
    GeneratorParam<int> columns{"columns", 7, "of a table: numbers in an example"};

    /// One call, which makes a value from earlier values.
    struct Made {
        std::string text;  ///< "l3(v[2])"
        std::function<Tensor(const std::vector<Tensor> &)> make;
        Layer *layer = nullptr;  ///< null: an operator, whose layer the trace makes
        int from = 0;            ///< the value that it reads
    };
    struct Line {
        std::string text;  ///< "s(m.l3).compute_at(m.l4);"
        std::function<void(Step &)> write;
    };
    std::vector<std::unique_ptr<Layer>> layers;
    std::map<const Layer *, std::string> names, declarations;
    std::vector<int> channels;  ///< of every value; the first is the model's input
    std::vector<Made> made;     ///< of every value but the first
    std::vector<Line> lines;
    std::vector<std::string> frozen;
    std::set<int> without;    ///< lines that are left out
    std::vector<Tensor> v;    ///< the values, while the model is traced
    std::vector<Made> terms;  ///< of the loss; while they are traced, the targets are the last of `v`
    Layer *head = nullptr, *criterion = nullptr;
    int output = 0;  ///< the value that the head makes

    template <typename L, typename... Given> L &add(const std::string &type, const std::string &given, Given &&...g);
    int call(Layer &l, int x);
    int call(Layer &l, int x, int y);
    int push(int width, Made m);
    Layer &linear(int in, int out, Choices &c);
    /// An existing layer of this type that reads `width` channels; null: there is none.
    template <typename L> L *known(int width, Choices &c);
    int earlier(int width, Choices &c) const;

    void begin(Choices &c);
    int step(int x, Choices &c);
    int element(int x, int op, Choices &c);
    int block(int x, int op, Choices &c);
    void end(int x, Choices &c);
    void add_terms(int x, Choices &c);
    void freeze_one(Choices &c);
    void line(const std::string &text, std::function<void(Step &)> write);
    void lines_of(int value, Choices &c);
    void lines_of_parameters(Layer &l, Choices &c);
    /// The last parameter before `w` that has as many dimensions; null: there is none.
    const Parameter *alike(const Parameter &w) const;
    std::string parameter_text(const Parameter &w) const;  ///< "m.l3.W"
    /// Which call of its layer the lines about a value name, from 1; 0: all calls. Only a layer that has been called on
    /// several values gets a number.
    int index_of(int value, Choices &c) const;
    std::string value_text(const Layer &l, int call) const;    ///< "m.l3", "Stage(m.l3)[2]"
    std::string adjoint_text(const Layer &l, int call) const;  ///< "d(m.l3)[2]"
    const std::string &name(const Layer &l) const { return names.at(&l); }
};

}  // namespace cryolite::fuzz
