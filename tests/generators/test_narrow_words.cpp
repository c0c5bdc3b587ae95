// 16 bits on devices: conversions written out in integers, run on the CPU; and conditions that only threads may ask.

#include <cmath>
#include <cstring>

#include "dsl/numerics.h"
#include "generators/lowering/expressions/narrow_words.h"
#include "generators/lowering/on_device.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

using namespace Halide;
using compiler::bfloat16_as_words;
using compiler::narrow_as_words;

bool equal_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// Every pattern of 16 bits as a float32.
template <typename Half> Buffer<float> widened_patterns() {
    Buffer<Half> all(1 << 16);
    for (int i = 0; i < all.width(); i++) all(i) = Half::make_from_bits(uint16_t(i));
    ImageParam in(type_of<Half>(), 1);
    Func out("out");
    Var x("x");
    out(x) = widened(in(x));
    in.set(all);
    Pipeline p(out);
    narrow_as_words(p);
    return p.realize({1 << 16});
}

/// Numbers around those where rounding changes.
std::vector<float> floats() {
    std::vector<float> list{0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65504, 65519.996f, 65520, 65536, 1e30f, 1e-30f};
    for (uint32_t half = 0; half < 0x7c00; half++) {  // an fp16, the one half way to the next, and their neighbours
        const float a = float(float16_t::make_from_bits(uint16_t(half))),
                    b = float(float16_t::make_from_bits(uint16_t(half + 1)));
        for (float f : {a, half == 0x7bff ? 65520.0f : (a + b) / 2})
            for (float near : {f, std::nextafter(f, 1e9f), std::nextafter(f, -1e9f)})
                list.insert(list.end(), {near, -near});
    }
    return list;
}

template <typename Half> Buffer<Half> rounded_floats(const std::vector<float> &list) {
    ImageParam in(Float(32), 1);
    Func out("out");
    Var x("x");
    out(x) = rounded(in(x), type_of<Half>());
    in.set(Buffer<float>(const_cast<float *>(list.data()), int(list.size())));
    Pipeline p(out);
    narrow_as_words(p);
    return p.realize({int(list.size())});
}

}  // namespace

TEST_CASE("narrow words: every fp16 and bf16 is the float32 that it is") {
    const Buffer<float> fp16 = widened_patterns<float16_t>(), bf16 = widened_patterns<bfloat16_t>();
    for (int i = 0; i < 1 << 16; i++) {
        const float a = float(float16_t::make_from_bits(uint16_t(i))),
                    b = float(bfloat16_t::make_from_bits(uint16_t(i)));
        CAPTURE(i);
        REQUIRE((std::isnan(a) ? std::isnan(fp16(i)) : equal_bits(fp16(i), a)));
        REQUIRE((std::isnan(b) ? std::isnan(bf16(i)) : equal_bits(bf16(i), b)));
    }
}

TEST_CASE_TEMPLATE("narrow words: vectors are multiplied and added as float32", Half, float16_t, bfloat16_t) {
    Buffer<Half> all(1 << 10);
    for (int i = 0; i < all.width(); i++) all(i) = Half(float(i - 500) / 16);
    ImageParam in(type_of<Half>(), 1);
    Func out("out");
    Var x("x");
    out(x) = widened(in(x)) * 0.25f + widened(in(x)) * widened(in(x + 1));
    out.vectorize(x, 4);
    in.set(all);
    Pipeline p(out);
    narrow_as_words(p);
    const Buffer<float> got = p.realize({1 << 9});
    for (int i = 0; i < got.width(); i++) {
        const float a = float(all(i)), b = float(all(i + 1));
        CAPTURE(i);
        REQUIRE(got(i) == doctest::Approx(a * 0.25f + a * b));
    }
}

TEST_CASE("narrow words: a float32 becomes the nearest fp16, ties to even, and the nearest bf16") {
    const std::vector<float> list = floats();
    const Buffer<float16_t> fp16 = rounded_floats<float16_t>(list);
    const Buffer<bfloat16_t> bf16 = rounded_floats<bfloat16_t>(list);
    for (int i = 0; i < int(list.size()); i++) {
        const float x = list[size_t(i)];
        CAPTURE(x);
        if (std::isnan(x)) {
            REQUIRE(fp16(i).is_nan());
            REQUIRE(bf16(i).is_nan());
            continue;
        }
        REQUIRE(fp16(i).to_bits() == float16_t(x).to_bits());
        REQUIRE(bf16(i).to_bits() == bfloat16_t(x).to_bits());
    }
}

TEST_CASE("narrow words: where float16 may stay, it stays, and a constant is a word") {
    Buffer<bfloat16_t> two(2);
    two(0) = bfloat16_t(1.5), two(1) = bfloat16_t(-2.25);
    ImageParam in(BFloat(16), 1);
    Func out("out");
    Var x("x");
    out(x) = Tuple(select(x < 2, in(min(x, 1)), Internal::make_const(BFloat(16), 3)),
                   cast(Float(16), x) + cast(Float(16), 1));
    in.set(two);
    Pipeline p(out);
    bfloat16_as_words(p);
    const Realization r = p.realize({4});
    const Buffer<bfloat16_t> narrow = r[0];
    const Buffer<float16_t> half = r[1];
    CHECK(float(narrow(1)) == -2.25f);
    CHECK(float(narrow(3)) == 3.0f);
    CHECK(float(half(3)) == 4.0f);
}

TEST_CASE("narrow words: arithmetic in 16 bits is refused") {
    ImageParam in(Float(16), 1);
    Func out("out");
    Var x("x");
    out(x) = in(x)*in(x + 1);
    Pipeline p(out);
    narrow_as_words(p);
    CHECK_ERROR(p.compile_to_module({in}, "f"), "a kernel computes in a 16-bit type (fp16), which kernels of a device "
                                                "only load and store: cast to float32 before computing");
}

TEST_CASE("on a device: a condition that holds for a whole loop is asked by the threads, not by the host") {
    for (const bool in_threads : {false, true}) {
        ImageParam flag(Float(32), 1), in(Float(32), 1);
        Func out("out"), shared("shared");
        Var x("x"), block("block"), thread("thread");
        shared() = exp(flag(1));
        out(x) = undef<float>();
        out(x) = select(flag(0) > 0, in(x)*shared(), out(x));
        out.update().gpu_tile(x, block, thread, 32, TailStrategy::GuardWithIf);
        shared.compute_at(out, block);
        out.output_buffer().dim(0).set_bounds(0, 100);
        Pipeline p(out);
        if (in_threads) compiler::conditions_in_threads(p);
        const Target target = get_host_target().with_feature(Target::OpenCL).with_feature(Target::NoRuntime);
        const Module m = p.compile_to_module({flag, in}, "f", target);
        compiler::BuiltKernel k;
        k.loops = "loops";
        if (in_threads)
            compiler::check_on_device(m, k, "opencl");
        else
            CHECK_ERROR(compiler::check_on_device(m, k, "opencl"),
                        "to the host, but its data are on the device opencl");
    }
}

}  // namespace cryolite::test
