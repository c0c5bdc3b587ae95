// Kernels that a step schedule has joined compute what their stages compute apart.

#include "dsl/layers/layer_norm.h"
#include "dsl/models/digits.h"
#include "tests/support/kernels.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

struct Chain : Classifier {
    Relu relu{"relu"}, after{"after"};
    Linear up{"up", 13, 37}, down{"down", 37, 13}, head{"head", 13, classes};
    LayerNorm norm{"norm", 37};

    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(after(down(norm(relu(up(x)))))); }
};

/// A curve after products of few columns, of one panel and of two, and before those back.
struct Curves : Classifier {
    Gelu gelu{"gelu"}, after{"after"}, last{"last"};
    Linear narrow{"narrow", 13, 7}, wide{"wide", 7, 96}, whole{"whole", 96, 48}, head{"head", 48, classes};

    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(last(whole(after(wide(gelu(narrow(x))))))); }
};

/// Products whose inputs lie 2 KB apart.
struct Apart : Classifier {
    Relu relu{"relu"};
    Linear one{"one", 512, 48}, few{"few", 512, 128}, back{"back", 48, 512}, head{"head", 128, classes};

    Shape features() const override { return {512}; }
    Tensor forward(Tensor x) override { return head(few(relu(back(one(x))))); }
};

/// Panels of the default layout, of which the last is padded.
struct Padded : Classifier {
    Relu relu{"relu"};
    Linear wide{"wide", 13, 1050}, narrow{"narrow", 1050, 30}, head{"head", 30, classes};

    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(narrow(relu(wide(x)))); }
};

}  // namespace

/// `panel`: the width of the weights' panels; 0: they are row-major.
static void check_curves(const char *batch, int panel, Format format) {
    CAPTURE(batch);
    CAPTURE(panel);
    CAPTURE(format);
    check_kernels(
        Compiled<Curves>(
            {{"batch", batch}},
            [&](Curves &c, Step &s) {
                std::pair<Linear *, Layer *> both[] = {{&c.narrow, &c.gelu}, {&c.wide, &c.after}, {&c.whole, &c.last}};
                for (auto [product, curve] : both) {
                    s(*curve).compute_with(*product);
                    s(d(*curve)).compute_at(d(*product));
                    if (panel) s.layout(product->W, panels(panel, 0));
                }
            },
            {}, format),
        format == bf16 ? 4e-3 : 3e-5);
}

TEST_CASE("placements: curves after products") { check_curves("38", 16, fp32); }

TEST_CASE("placements: panels that are no whole vectors") {
    check_curves("38", 20, fp32);
    check_curves("5", 17, bf16);
}

TEST_CASE("placements: many panels that are no whole vectors, all full or the last one padded") {
    for (int panel : {25, 6, 4})
        for (const char *update : {"separate", "backward"}) {
            CAPTURE(panel);
            CAPTURE(update);
            const auto in_panels = [&](Padded &p, Step &s) {
                s.layout(p.wide.W, panels(panel, 0)), s.layout(p.narrow.W, panels(panel, 0));
            };
            for (const char *batch : {"19", "32"})
                check_kernels(Compiled<Padded>({{"batch", batch}}, in_panels, {.update = update}), 3e-5);
            check_kernels(Compiled<Padded>({{"batch", "32"}}, in_panels, {.update = update}, bf16), 4e-3);
        }
}

TEST_CASE("placements: a weight whose last panel is padded, in panels of one tile and wider ones") {
    for (const char *update : {"separate", "backward"})
        for (int panel : {0, 128}) {
            CAPTURE(update);
            CAPTURE(panel);
            const auto in_panels = [&](Padded &p, Step &s) {
                if (panel) s.layout(p.wide.W, panels(panel, 0));
            };
            check_kernels(Compiled<Padded>({{"batch", "38"}}, in_panels, {.update = update}));
        }
}

TEST_CASE("placements: curves after products, few rows, row-major, in bf16" * slow()) {
    for (const char *batch : {"5", "38"}) {
        check_curves(batch, 0, fp32);
        check_curves(batch, 16, bf16);
    }
    check_curves("5", 16, fp32);
}

TEST_CASE("placements: inputs that share lines of a cache are copied" * slow()) {
    for (const char *update : {"separate", "backward"})
        check_kernels(Compiled<Apart>({{"batch", "37"}}, {}, {.update = update}));
}

TEST_CASE("placements: epilogues, prologues and updates, one at a time") {
    using Lines = Compiled<Chain>::Schedule;
    const Lines lines[] = {
        {},
        [](Chain &c, Step &s) { s(c.relu).compute_with(c.up); },
        [](Chain &c, Step &s) { s(c.relu).compute_at(c.norm); },
        [](Chain &c, Step &s) { s(c.norm).compute_at(c.down); },
        [](Chain &c, Step &s) { s(d(c.relu)).compute_at(d(c.up)); },
        [](Chain &c, Step &s) { s(d(c.after)).compute_at(d(c.down)); },
        [](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); },
        [](Chain &c, Step &s) { s(d(*c.up.b)).compute_at(next(*c.up.b)); },
    };
    for (const Lines &line : lines) {
        std::string name = "nothing placed";
        Compiled<Chain> c({{"batch", "11"}}, line);
        for (auto &[stage, where] : c.step.placements) name = stage.str() + where.line();
        CAPTURE(name);
        check_kernels(c);
    }
}

// The rows of such a product are packed where its prologue makes them.
static void check_prologue(Format format) {
    check_kernels(Compiled<Chain>(
                      {{"batch", "11"}}, [](Chain &c, Step &s) { s(c.norm).compute_at(c.down); }, {}, format),
                  4e-3);
}

TEST_CASE("placements: a prologue of a product in bf16" * slow()) { check_prologue(bf16); }
TEST_CASE("placements: a prologue of a product in fp16" * slow()) { check_prologue(fp16); }

TEST_CASE("placements: a prologue that inner products of rows read is computed once") {
    const Compiled<Chain> c({{"batch", "11"}},
                            [](Chain &c, Step &s) {
                                s(c.norm).compute_at(c.down);
                                s(d(c.down.W)).compute_at(next(c.down.W));
                            },
                            {.clip = true});
    check_kernels(c);
    run_children(
        1, 1, 60,
        [&](int) {
            BuiltKernel built =
                build_kernel(c.program, c.program.kernels[c.kernel("step", "norm(down.weight)")], c.machine);
            Halide::LoopLevel level = built.group.prologue.back().function().schedule().compute_level();
            return built.loops + (level.lock().is_root() ? ", once" : ", for each product");
        },
        [&](int, const ChildResult &r) {
            CHECK(r.error == "");
            CHECK(r.output == "ghost_norm, once");
        });
}

TEST_CASE("placements: convolutions") { check_kernels(Compiled<Digits>({{"batch", "5"}, {"channels", "5"}})); }

}  // namespace cryolite::test
