// What each pass makes of small models, as text: nothing is compiled and no Func is built. CRYOLITE_UPDATE_GOLDENS=1
// writes the texts anew, for a look at what has changed.

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <regex>
#include <sstream>

#include "dsl/models/gpt.h"
#include "dsl/optimizers/lars.h"
#include "dsl/tensor.h"
#include "generators/ir/printer.h"
#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"
#include "schedules/models/gpt.h"
#include "tests/support/reads.h"
#include "tests/support/shapes.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Net : Classifier {
    Linear up{"up", 6, 48}, down{"down", 48, 6}, head{"head", 6, classes};
    Relu relu{"relu"};
    LayerNorm norm{"norm", 6};
    Shape features() const override { return {6}; }
    Tensor forward(Tensor x) override {
        Tensor h = norm(x);
        return head(h + down(relu(up(h))));
    }
};

/// With equal calls, and operators that do nothing.
struct Pairs : Net {
    Tensor forward(Tensor x) override {
        const Tensor a = relu(up(norm(x))), b = relu(up(norm(x)));
        return head(down(0.5 * (1.0 * a + transpose(transpose(b)))));
    }
};

/// Seen in another shape, and cut into halves of 16 rows.
struct Halves : Net {
    Tensor forward(Tensor x) override {
        const Tensor h = norm(reshape(relu(up(x)), {6, 8, batch}));
        const Tensor low = slice(h, 2, 0, 16), high = slice(h, 2, 16, 32);
        return head(down(reshape(concat({2.0 * low, 3.0 * high}, 2), {48, batch})));
    }
};

using Lines = std::vector<std::string>;

Lines lines_of(const std::string &text) {
    Lines lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// What came and went, by the longest common subsequence.
std::string changes(const Lines &a, const Lines &b) {
    std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1));
    for (size_t i = a.size(); i-- > 0;)
        for (size_t j = b.size(); j-- > 0;)
            common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    std::string text;
    for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
        if (i < a.size() && j < b.size() && a[i] == b[j])
            i++, j++;
        else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1]))
            text += "- " + a[i++] + "\n";
        else
            text += "+ " + b[j++] + "\n";
    }
    return text;
}

Machine fixed_machine(const std::string &device = "") {
    return Machine::of(Halide::Target("x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41" + device));
}

/// The program after the trace, then what each pass changes in it.
template <typename M, typename Rule = AdamW> std::string history(const std::string &batch, const StepOptions &options,
                                                                 const std::function<void(M &, Step &)> &lines = {},
                                                                 Format format = fp32, const std::string &device = "") {
    Arguments::current() = {{{"batch", batch}, {"classes", "3"}}, {}};
    const Machine machine = fixed_machine(device);
    Step step(machine);
    M model;
    model.numerics(format);
    Rule rule;
    if (lines) lines(model, step);
    std::string text;
    Lines before;
    lower({.model = model,
           .optimizer = rule,
           .schedule = step,
           .options = options,
           .oracle = reads_of_kinds,
           .after = [&](const StepProgram &p, const std::string &pass) {
               // Lines of the schedule say where in this file they are written.
               Lines now = lines_of(
                   std::regex_replace(ir::text_of(p), std::regex("test_passes\\.cpp:\\d+"), "test_passes.cpp"));
               text += "== " + pass + "\n" + changes(before, now);
               before = now;
           }});
    return text;
}

void check_golden(const std::string &name, const std::string &text) {
    const std::string path = std::string(CRYOLITE_SOURCE_DIR) + "/tests/generators/passes/" + name + ".txt";
    if (std::getenv("CRYOLITE_UPDATE_GOLDENS")) std::ofstream(path) << text;
    std::stringstream kept;
    kept << std::ifstream(path).rdbuf();
    INFO(name, ": CRYOLITE_UPDATE_GOLDENS=1 writes it anew\n", changes(lines_of(kept.str()), lines_of(text)));
    CHECK(kept.str() == text);
}

}  // namespace

TEST_CASE("passes: what each changes in the step of a small model") {
    check_golden("separate", history<Net>("4", {}));
    check_golden("backward_clipped", history<Net>("4", {.clip = true, .update = "backward"}));
    check_golden("joined", history<Net>("4", {.clip = true}, {}, fp32, "-opencl"));
    check_golden("half", history<Net>("4", {.update = "backward"}, {}, bf16));
    check_golden("workers", history<Net, Lars>("4", {.workers = 2}));
    check_golden("pairs", history<Pairs>("4", {}));
    check_golden("views", history<Halves>("32", {}));
    check_golden("parts", history<Net>("4", {.workers = 2, .parts = 8}));
    check_golden("accumulate_deferred", history<Net>("4", {.accumulate = true, .update = "forward"}));
    check_golden("frozen", history<Net>("4", {.clip = true, .freeze = {"norm.*"}}, [](Net &net, Step &s) {
                     net.up.W.freeze();
                     s(d(net.relu)).compute_at(d(net.up));
                 }));
    check_golden("blocks_remat_lines", history<Net>("64", {}, [](Net &net, Step &s) {
                     s(net.relu).compute_with(net.up);
                     s(net.relu).store_at(forward);
                     s(d(net.relu)).compute_at(d(net.up));
                     s(net.head).compute_at(net.criterion, 32);
                 }));
}

TEST_CASE("passes: docs/compiler.md has them all, in their order") {
    std::stringstream page;
    page << std::ifstream(std::string(CRYOLITE_SOURCE_DIR) + "/docs/compiler.md").rdbuf();
    const std::string text = page.str();
    size_t at = 0, rows = 0;
    for (const NamedPass &pass : passes()) {
        const size_t row = text.find("\n| `" + std::string(pass.name) + "` |", at);
        CHECK_MESSAGE(row != std::string::npos, pass.name);
        if (row != std::string::npos) at = row;
    }
    for (at = 0; (at = text.find("\n| `", at)) != std::string::npos; ++at) ++rows;
    CHECK(rows == passes().size());
}

TEST_CASE("passes: a step is lowered in milliseconds once reads are known") {
    const auto seconds = [](const char *layers, const char *heads, const char *width) {
        Arguments::current() = {{{"layers", layers},
                                 {"heads", heads},
                                 {"width", width},
                                 {"context", "1024"},
                                 {"batch", "1"},
                                 {"vocab", "50257"}},
                                {}};
        const Machine machine = fixed_machine();
        Step step(machine);
        Gpt model;
        AdamW rule;
        schedule_gpt(model, step);
        KnownLayers known;
        const Context cx{.model = model,
                         .optimizer = rule,
                         .schedule = step,
                         .options = {.update = "auto"},
                         .oracle = reads_of_kinds,
                         .known = &known};
        double least = 1e9;
        for (int run = 0; run < 2; run++) {
            const std::clock_t start = std::clock();
            StepProgram p = trace(cx);
            for (const NamedPass &pass : passes()) pass.run(p, cx);  // without the verifier
            least = std::min(least, double(std::clock() - start) / CLOCKS_PER_SEC);
        }
        return least;
    };
    // A busy machine slows one of the two now and then, so both are taken again until neither is. A cost that grows
    // with the square of the layers is 16 times as much in every round.
    double gpt2 = 1e9, xl = 1e9;
    for (int round = 0; round == 0 || (round < 10 && xl >= 10 * gpt2); round++) {
        gpt2 = std::min(gpt2, seconds("12", "12", "768"));
        xl = std::min(xl, seconds("48", "25", "1600"));
    }
    MESSAGE("12 layers lowered in ", 1e3 * gpt2, " ms, 48 in ", 1e3 * xl, " ms");
    CHECK(xl < 10 * gpt2);  // of four times as many layers
#ifdef NDEBUG
    CHECK(gpt2 < 0.1);  // five times what a slow machine takes
#endif
}

}  // namespace cryolite::test
