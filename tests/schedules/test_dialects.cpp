// What tests/schedules asks of Halide's loops, of every dialect that this build has: products in all forms and with
// every epilogue against the unscheduled pipelines, on ragged prime extents too.

#include "tests/support/dialects.h"

#include "dsl/layers/activation.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/models/digits.h"
#include "schedules/models/gpt.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"

// The door of a kernel to its scheduler, as narrow as it can be: a dialect calls it as Halide's code does.
extern "C" {
int halide_do_par_for(void *context, halide_task_t task, int first, int count, uint8_t *closure) {
    for (int i = first; i < first + count; i++)
        if (int code = task(context, i, closure)) return code;
    return 0;
}
void *halide_malloc(void *, size_t bytes) { return std::aligned_alloc(128, (bytes + 127) / 128 * 128); }
void halide_free(void *, void *block) { std::free(block); }
}

namespace cryolite::test {

namespace {

const ModelArguments ragged = ragged_gpt(), aligned = aligned_gpt();

/// Products with one layer after them: widths of whole panels, of none, and of panels with a ragged last one.
template <typename After> struct Chain : Classifier {
    GeneratorParam<int> hidden{"hidden", 37};
    Linear up{"up", 13, hidden}, down{"down", hidden, 13}, head{"head", 13, classes};
    After after{"after"}, last{"last"};

    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(last(x) + down(after(up(x)))); }
};

template <typename After>
void check_chain(const std::string &dialect, const std::vector<std::string> &widths, Compared &all) {
    using C = Chain<After>;
    const std::vector<typename Compiled<C>::Schedule> schedules = {
        [](C &c, Step &s) { s(c.after).compute_with(c.up), s(d(c.after)).compute_at(d(c.up)); },
        [](C &c, Step &s) {
            s(c.up).compute_at(c.after), s(c.up).store_at(forward), s(d(c.after)).compute_with(d(c.up));
        },
    };
    for (const std::string &hidden : widths)
        for (const auto &schedule : schedules)
            check_dialect(Compiled<C>({{"batch", "11"}, {"hidden", hidden}}, schedule), dialect, all);
}

/// Windows over ragged images: strides, dilations, groups, channels of more and fewer lanes than a vector has; one that
/// sees its own place alone is a matrix product.
struct Images : Classifier {
    GeneratorParam<int> channels{"channels", 3};
    Conv2D one{"one", channels, 17, 5, {.stride = 2}}, two{"two", 17, 33, 3, {.dilation = 2, .bias = false}},
        three{"three", 33, 20, 2, {.stride = 3, .padding = 1}}, grouped{"grouped", 20, 28, 3, {.groups = 4}},
        split{"split", 28, 32, 3, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2, .bias = false}},
        depth{"depth", 32, 32, 3, {.groups = 32}}, four{"four", 32, 16, 1}, five{"five", 16, 16, 3};
    Relu relu{"relu"}, last{"last"};
    MeanPool mean{"mean"};
    Linear head{"head", 16, classes};

    Shape features() const override { return {channels, 14, 11}; }
    Tensor forward(Tensor x) override {
        const Tensor y = four(depth(split(grouped(three(relu(two(one(x))))))));
        return head(mean(last(y + five(y))));
    }
};

/// Images enough for several tasks, of which each has sums of its own.
struct ManyImages : Classifier {
    Conv2D one{"one", 5, 17, 3}, two{"two", 17, 33, 3};
    MeanPool mean{"mean"};
    Linear head{"head", 33, classes};

    Shape features() const override { return {5, 7, 6}; }
    Tensor forward(Tensor x) override { return head(mean(two(one(x)))); }
};

void beside_relu(Images &c, Step &s) { s(c.relu).compute_with(c.two), s(d(c.relu)).compute_at(d(c.two)); }

}  // namespace

TEST_CASE("dialects: convolutions with strides, dilations and groups, on ragged images") {
    for (const DialectLine &d : dialect_table()) {
        if (d.device != "cpu" || !dialect_is_here(d.name)) continue;
        Compared all;
        check_dialect(Compiled<Images>({{"batch", "5"}}, beside_relu), d.name, all);
        check_dialect(Compiled<Images>({{"batch", "4"}, {"channels", "1"}}, {}, {.accumulate = true}), d.name, all);
        check_dialect(Compiled<ManyImages>({{"batch", "90"}}, {}, {.accumulate = true}), d.name, all);
        for (const char *words : {"forward bias of size 5, stride 2",
                                  "forward relu of size 3, stride 1, dilation 2",
                                  "forward of size 3, stride 1, dilation 2",
                                  "forward bias of size 2, stride 3",
                                  "forward bias of size 3, stride 1, groups 4",
                                  "forward of size 3, stride 2, dilation 2, groups 2",
                                  "forward bias of size 3, stride 1, groups 32",
                                  "forward bias",
                                  "d_input d_relu of size 2, stride 3",
                                  "d_input of size 2, stride 3",
                                  "d_input of size 3, stride 1, dilation 2",
                                  "d_input of size 3, stride 2, dilation 2, groups 2",
                                  "d_input of size 3, stride 1, groups 32",
                                  "d_input",
                                  "d_parameter of size 5, stride 2",
                                  "d_parameter of size 2, stride 3",
                                  "d_parameter of size 3, stride 2, dilation 2, groups 2",
                                  "d_parameter of size 3, stride 1, groups 32",
                                  "d_parameter accumulate of size 5, stride 2",
                                  "d_parameter accumulate of size 3, stride 1, groups 4"}) {
            CAPTURE(words);
            CHECK(all.count(words) == 1);
        }
    }
}

TEST_CASE("dialects: products of GPT" * slow()) {
    for (const DialectLine &d : dialect_table()) {
        if (d.device != "cpu" || !dialect_is_here(d.name)) continue;
        Compared all;
        for (const ModelArguments &a : {ragged, aligned}) {
            check_dialect(Compiled<Gpt>(a, schedule_gpt), d.name, all);
        }
        check_dialect(Compiled<Gpt>(ragged, schedule_gpt, {.accumulate = true}), d.name, all);
        for (const char *words :
             {"forward bias", "forward bias, add", "forward bias gelu_tanh", "forward ragged", "forward", "d_input",
              "d_input d_gelu_tanh", "d_input ragged", "d_parameter", "d_parameter ragged", "d_parameter accumulate"}) {
            CAPTURE(words);
            CHECK(all.count(words) == 1);
        }
    }
}

TEST_CASE("dialects: every epilogue, on widths of whole panels, ragged ones and none") {
    for (const DialectLine &d : dialect_table()) {
        if (d.device != "cpu" || !dialect_is_here(d.name)) continue;
        Compared all;
        check_chain<Relu>(d.name, {"37"}, all);
        check_chain<Gelu>(d.name, {"37", "96", "1031"}, all);
        check_chain<GeluExact>(d.name, {"96"}, all);
        for (const std::string &op : epilogue_ops) {
            CAPTURE(op);
            CHECK(std::ranges::any_of(all, [&](const std::string &words) {
                return (words + " ").find(" " + op + " ") != std::string::npos ||
                       (words + ",").find(" " + op + ",") != std::string::npos;
            }));
        }
        CHECK(std::ranges::any_of(
            all, [](const std::string &words) { return words.find("gelu_tanh ragged") != std::string::npos; }));
    }
}

}  // namespace cryolite::test
