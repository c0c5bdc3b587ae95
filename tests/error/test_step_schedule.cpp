// Which lines of a step schedule are legal, but those of updates (test_updates.cpp): each refusal beside the nearest
// line that is accepted.

#include "generators/ir/printer.h"
#include "tests/support/chain.h"

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
    refused([](Chain &c, Step &s) { s(c.relu).compute_at(c.relu); },
            "s(relu).compute_at(relu) is refused: it is the same stage; the nearest legal line is "
            "s(relu).compute_root()");
    accepted([](Chain &c, Step &s) { s(c.relu).compute_with(c.up); });
    accepted([](Chain &c, Step &s) { s(c.relu).compute_at(c.norm); });
    // Beside it would not be legal either.
    refused([](Chain &c, Step &s) { s(c.head).compute_at(c.after); },
            "s(head).compute_at(after) is refused: it is a result of the model; the nearest legal line is "
            "s(head).compute_root()");
}

TEST_CASE("a value that is never stored is computed again from what the backward pass has") {
    Lines from_stored = [](Chain &c, Step &s) { s(c.relu).compute_at(c.norm); };
    accepted(from_stored);
    refused([&](Chain &c, Step &s) { from_stored(c, s), s(c.up).store_at(forward); },
            "s(relu).compute_at(norm) is refused: 'd(relu)' computes it again, from 'up', which is gone after the "
            "forward pass; the nearest legal line is s(relu).compute_root()");
    accepted([&](Chain &c, Step &s) { from_stored(c, s), s(c.up).store_at(forward), s(c.relu).store_at(forward); });
    accepted([](Chain &c, Step &s) { s(c.up).store_at(forward); });
}

TEST_CASE("two layers that own loop nests do not share one") {
    auto direct = [](Direct &c, Step &s) { s(c.down).compute_at(c.up); };
    CHECK(error_of([&] {
              Compiled<Direct>({{"batch", "3"}}, direct);
          }) == "s(down).compute_at(up) is refused: both own a loop nest, as every layer does whose nature() is not "
                "pointwise or rowwise; "
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
            "s(head).compute_with(after) is refused: both own a loop nest");
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
    refused([](Chain &c, Step &s) { s(c.up).where_legal(); }, "s(up).where_legal() says nothing yet");
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
              .find("s(head).compute_at(loss, 40) is refused: blocks begin where kernels can, at multiples of 32 rows; "
                    "the nearest legal "
                    "line is s(head).compute_at(loss, 32)") != std::string::npos);
    CHECK(message("70", [&](Chain &c, Step &s) { lines(c, s), s(d(c.head.W)).compute_at(next(c.head.W)); })
              .find("s(d(head.weight)).compute_at(next(head.weight)) is refused: the head's rows come in blocks of 32, "
                    "and the gradient "
                    "is the sum of theirs; the nearest legal line is s(d(head.weight)).compute_root()") !=
          std::string::npos);
    CHECK(message("70", [](Chain &c, Step &s) { s(d(c.head.W)).compute_at(next(c.head.W)); }) == "");
    CHECK(error_of([] {
              Compiled<Mixed>({{"batch", "70"}}, [](Mixed &m, Step &s) { s(m.mix).compute_at(m.criterion, 32); });
          })
              .find("s(mix).compute_at(loss, 32) is refused: its rows depend on each other (Layer::by_rows); the "
                    "nearest legal line "
                    "is s(mix).compute_root()") != std::string::npos);
}

}  // namespace cryolite::test
