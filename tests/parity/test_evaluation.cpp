// The loss of a padded batch: that of its examples alone, for any loss, against sums of doubles.

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

constexpr int context = 12, width = 16, batch = 4;

struct Case {
    Case(int kind, const std::string &flags = "", int examples = batch, int workers = 1, int classes = 11)
        : vocab(classes), bundle(compile_program("tests/losses",
                                 fmt::format("--param kind={} --param vocab={} --param context={} --param batch={} --workers {} {}", kind, vocab,
                                             context, examples / workers, workers, flags),
                                 folder / "bundle")),
          devices(workers), trainer(bundle, pointers(), processes()) {
        for (const PlanBuffer &b : trainer.plan().buffers) {
            if (b.role != "parameter") continue;
            std::vector<float> &w = weights[b.name];
            for (int64_t i = 0; i < b.elements(); i++) w.push_back(5 * formula_weight(b.name, uint64_t(i)));
            trainer.put(trainer.plan().find("parameter", b.name), w);
        }
        for (int i = 0; i < examples * context; i++) {
            data.tokens.push_back(int32_t(formula_bits("tokens", uint64_t(i)) % vocab));
            data.targets.push_back(int32_t(formula_bits("targets", uint64_t(i)) % vocab));
        }
    }
    std::vector<Device *> pointers() {
        std::vector<Device *> list;
        for (auto &d : devices) list.push_back((d = make_device("cpu", 1)).get());
        return list;
    }
    /// A head's output for a row.
    std::vector<double> logits(const std::string &head, int row) const {
        const std::vector<float> &W = weights.at(head + ".weight"), &b = weights.at(head + ".bias"), &table = weights.at("token.weight");
        std::vector<double> y(b.begin(), b.end());
        for (int i = 0; i < width; i++)
            for (int o = 0; o < vocab; o++) y[size_t(o)] += double(W[size_t(i * vocab + o)]) * table[size_t(data.tokens[size_t(row)] * width + i)];
        return y;
    }

    const int vocab;
    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::vector<std::unique_ptr<Device>> devices;
    Trainer trainer;
    Batch data;
    std::map<std::string, std::vector<float>> weights;
};

double cross_entropy(const Case &c, const std::string &head, int examples) {
    double total = 0;
    for (int r = 0; r < examples * context; r++) {
        const std::vector<double> y = c.logits(head, r);
        double sum = 0;
        for (double v : y) sum += std::exp(v);
        total += std::log(sum) - y[size_t(c.data.targets[size_t(r)])];
    }
    return total / (examples * context);
}

double squared(const Case &c, int examples) {
    double total = 0;
    for (int r = 0; r < examples * context; r++) {
        const std::vector<double> y = c.logits("head", r);
        for (int v = 0; v < c.vocab; v++) total += std::pow(y[size_t(v)] - (v == c.data.targets[size_t(r)]), 2);
    }
    return total / (examples * context);
}

/// Of the sums over an example's rows.
double squares(const Case &c, int examples) {
    double total = 0;
    for (int e = 0; e < examples; e++) {
        std::vector<double> sums(size_t(c.vocab));
        for (int t = 0; t < context; t++) {
            const std::vector<double> y = c.logits("head", e * context + t);
            for (size_t v = 0; v < sums.size(); v++) sums[v] += y[v];
        }
        for (double s : sums) total += s * s;
    }
    return total / examples;
}

double expected(const Case &c, int kind, int examples) {
    switch (kind) {
    case 2: return cross_entropy(c, "head", examples) + 0.3 * cross_entropy(c, "other", examples);
    case 3: return squared(c, examples);
    case 4: return cross_entropy(c, "head", examples) + squares(c, examples);
    default: return cross_entropy(c, "head", examples);
    }
}

void check(Case &c, int kind) {
    CAPTURE(kind);
    double before = 0;
    for (int examples = 1; examples <= batch; examples++) {
        CAPTURE(examples);
        const double loss = c.trainer.evaluate(c.data, examples);
        CHECK(loss == doctest::Approx(expected(c, kind, examples)).epsilon(2e-6));
        CHECK(std::abs(loss - before) > 1e-4 * loss);  // each of them counts
        before = loss;
    }
}

}  // namespace

TEST_CASE("evaluation: cross-entropy, a weighted sum of two losses, one of a program's own, one with fewer rows") {
    for (int kind : {1, 2, 3, 4}) {
        Case c(kind);
        check(c, kind);
    }
}

TEST_CASE("evaluation: the head in blocks of rows") {
    for (int kind : {1, 3}) {
        Case c(kind, "--head-rows 32");
        REQUIRE(c.trainer.plan().plans.contains("predict"));  // it is
        check(c, kind);
    }
}

TEST_CASE("evaluation: two workers, whoever has the padding") {
    for (int kind : {2, 3}) {
        Case c(kind, "", batch, 2);
        check(c, kind);
    }
}

TEST_CASE("evaluation: in bf16 the loss of some examples is that of a batch of so many" * slow()) {
    for (int kind : {1, 2, 3}) {
        CAPTURE(kind);
        Case four(kind, "--precision bf16", batch, 1, 16), two(kind, "--precision bf16", 2, 1, 16);
        const double loss = four.trainer.evaluate(four.data, 2);
        CHECK(loss == doctest::Approx(two.trainer.evaluate(two.data, 2)).epsilon(1e-6));
        CHECK(loss == doctest::Approx(expected(four, kind, 2)).epsilon(1e-2));
    }
}

TEST_CASE("evaluation: of a loss that may need all rows together whole batches are evaluated, others refused by its name") {
    Case c(5);
    CHECK(c.trainer.evaluate(c.data, batch) == doctest::Approx(squared(c, batch)).epsilon(2e-6));
    CHECK_ERROR(c.trainer.evaluate(c.data, 3),
                "3 of the 4 examples of a batch cannot be evaluated: 'undeclared' (Undeclared) may make its number of all rows together: "
                "where it is the mean over the rows of its inputs of what each makes, let its mean_of_rows() return true");
    Case two(5, "", batch, 2);
    two.trainer.check_examples(2);  // the other worker has nothing but padding
    CHECK_ERROR(two.trainer.check_examples(3), "'undeclared' (Undeclared)");
}

}  // namespace cryolite::test
