// Which lines of a step schedule are legal, but those of updates (test_updates.cpp): each refusal beside the nearest
// line that is accepted.

#include "dsl/layers/batch_norm.h"
#include "dsl/layers/dropout.h"
#include "dsl/models/digits.h"
#include "generators/ir/printer.h"
#include "tests/support/chain.h"
#include "tests/support/kernels.h"

namespace cryolite::test {

namespace {

struct Behind : Classifier {
    Linear up{"up", 5, classes};
    LayerNorm norm{"norm", classes};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return norm(up(x)); }
};

}  // namespace

TEST_CASE("compute_at: a result that others read must be stored") {
    refused(
        [](Chain &c, Step &s) { s(c.relu).compute_at(c.relu); },
        "s(relu).compute_at(relu) is refused: a stage cannot be placed at or with itself; the nearest legal line is "
        "s(relu).compute_root()");
    accepted([](Chain &c, Step &s) { s(c.relu).compute_with(c.up); });
    accepted([](Chain &c, Step &s) { s(c.relu).compute_at(c.norm); });
    // Beside it would not be legal either.
    refused([](Chain &c, Step &s) { s(c.head).compute_at(c.after); },
            "s(head).compute_at(after) is refused: the model returns it, as its output, loss or metric, so it must be "
            "stored; the nearest legal line is "
            "s(head).compute_root()");
}

TEST_CASE("a value that is never stored is computed again from what the backward pass has") {
    Lines from_stored = [](Chain &c, Step &s) { s(c.relu).compute_at(c.norm); };
    accepted(from_stored);
    refused([&](Chain &c, Step &s) { from_stored(c, s), s(c.up).store_at(forward); },
            "s(relu).compute_at(norm) is refused: 'd(relu)' would have to compute it again from 'up', which is not "
            "kept after the forward pass; the nearest legal line is s(relu).compute_root()");
    accepted([&](Chain &c, Step &s) { from_stored(c, s), s(c.up).store_at(forward), s(c.relu).store_at(forward); });
    accepted([](Chain &c, Step &s) { s(c.up).store_at(forward); });
}

TEST_CASE("where_legal: a line whose source is gone is left out with a note, and is met where the source stays") {
    const Lines from_stored = [](Chain &c, Step &s) { s(c.relu).compute_at(c.norm).where_legal(); };
    {
        Compiled<Chain> gone({{"batch", "3"}},
                             [&](Chain &c, Step &s) { from_stored(c, s), s(c.up).store_at(forward); });
        const ir::Line &line = gone.program.lines.front();
        CHECK(line.verdict.is == ir::Verdict::left_out);
        CHECK(line.verdict.rule == "source-gone");
        CHECK(gone.kernel("forward", "relu") != gone.kernel("forward", "norm"));
        for (const ir::Op &op : gone.program.ops)
            if (op.name == "relu") {
                CHECK(op.why.find(
                          "s(relu).compute_at(norm) is left out: 'd(relu)' would have to compute it again from 'up'") !=
                      std::string::npos);
                CHECK(gone.program.values[op.writes[0].value].stored);
            }
        gone.keys();  // its kernels can be built
    }

    Compiled<Chain> there({{"batch", "3"}}, from_stored);
    CHECK(there.program.lines.front().verdict.is == ir::Verdict::legal);
    CHECK(there.kernel("forward", "relu") == there.kernel("forward", "norm"));
}

namespace {

/// A pointwise layer whose gradient does not read its input, between a product and one whose gradient does.
struct Dropped : Classifier {
    Linear up{"up", 5, 7}, head{"head", 7, classes};
    Dropout drop{"drop", 0.5};
    Relu relu{"relu"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(relu(drop(up(x)))); }
};

/// What is multiplied with a product of itself.
struct Around : Classifier {
    Linear up{"up", 5, 7}, mid{"mid", 7, 7}, head{"head", 7, classes};
    Relu relu{"relu"};
    SwiGLU gate{"gate"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override {
        const Tensor h = relu(up(x));
        return head(gate(h, mid(h)));
    }
};

/// Sums, which no line can name, behind a product: one reader's gradient reads the sum, that of the other does not.
struct Sums : Classifier {
    Linear first{"first", 5, 7}, up{"up", 7, 7}, down{"down", 7, 7}, head{"head", 7, classes};
    Gelu gelu{"gelu"};
    Dropout drop{"drop", 0.5};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override {
        const Tensor y = first(x), z = gelu(y + up(y));
        return head(drop(z + down(z)));
    }
};

template <typename M> std::string said_of(const std::function<void(M &, Step &)> &lines) {
    return error_of([&] { Compiled<M>({{"batch", "3"}}, lines); });
}

}  // namespace

TEST_CASE("a value that is computed again has sources that are stored") {
    CHECK(said_of<Dropped>([](Dropped &c, Step &s) { s(c.up).compute_at(c.drop); }) == "");
    CHECK(said_of<Dropped>([](Dropped &c, Step &s) { s(c.up).compute_with(c.drop), s(c.drop).compute_at(c.relu); }) ==
          "");
    CHECK(said_of<Dropped>([](Dropped &c, Step &s) { s(c.up).compute_at(c.drop), s(c.drop).compute_at(c.relu); }) ==
          "s(drop).compute_at(relu) is refused: 'd(drop)' would have to compute it again from 'up', which is never "
          "stored; the "
          "nearest legal line is s(drop).compute_root()");
    CHECK(said_of<Dropped>([](Dropped &c, Step &s) { s(c.drop).compute_at(c.relu), s(c.up).compute_at(c.drop); }) ==
          "s(up).compute_at(drop) is refused: 'd(drop)' reads it too, in another kernel, so it must be stored; the "
          "nearest legal line is "
          "s(up).compute_with(drop)");
}

TEST_CASE("a kernel does not come before and after another") {
    CHECK(said_of<Around>([](Around &c, Step &s) { s(c.gate).compute_with(c.relu); }) ==
          "s(gate).compute_with(relu) is refused: 'mid' must run after one of the two stages and before the other, so "
          "one kernel cannot hold both; the nearest "
          "legal line is s(gate).compute_root()");
    CHECK(said_of<Around>([](Around &c, Step &s) { s(c.gate).compute_with(c.mid); }) == "");
}

namespace {

struct Normed : Classifier {
    Linear up{"up", 5, 7}, head{"head", 7, classes};
    BatchNorm norm{"norm", 7};
    Relu relu{"relu"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(relu(norm(up(x)))); }
};

}  // namespace

TEST_CASE("a layer's result does not wait for a pass, as an update may") {
    refused([](Chain &c, Step &s) { s(c.relu).compute_at(forward); },
            "s(relu).compute_at(forward) is refused: only an update can be placed at a pass, as in "
            "s(next(w)).compute_at(forward); the "
            "nearest legal line is s(relu).compute_root()");
    accepted([](Chain &c, Step &s) { s(next(c.up.W)).compute_at(forward); });
}

TEST_CASE("of a layer of several, the one that the stage stands by is named") {
    CHECK(said_of<Normed>([](Normed &m, Step &s) { s(m.relu).compute_with(m.norm); }) ==
          "s(relu).compute_with(norm) is refused: neither of the two reads the other; of the layers of 'norm', "
          "'norm.rescaled' does; the nearest legal line is s(relu).compute_root()");
    CHECK(said_of<Normed>([](Normed &m, Step &s) { s(m.relu).compute_with(m.norm.rescaled); }) == "");
}

TEST_CASE("what reads a sum shares the kernel that the sum is in, and a sum that nobody else reads is not stored") {
    CHECK(said_of<Sums>([](Sums &m, Step &s) { s(m.drop).compute_at(m.down); }) ==
          "s(drop).compute_at(down) is refused: neither of the two reads the other; the nearest legal line is "
          "s(drop).compute_root()");
    const Compiled<Sums> c({{"batch", "3"}}, [](Sums &m, Step &s) {
        s(m.gelu).compute_with(m.up);
        s(m.drop).compute_with(m.down);
    });
    const auto stores_sum = [&](const char *reader) {
        for (OpId id : c.program.kernels[c.kernel("forward", reader)].ops)
            if (c.program.ops[id].name == "add") return c.program.values[c.program.ops[id].writes[0].value].stored;
        fail("'{}' shares no kernel with a sum", reader);
    };
    CHECK(c.kernel("forward", "gelu") == c.kernel("forward", "up"));
    CHECK(stores_sum("gelu"));
    CHECK(c.kernel("forward", "drop") == c.kernel("forward", "down"));
    CHECK_FALSE(stores_sum("drop"));
    check_kernels(c);
}

TEST_CASE("stages of a kernel see a value in as many dimensions") {
    CHECK(said_of<Digits>([](Digits &c, Step &s) { s(c.flatten).compute_with(c.pool2); }) ==
          "s(flatten).compute_with(pool2) is refused: 'pool2' sees 'pool2' in 4 dimensions, and another stage of the "
          "kernel in 1; "
          "the nearest legal line is s(flatten).compute_root()");
    CHECK(said_of<Digits>([](Digits &c, Step &s) { s(c.relu2).compute_with(c.conv2); }) == "");
}

TEST_CASE("two layers that own loop nests do not share one") {
    auto direct = [](Direct &c, Step &s) { s(c.down).compute_at(c.up); };
    CHECK(error_of([&] {
              Compiled<Direct>({{"batch", "3"}}, direct);
          }) == "s(down).compute_at(up) is refused: both stages own a loop nest, and a kernel has only one (a layer "
                "owns one unless its nature() is pointwise or rowwise); "
                "the nearest legal line "
                "is s(down).compute_root()");
    accepted([](Chain &c, Step &s) { s(c.relu).compute_with(c.up); });
}

TEST_CASE("a norm needs whole rows, a product makes tiles") {
    auto direct = [](Behind &c, Step &s) { s(c.norm).compute_with(c.up); };
    CHECK(error_of([&] {
              Compiled<Behind>({{"batch", "3"}}, direct);
          }) == "s(norm).compute_with(up) is refused: 'norm' needs whole rows of a result that is "
                "made in tiles; the "
                "nearest legal line is s(norm).compute_root()");
    accepted([](Chain &c, Step &s) { s(c.norm).compute_with(c.relu); });
    accepted([](Chain &c, Step &s) { s(c.norm).compute_at(c.down); });
}

TEST_CASE("what a stage has been joined with comes along") {
    refused([](Chain &c, Step &s) { s(c.relu).compute_with(c.up), s(c.norm).compute_with(c.relu); },
            "s(norm).compute_with(relu) is refused: 'norm' needs whole rows of a result that is "
            "made in tiles");
    refused([](Chain &c, Step &s) { s(c.after).compute_with(c.down), s(c.head).compute_with(c.after); },
            "s(head).compute_with(after) is refused: both stages own a loop nest, and a kernel has only one");
    accepted([](Chain &c, Step &s) { s(c.after).compute_with(c.down), s(c.norm).compute_at(c.down); });
}

TEST_CASE("a prologue is not stored from the loops that read it") {
    refused([](Chain &c, Step &s) { s(c.norm).compute_with(c.down); },
            "s(norm).compute_with(down) is refused: the loops of 'down' read it many times, and "
            "cannot store it");
    accepted([](Chain &c, Step &s) { s(c.norm).compute_at(c.down); });
}

TEST_CASE("a line between stages that have nothing to do with each other") {
    refused([](Chain &c, Step &s) { s(c.relu).compute_at(c.head); },
            "s(relu).compute_at(head) is refused: neither of the two reads the other; the nearest "
            "legal line is "
            "s(relu).compute_root()");
    refused([](Chain &c, Step &s) { s(c.relu).compute_at(next(c.up.W)); }, "neither of the two reads the other");
    accepted([](Chain &c, Step &s) { s(d(c.relu)).compute_at(d(c.up)); });
}

namespace {
const ir::Line &first_line(const StepProgram &p) { return p.lines.front(); }
}  // namespace

TEST_CASE("where_legal: a line that a flag makes illegal is left out with a note, and is met without the flag") {
    auto plain = [](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); };
    auto ended = [](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)).where_legal(); };
    const std::vector<std::pair<std::string, std::string>> three = {{"batch", "3"}};
    {
        Compiled<Chain> without(three, ended);
        CHECK(without.kernel("step", "d(up.weight)") == without.kernel("step", "next(up.weight)"));
        CHECK(first_line(without.program).verdict.is == ir::Verdict::legal);
        CHECK(ir::lines_of(without.program)
                  .starts_with("s(d(up.weight)).compute_at(next(up.weight)).where_legal();  //"));
    }

    struct Way {
        std::string rule;
        StepOptions options;
        Format format = fp32;
    };
    for (const Way &way :
         {Way{"norm-of-sum", {.clip = true, .accumulate = true}}, Way{"not-known-finite", {.accumulate = true}, bf16},
          Way{"sum-of-workers", {.workers = 2}}, Way{"frozen", {.freeze = {"up.weight"}}}}) {
        CAPTURE(way.rule);
        CHECK_ERROR(Compiled<Chain>(three, plain, way.options, way.format),
                    "s(d(up.weight)).compute_at(next(up.weight)) is refused: ");
        Compiled<Chain> c(three, ended, way.options, way.format);
        CHECK(first_line(c.program).verdict.is == ir::Verdict::left_out);
        CHECK(first_line(c.program).verdict.rule == way.rule);
        CHECK(ir::lines_of(c.program).find(fmt::format(": left out [{}], ", way.rule)) != std::string::npos);
        for (const ir::Op &op : c.program.ops)
            if (op.name == "next(up.weight)" && way.options.workers == 1)
                CHECK(op.why.find("s(d(up.weight)).compute_at(next(up.weight)) is left out: ") != std::string::npos);
    }
}

TEST_CASE("where_legal: lines of layers, of dialects and of the head") {
    Compiled<Chain> c({{"batch", "3"}}, [](Chain &c, Step &s) {
        s(c.norm).compute_with(c.down).where_legal();
        s(c.relu).compute_with(c.up).where_legal();
        s(c.relu).dialect(onednn).where_legal();
        s(c.head).compute_at(c.criterion, 33).where_legal();
    });
    CHECK(c.kernel("forward", "norm") != c.kernel("forward", "down"));
    CHECK(c.kernel("forward", "relu") == c.kernel("forward", "up"));
    CHECK(c.program.chunks.rows == 0);
    std::vector<std::string> rules;
    for (const ir::Line &l : c.program.lines) rules.push_back(l.verdict.rule);
    CHECK(rules == std::vector<std::string>{"prologue-is-not-stored", "", "blocks-begin", "no-product"});
    // What no flag makes legal stays an error.
    refused([](Chain &c, Step &s) { s(d(c.up.W)).store_at(forward).where_legal(); },
            "only a layer's output is saved for the backward pass");
    refused([](Chain &c, Step &s) { s(c.up).where_legal(); },
            "s(up).where_legal() places nothing: write it at the end of a line");
}

TEST_CASE("lines that are accepted join their stages, a later line of a stage replaces the earlier") {
    Compiled<Chain> c({{"batch", "3"}}, [](Chain &c, Step &s) {
        s(c.relu).compute_with(c.up);
        s(c.after).compute_with(c.down);
        s(c.after).compute_root();
        s(d(c.up.W)).compute_at(next(c.up.W));
    });
    CHECK(c.kernel("forward", "relu") == c.kernel("forward", "up"));
    CHECK(c.kernel("forward", "after") != c.kernel("forward", "down"));
    CHECK(c.kernel("step", "d(up.weight)") == c.kernel("step", "next(up.weight)"));
    CHECK(c.kernel("step", "d(down.weight)") != c.kernel("step", "next(down.weight)"));
    CHECK_FALSE(gradient_of(c.program, c.model->up.W).stored);
    CHECK(gradient_of(c.program, c.model->down.W).stored);
}

namespace {
/// y(i, r) = x(i, r) + x(i, 0): every row reads the first.
struct MixRows : Layer {
    MixRows() : Layer("mix") {}
    Func forward(Array x) override {
        Func y("y");
        Var i("i"), r("r");
        y(i, r) = x(i, r) + x(i, 0);
        return y;
    }
};
struct Mixed : Classifier {
    Linear up{"up", 5, classes};
    MixRows mix;
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return mix(up(x)); }
};
}  // namespace

TEST_CASE("the head goes with the loss by blocks of rows, where rows do not need each other") {
    auto lines = [](Chain &c, Step &s) { s(c.head).compute_at(c.criterion, 32); };
    {
        Compiled<Chain> c({{"batch", "70"}}, lines);
        CHECK(c.program.chunks.rows == 32);
        CHECK(c.program.entries.count("evaluate") + c.program.entries.count("predict") == 2);
        CHECK_FALSE(c.kernel("forward", "head"));
        int logits = 0;
        for (OpId id : c.program.entries.at("step").ops)
            if (const ir::Op &op = c.program.ops[id]; ir::is<ir::Forward>(op) && op.name == "head") {
                CHECK(op.placed == "at loss, 32 rows at a time");
                logits++;
            }
        CHECK(logits == 3);
    }

    auto message = [](const char *batch, const Lines &lines, StepOptions options = {}) {
        return error_of([&] { Compiled<Chain>({{"batch", batch}}, lines, options); });
    };
    CHECK(message("3", lines) == "");  // one block holds all rows
    CHECK(message("70", [](Chain &c, Step &s) { s(c.head).compute_at(c.criterion, 40); })
              .find("s(head).compute_at(loss, 40) is refused: a block must have a multiple of 32 rows, so that every "
                    "block begins where the array of a kernel can; "
                    "the nearest legal "
                    "line is s(head).compute_at(loss, 32)") != std::string::npos);
    CHECK(message("70", [&](Chain &c, Step &s) { lines(c, s), s(d(c.head.W)).compute_at(next(c.head.W)); })
              .find("s(d(head.weight)).compute_at(next(head.weight)) is refused: the head is computed in blocks of 32 "
                    "rows, and the gradient is complete only after the last block; the nearest legal line is "
                    "s(d(head.weight)).compute_root()") != std::string::npos);
    CHECK(message("70", [](Chain &c, Step &s) { s(d(c.head.W)).compute_at(next(c.head.W)); }) == "");
    auto fused = [](Chain &c, Step &s) { s(d(c.after)).compute_with(d(c.down)); };
    CHECK(message("70", fused) == "");
    CHECK(message("70", [&](Chain &c, Step &s) { lines(c, s), fused(c, s); })
              .find("s(d(after)).compute_with(d(down)) is refused: the head is computed in blocks of 32 rows, and "
                    "'d(down)' reads 'd(after)', which has the rows of all blocks; the nearest legal line is "
                    "s(d(after)).compute_root()") != std::string::npos);
    CHECK(error_of([] {
              Compiled<Mixed>({{"batch", "70"}}, [](Mixed &m, Step &s) { s(m.mix).compute_at(m.criterion, 32); });
          })
              .find("s(mix).compute_at(loss, 32) is refused: each row of its result must depend on one row of a single "
                    "input (Layer::by_rows); the "
                    "nearest legal line "
                    "is s(mix).compute_root()") != std::string::npos);
}

}  // namespace cryolite::test
