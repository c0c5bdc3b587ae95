// Products of bf16, and of float32 in parts, on a processor that multiplies tiles. Where this one does not, the
// functions that kernels call multiply element by element, and the loops are the same.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <sstream>

#include "bundle/flops.h"
#include "bundle/matrix_tiles.h"
#include "schedules/cpu/matrix_tiles.h"
#include "schedules/lines.h"
#include "schedules/models/gpt.h"
#include "schedules/models/llama.h"
#include "tests/support/kernels.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"
#include "tests/support/two_products.h"

namespace cryolite::test {

namespace {

/// Two products of these sizes, with a norm between, and a narrow one.
template <int inputs, int hidden, int outputs> struct WideProducts : Classifier {
    Linear up{"up", inputs, hidden}, down{"down", hidden, outputs}, head{"head", outputs, classes};
    Relu relu{"relu"};
    LayerNorm norm{"norm", hidden};
    Shape features() const override { return {inputs}; }
    Tensor forward(Tensor x) override { return head(down(norm(relu(up(x))))); }
};

Machine with_tiles(Machine m) {
    m.matrix_tiles = true, m.dot_products = false;
    return m;
}

template <typename M> void check_tiles(Compiled<M> c) {
    c.machine = with_tiles(c.machine);
    check_kernels(c, 4e-3);
}
void check_gpt(const ModelArguments &arguments, const StepOptions &options = {}) {
    check_tiles(Compiled<Gpt>(arguments, schedule_gpt, options, bf16));
}

float widened(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

using Multiply = decltype(&multiply_elements);

/// The largest difference to sums in double, as a share of the sum of the terms' sizes.
double worst_of_call(Multiply multiply, int rows, int columns, int pairs, bool add) {
    const int a_row = 2 * pairs + 6, b_row = 2 * columns + 4, c_row = columns + 3;
    std::vector<uint16_t> a(size_t(rows) * a_row), b(size_t(pairs) * b_row);
    std::vector<float> c(size_t(rows) * c_row, 0.25f);
    uint32_t seed = 1;
    const auto fill = [&](std::vector<uint16_t> &list) {
        for (uint16_t &h : list) {
            seed = seed * 1664525 + 1013904223;
            h = uint16_t(std::bit_cast<uint32_t>(float(seed >> 8) / float(1 << 23) - 1) >> 16);
        }
    };
    fill(a), fill(b);
    const std::vector<float> before = c;
    multiply(a.data(), 2 * a_row, b.data(), 2 * b_row, c.data(), 4 * c_row, rows, columns, pairs, add);
    double worst = 0;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < c_row; x++) {
            const size_t at = size_t(y) * c_row + x;
            double sum = add || x >= columns ? before[at] : 0, size = 1;
            for (int k = 0; k < (x < columns ? 2 * pairs : 0); k++) {
                const double term =
                    double(widened(a[size_t(y) * a_row + k])) * widened(b[size_t(k / 2) * b_row + 2 * x + k % 2]);
                sum += term, size += std::abs(term);
            }
            worst = std::max(worst, std::abs(sum - c[at]) / size);
        }
    return worst;
}

/// The three bf16 that a float32 is the sum of.
std::array<uint16_t, 3> split(float x) {
    const auto leading = [](uint32_t bits) { return std::bit_cast<float>(bits & 0xffff0000); };
    const float high = leading(std::bit_cast<uint32_t>(x) + 0x8000);
    const float middle = leading(std::bit_cast<uint32_t>(x - high) + 0x8000);
    const auto half = [](float part) { return uint16_t(std::bit_cast<uint32_t>(part) >> 16); };
    return {half(high), half(middle), half(x - high - middle)};
}

using MultiplySplit = void (*)(const SplitFactor &, const SplitFactor &, float *, int, int, int, int, int);

void multiply_split(const SplitFactor &a, const SplitFactor &b, float *c, int c_stride, int rows, int columns,
                    int pairs, int add) {
    cryolite_multiply_split(a.high, a.middle, a.low, a.stride, b.high, b.middle, b.low, b.stride, c, c_stride, rows,
                            columns, pairs, add);
}

struct Errors {
    double of_split = 0, of_multiply_adds = 0;  ///< the largest, as a share of the sum of the terms' sizes
};

/// Of a product of float32 factors: by parts, and by multiply-adds, one after the other.
Errors errors_of_split(MultiplySplit multiply, int rows, int columns, int pairs, bool add) {
    const int terms = 2 * pairs, c_row = columns + 3;
    std::vector<float> a(size_t(rows * terms)), b(size_t(terms * columns)), c(size_t(rows * c_row), 0.25f);
    uint32_t seed = 1;
    for (auto *list : {&a, &b})
        for (float &x : *list) {
            seed = seed * 1664525 + 1013904223;
            x = std::ldexp(float(seed >> 8) / float(1 << 23) - 1, int(seed % 7) - 3);
        }
    std::array<std::vector<uint16_t>, 3> a_parts, b_parts;
    for (size_t i = 0; i < 3; i++) a_parts[i].resize(a.size()), b_parts[i].resize(b.size());
    for (int y = 0; y < rows; y++)
        for (int k = 0; k < terms; k++)
            for (size_t i = 0; i < 3; i++) a_parts[i][size_t(y * terms + k)] = split(a[size_t(y * terms + k)])[i];
    for (int k = 0; k < terms; k++)
        for (int x = 0; x < columns; x++)
            for (size_t i = 0; i < 3; i++)
                b_parts[i][size_t((k / 2 * columns + x) * 2 + k % 2)] = split(b[size_t(k * columns + x)])[i];
    multiply({a_parts[0].data(), a_parts[1].data(), a_parts[2].data(), 2 * terms},
             {b_parts[0].data(), b_parts[1].data(), b_parts[2].data(), 4 * columns}, c.data(), 4 * c_row, rows, columns,
             pairs, add);
    Errors worst;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < c_row; x++) {
            const bool computed = x < columns;
            double sum = add || !computed ? 0.25 : 0, size = 1e-30 + std::abs(sum);
            float in_order = float(sum);
            for (int k = 0; computed && k < terms; k++) {
                const float of_a = a[size_t(y * terms + k)], of_b = b[size_t(k * columns + x)];
                sum += double(of_a) * of_b, size += std::abs(double(of_a) * of_b);
                in_order = std::fma(of_a, of_b, in_order);
            }
            worst.of_split = std::max(worst.of_split, std::abs(sum - c[size_t(y * c_row + x)]) / size);
            worst.of_multiply_adds = std::max(worst.of_multiply_adds, std::abs(sum - in_order) / size);
        }
    return worst;
}

/// Does `work` with each kernel of a step in a child, and `check`s what it returns.
void for_each_kernel(const StepProgram &p, const std::function<std::string(const ir::Kernel &)> &work,
                     const std::function<void(const std::string &)> &check) {
    const auto kernel = [&](int i) -> const ir::Kernel & { return p.kernels[KernelId(i)]; };
    share_jit_runtime();
    run_children(
        int(p.kernels.size()), 2, 300, [&](int i) { return work(kernel(i)); },
        [&](int i, const ChildResult &r) {
            INFO(kernel(i).name);
            CHECK(r.error == "");
            check(r.output);
        });
}

/// Checks the kernels of a step in fp32 whose factors are split, as many as expected, against the unscheduled pipelines
/// of multiply-adds.
template <typename M> void check_split(const Compiled<M> &c, int expected) {
    const Machine tiles = with_tiles(c.machine);
    int split = 0;
    for_each_kernel(
        c.program,
        [&](const ir::Kernel &k) -> std::string {
            const BuiltKernel built = build_kernel(c.program, k, tiles);
            const bool in_parts = built.group.func("a_pairs_low").defined();
            if (built.loops.ends_with(by_tiles) != in_parts) fail("{}: its loops are {}", k.name, built.loops);
            if (!in_parts) return "";
            const std::string got = KernelTrial(c.program, k, built, tiles, false).run();
            return fmt::format("{}", distance(built, KernelTrial::unscheduled(c.program, k, c.machine).run(), got));
        },
        [&](const std::string &distance) {
            if (distance.empty()) return;
            split++;
            CHECK(std::atof(distance.c_str()) < 2e-6);
        });
    CHECK(split == expected);
}

/// Runs the kernels of a step with each array at the end of a page: reading more than a few vectors past it is a crash.
template <typename M> void check_reads(const Compiled<M> &c) {
    const Machine tiles = with_tiles(c.machine);
    for_each_kernel(
        c.program,
        [&](const ir::Kernel &k) -> std::string {
            const BuiltKernel built = build_kernel(c.program, k, tiles);
            KernelTrial(c.program, k, built, tiles, false).run(Inputs::random, true);
            return "ran";
        },
        [](const std::string &done) { CHECK(done == "ran"); });
}

/// Lowers the product of 64 terms, 32 x 32, whose factor X is stored in columns of `group` terms.
std::string lowered(int group) {
    using namespace Halide;
    constexpr int side = 32, pairs = 32;
    ImageParam W(BFloat(16), 3, "W"), X(BFloat(16), 3, "X");
    const auto dense = [](ImageParam &image, std::vector<int> extents) {
        int stride = 1;
        for (int d = 0; d < 3; stride *= extents[size_t(d++)])
            image.dim(d).set_bounds(0, extents[size_t(d)]).set_stride(stride);
    };
    dense(W, {2, side, pairs}), dense(X, {group, side, 2 * pairs / group});
    Func sums("sums"), out("out");
    Var x("x"), y("y");
    RDom k(0, 2, 0, pairs, "k");
    const Expr term = 2 * k.y + k.x;
    sums(x, y) = 0.0f;
    sums(x, y) += cast<float>(W(k.x, x, k.y)) * cast<float>(X(term % group, y, term / group));
    out(x, y) = sums(x, y);
    out.output_buffer().dim(0).set_bounds(0, side), out.output_buffer().dim(1).set_bounds(0, side).set_stride(side);
    Group g;
    sums.compute_root();
    cpu::accumulate_processor_tiles(g, sums, 16, TailStrategy::Auto);
    Pipeline pipeline(out);
    for (const auto &[name, add_to] : g.passes) add_to(pipeline);
    std::ostringstream text;
    text << pipeline.compile_to_module({W, X}, "product", test_target()).functions()[0].body;
    return text.str();
}

}  // namespace

TEST_CASE("matrix tiles: a call computes what its arguments say, and touches nothing else") {
    MESSAGE(std::string(has_matrix_tiles() ? "with" : "without"), " tiles of this processor");
    for (int rows : {1, 5, 16, 17, 32, 53})
        for (int columns : {1, 7, 16, 33, 48, 64, 67, 112})
            for (int pairs : {1, 3, 16, 32, 37})
                for (bool add : {false, true}) {
                    INFO(rows, " x ", columns, ", ", pairs, " pairs");
                    CHECK(worst_of_call(cryolite_multiply_tiles, rows, columns, pairs, add) < 1e-6);
                    CHECK(worst_of_call(multiply_elements, rows, columns, pairs, add) < 1e-6);
                }
}

TEST_CASE("matrix tiles: a product of float32 by parts is as precise as multiply-adds") {
    for (int rows : {1, 17, 32, 53})
        for (int columns : {1, 16, 33, 48, 64, 67, 96, 112})
            for (int pairs : {1, 16, 37, 288})
                for (bool add : {false, true}) {
                    INFO(rows, " x ", columns, ", ", pairs, " pairs");
                    for (MultiplySplit multiply : {multiply_split, multiply_split_elements}) {
                        const Errors e = errors_of_split(multiply, rows, columns, pairs, add);
                        CHECK(e.of_split < std::max(2.5e-7, 1.1 * e.of_multiply_adds));
                    }
                }
}

TEST_CASE("matrix tiles: ragged shapes") { check_gpt(ragged_gpt("1")); }
TEST_CASE("matrix tiles: shared heads, a gate and no biases") {
    check_tiles(Compiled<Llama>(ragged_llama(), schedule_llama, {}, bf16));
}
TEST_CASE("matrix tiles: a factor whose elements are not equally far apart is refused") {
    const std::string text = lowered(64);
    CHECK(text.find("cryolite_multiply_tiles") != text.npos);
    CHECK(text.find("float32(") == text.npos);
    CHECK_THROWS_WITH_AS(lowered(16), doctest::Contains("cannot be multiplied in tiles"), Error);
}

TEST_CASE("matrix tiles: groups of panels, copied rows and chunks, none of which divides its extent") {
    for (const char *lines : {"", "loops(up, forward): panels_of_task=3 pack_x=1 tiles_of_task=4",
                              "loops(up, forward): pack_x=0 prefetch=0; loops(up, d_parameter): tiles_of_task=2"})
        check_tiles(Compiled<TwoProducts<137, 144>>(
            {{"batch", "211"}}, [&](auto &n, Step &s) { add_lines(s, n, lines, "my.schedule"); }, {}, bf16));
    check_tiles(Compiled<TwoProducts<61, 1999>>(
        {{"batch", "67"}}, [](auto &n, Step &s) { add_lines(s, n, "loops(relu, d_input): chunk=384", "my.schedule"); },
        {}, bf16));
}

TEST_CASE("matrix tiles: float32 factors in parts, in ragged shapes, chunks and odd numbers of terms") {
    const auto sizes = [](const char *batch) { return ModelArguments{{"batch", batch}}; };
    constexpr int of_up = 2, of_down = 3, both = of_up + of_down;  // the first product has no dX
    check_split(Compiled<WideProducts<617, 1103, 619>>(sizes("641")), both);
    check_split(Compiled<WideProducts<607, 613, 1201>>(sizes("683")), both);
    check_split(Compiled<WideProducts<576, 1152, 768>>(sizes("608"), {}, {.update = "backward"}), both);
    check_split(Compiled<WideProducts<617, 1103, 619>>(sizes("67")), 0);
    const auto automatic = [](auto &n, Step &s) {
        add_lines(s, n, "loops(down, forward): automatic=1", "my.schedule");
    };
    check_split(Compiled<WideProducts<617, 1103, 619>>(sizes("641"), automatic), both - 1);
}

TEST_CASE("matrix tiles: panels that are no whole vectors") {
    for (int panel : {25, 6}) {
        CAPTURE(panel);
        const auto in_panels = [&](auto &n, Step &s) {
            s.layout(n.up.W, panels(panel, 0)), s.layout(n.down.W, panels(panel, 0));
        };
        const StepOptions separate, in_backward{.update = "backward"};
        for (const StepOptions &update : {separate, in_backward})
            check_tiles(Compiled<WideProducts<61, 137, 67>>({{"batch", "64"}}, in_panels, update, bf16));
        check_reads(Compiled<WideProducts<400, 1000, 1024>>({{"batch", "416"}}, in_panels, {}, bf16));
        check_split(Compiled<WideProducts<617, 1103, 619>>({{"batch", "641"}}, in_panels), 5);
        check_reads(Compiled<WideProducts<617, 1103, 619>>({{"batch", "641"}}, in_panels));
    }
}

TEST_CASE("matrix tiles: nothing is read far past the end of an array") {
    check_reads(Compiled<WideProducts<400, 1000, 1024>>({{"batch", "416"}}, {}, {}, bf16));
    check_reads(Compiled<WideProducts<617, 1103, 619>>({{"batch", "641"}}, {}));
}

TEST_CASE("matrix tiles: a prologue computes the rows that a task copies") {
    const auto place = [](auto &n, Step &s) { s(n.norm).compute_at(n.down); };
    check_tiles(Compiled<WideProducts<61, 137, 67>>({{"batch", "59"}}, place, {}, bf16));
    check_split(Compiled<WideProducts<617, 1103, 619>>({{"batch", "641"}}, place), 5);
}

TEST_CASE("matrix tiles: whole panels, few rows, updates in the backward pass" * slow()) {
    check_gpt(aligned_gpt());
    check_gpt(aligned_gpt(), {.accumulate = true});
    check_gpt(aligned_gpt(), {.update = "backward"});
    check_gpt(few_rows_gpt(), {.update = "backward"});
    check_gpt(ragged_gpt("1"), {.clip = true, .update = "backward"});
    for (const char *rows : {"16", "48"}) check_gpt(whole_vectors_gpt(rows));
}

}  // namespace cryolite::test
