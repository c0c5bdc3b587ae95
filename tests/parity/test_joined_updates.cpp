// Updates of several parameters in one kernel, whose arrays lie side by side, have the bits of updates one by one: on
// the CPU, where lines ask for it. Files know each parameter by its name. On CUDA a step has fewer launches.

#include "tests/cuda/use_recorder.h"
#include "tests/parity/joined.h"

namespace cryolite::test {

namespace {

/// Some of them, also where none are by themselves.
const std::string together = " --lines 's(next(h.*.ln_1.weight)).compute_with(next(ln_f.bias)); "
                             "s(next(h.*.attn.c_attn.bias)).compute_with(next(h.*.ln_1.weight)); "
                             "s(next(h.*.mlp.c_fc.weight)).compute_with(next(wte.weight))'";

}  // namespace

TEST_CASE("joined updates: by lines on the CPU, weights in panels among them, over micro-batches, in 16 bits") {
    check_bits(odd_sizes, "--update separate", together, "", "cpu");
    check_bits(odd_sizes, "--update separate --precision fp16", together, "", "cpu");
    json args = odd_sizes;
    args["accumulate"] = 3;
    check_bits(args, "--update auto --precision bf16", together, "", "cpu");
}

TEST_CASE("joined updates: checkpoints have each parameter by its name, and go from one form to the other") {
    const Scratch folder;
    const std::string flags = "--update separate --precision bf16";
    TrainingCase joined(odd_sizes, flags + together), single(odd_sizes, flags);
    for (int s = 0; s < 2; s++) joined.step(), single.skip();
    auto carry = [&](TrainingCase &from, TrainingCase &to) {
        from.trainer.write_parameters(folder / "weights"), from.trainer.write_state(folder / "state");
        to.trainer.load_parameters(folder / "weights", [](const std::string &name) { return name; });
        to.trainer.read_state(folder / "state");
        CHECK(numbers(from) == numbers(to));
    };
    carry(joined, single);
    for (int s = 0; s < 2; s++) CHECK(joined.step() == single.step());
    joined.trainer.initialise(3), joined.trainer.forget_steps();
    CHECK(numbers(joined) != numbers(single));
    carry(single, joined);
    CHECK(joined.step() == single.step());
}

TEST_CASE("joined updates: evaluation and averages of weights see parts as they see arrays") {
    TrainingCase joined(odd_sizes, "--update separate --ema" + together), single(odd_sizes, "--update separate --ema");
    for (int s = 0; s < 3; s++) CHECK(joined.step() == single.step());
    std::array<double, 2> losses = {};
    joined.trainer.with_averages([&] { losses[0] = joined.trainer.evaluate(joined.batch(9), 3); });
    single.trainer.with_averages([&] { losses[1] = single.trainer.evaluate(single.batch(9), 3); });
    CHECK(losses[0] == losses[1]);
    CHECK(numbers(joined) == numbers(single));
}

TEST_CASE("joined updates: a value that is not finite is named by its parameter") {
    TrainingCase c(odd_sizes, "--update separate" + together);
    c.step();
    c.trainer.watch_values();
    c.step();
    CHECK_FALSE(c.trainer.first_not_finite());
    c.trainer.set("lr", INFINITY);
    c.step();
    const auto found = c.trainer.first_not_finite();
    REQUIRE(found);
    const std::string words = found->words(c.trainer.plan());
    CAPTURE(words);
    CHECK(words.find(" of the weight '") != std::string::npos);
    CHECK(words.ends_with("of the update pass writes"));
}

TEST_CASE("joined updates: on CUDA a step has fewer launches, by as many as there are updates and norms less") {
    UseRecorder use;
    const json sizes = {{"layers", 1}, {"heads", 2},  {"width", 16}, {"context", 8},
                        {"batch", 2},  {"vocab", 19}, {"lr", 1e-2},  {"clip", 1.0}};
    auto launches = [&](const std::string &lines) {
        TrainingCase c(sizes, "--update separate" + lines, "cuda");
        use.recorder.calls.clear();
        c.step();
        return use.recorder.count("cuLaunchKernel");
    };
    const auto before = launches(apart), after = launches("");
    MESSAGE(before << " launches of a step, " << after << " with joined updates");
    CHECK(before - after == 2 * (16 - 2));  // updates and norms, of 16 parameters
}

}  // namespace cryolite::test
