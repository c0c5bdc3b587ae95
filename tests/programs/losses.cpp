// A model of text whose loss is one of several, for tests of evaluation.

#include "generators/cryolite.h"

using namespace cryolite;

/// loss = mean over rows of sum_v (x(v) - [v = target])^2.
struct SquaredError : Layer2 {
    using Layer2::Layer2;
    int input_rank(int k) const override { return k == 0 ? 2 : 1; }
    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &) const override { return {1}; }
    bool mean_of_rows() const override { return true; }

    Func forward(Array x, Array target) override {
        Func loss("loss"), of_row("of_row");
        Var r("r"), u("u");
        RDom v(0, x.extent(0), "v"), m(0, x.extent(1), "m");
        of_row(r) += error(x, target, v, r) * error(x, target, v, r);
        loss(u) += of_row(m) / x.extent(1);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input(0), target = call.input(1);
        Var v("v"), r("r");
        d(x)(v, r) = 2 * error(x, target, v, r) * dy(0) / x.extent(1);
    }

private:
    static Expr error(const Array &x, const Array &target, Expr v, Expr r) {
        return x(v, r) - select(target(r) == v, 1.0f, 0.0f);
    }
};

/// The same, of which nothing is said.
struct Undeclared : SquaredError {
    using SquaredError::SquaredError;
    bool mean_of_rows() const override { return false; }
};

/// y(c, b) = sum over t of x(c, t, b): a row for each example.
struct Pool : Layer {
    using Layer::Layer;
    int rank() const override { return 3; }
    int output_rank() const override { return 2; }
    Shape shape(const Shape &x) const override { return {x[0], x[2]}; }
    Func forward(Array x) override {
        Func y("y");
        Var c("c"), b("b");
        RDom t(0, x.extent(1), "t");
        y(c, b) += x(c, t, b);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Var c("c"), t("t"), b("b");
        d(call.input())(c, t, b) = dy(c, b);
    }
};

/// loss = mean over rows of sum_c x(c)^2.
struct Squares : Layer {
    using Layer::Layer;
    int output_rank() const override { return 1; }
    Shape shape(const Shape &) const override { return {1}; }
    bool mean_of_rows() const override { return true; }
    Func forward(Array x) override {
        Func loss("loss"), of_row("of_row");
        Var r("r"), u("u");
        RDom c(0, x.extent(0), "c"), m(0, x.extent(1), "m");
        of_row(r) += x(c, r) * x(c, r);
        loss(u) += of_row(m) / x.extent(1);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Var c("c"), r("r");
        d(x)(c, r) = 2 * x(c, r) * dy(0) / x.extent(1);
    }
};

struct Losses : TextModel {
    static constexpr int width = 16;
    GeneratorParam<int> kind{
        "kind", 1,
        "1 cross-entropy, 2 and 0.3 of another head's, 3 squared, 4 with one of examples, 5 undeclared, "
        "6 rows that count differently, 7 and 0.3 of another head's, 8 a head learns from another, "
        "9 numbers of which some count nothing, 10 cross-entropy, with metrics"};
    Embedding token{"token", vocab, width};
    Linear head{"head", width, vocab};
    std::optional<Linear> other, single;
    CrossEntropy of_other{"other_loss"};
    SquaredError squared{"squared"};
    Undeclared undeclared{"undeclared"};
    Pool pool{"pool"};
    Squares squares{"squares"};
    CrossEntropy weighed{"weighed", {.ignored = 3, .smoothing = 0.1, .class_weights = weights_of(vocab)}};
    Huber huber{"huber", 0.25};
    BinaryCrossEntropy yes_or_no{"yes_or_no"};
    Distillation taught{"taught", 2};
    Huber masked_huber{"masked_huber", 0.25, {.ignored = 3}};
    BinaryCrossEntropy masked_yes_or_no{"masked_yes_or_no", {.ignored = 3}};
    MeanSquaredError masked_squared{"masked_squared", {.ignored = 3}};
    Distillation masked_taught{"masked_taught", 2, {.ignored = 3}};
    Accuracy accuracy{"accuracy"};
    std::optional<Tensor> hidden;

    Losses() {
        if (kind == 2 || (kind >= 7 && kind < 10)) other.emplace("other", width, vocab);
        if (kind == 9) single.emplace("single", width, 1);
    }
    static std::vector<float> weights_of(int classes) {
        std::vector<float> w;
        for (int v = 0; v < classes; v++) w.push_back(0.5f + 0.25f * float(v % 5));
        return w;
    }
    Tensor forward(Tensor tokens) override {
        hidden = token(tokens);
        return head(*hidden);
    }
    Tensor loss(Tensor y, Tensor targets) override {
        switch (kind) {
        case 2:
            return criterion(y, targets) + 0.3 * of_other((*other)(*hidden), targets);
        case 3:
            return squared(y, targets);
        case 4:
            return criterion(y, targets) + squares(pool(y));
        case 5:
            return undeclared(y, targets);
        case 6:
            return weighed(y, targets);
        case 7:
            return weighed(y, targets) + 0.3 * of_other((*other)(*hidden), targets);
        case 8: {
            const Tensor z = (*other)(*hidden);
            return criterion(z, targets) + taught(y, z) + huber(y, z) + yes_or_no(y, z);
        }
        case 9: {
            const Tensor z = (*other)(*hidden), x = reshape((*single)(*hidden), targets.shape());
            return masked_taught(y, z, targets) + masked_huber(x, targets) + 0.5 * masked_yes_or_no(x, targets) +
                   masked_squared(x, targets) + criterion(z, targets);
        }
        case 10:
            metric("accuracy", accuracy(y, targets));
            metric("size", squares(pool(y)));
            return criterion(y, targets);
        default:
            return criterion(y, targets);
        }
    }
};

void schedule(Losses &, Step &s) {
    for (Form form : {Form::forward, Form::d_input}) {
        s.loops<SquaredError>(form, plain_loops), s.loops<Undeclared>(form, plain_loops);
        s.loops<Pool>(form, plain_loops), s.loops<Squares>(form, plain_loops);
    }
}

int main(int argc, char **argv) { return program<Losses, schedule>(argc, argv, {"losses"}); }
