// Which arrays of a step are bf16.

#include "dsl/models/gpt.h"
#include "schedules/models/gpt.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

const std::vector<std::pair<std::string, std::string>> small = {{"layers", "2"},  {"heads", "5"}, {"width", "10"},
                                                                {"context", "7"}, {"batch", "2"}, {"vocab", "11"}};

/// Those of a role, by name.
std::map<std::string, int> bits(const StepProgram &p, ir::Role role) {
    std::map<std::string, int> list;
    for (const ir::Value &v : p.values)
        if (v.role == role) list[v.name] = v.type.bits;
    return list;
}

}  // namespace

TEST_CASE("formats: what products read is bf16; the residual stream, results, gradients and state are not") {
    Compiled<Gpt> c(small, schedule_gpt, {}, bf16);
    auto values = bits(c.program, ir::Role::activation), weights = bits(c.program, ir::Role::parameter);
    for (const char *half : {"h.0.ln_1", "h.0.attn.c_attn", "h.0.attn", "h.0.mlp.c_fc", "h.0.mlp.act", "ln_f",
                             "d(h.0.mlp.c_fc)", "d(wte.transposed)"})
        CHECK_MESSAGE(values.at(half) == 16, half);
    for (const char *whole : {"add", "wpe", "output", "loss", "d(add)"}) CHECK_MESSAGE(values.at(whole) == 32, whole);
    for (const char *half : {"wte.weight", "h.0.attn.c_attn.weight"}) CHECK_MESSAGE(weights.at(half) == 16, half);
    for (const char *whole : {"wpe.weight", "h.0.attn.c_attn.bias", "ln_f.weight"})
        CHECK_MESSAGE(weights.at(whole) == 32, whole);
    CHECK(bits(c.program, ir::Role::master_low).size() == 9);
    for (ir::Role role : {ir::Role::gradient, ir::Role::state})
        for (auto &[name, n] : bits(c.program, role)) CHECK_MESSAGE(n == 32, name);
}

TEST_CASE("formats: a layer's own numerics are an exception from the model's") {
    Compiled<Gpt> c(
        small,
        [](Gpt &net, Step &s) {
            schedule_gpt(net, s);
            net.blocks[0].up.numerics(fp32);
        },
        {}, bf16);
    auto values = bits(c.program, ir::Role::activation), weights = bits(c.program, ir::Role::parameter);
    CHECK(weights.at("h.0.mlp.c_fc.weight") == 32);
    CHECK(weights.at("h.1.mlp.c_fc.weight") == 16);
    CHECK(values.at("h.0.ln_2") == 32);
    CHECK(values.at("h.1.ln_2") == 16);
    CHECK(values.at("h.0.mlp.c_fc") == 32);
    CHECK(int(c.keys().size()) == c.program.kernels.size());
}

TEST_CASE("formats: in fp32 nothing is, and nothing is withheld") {
    Compiled<Gpt> c(small, schedule_gpt);
    CHECK(bits(c.program, ir::Role::master_low).empty());
    CHECK_FALSE(c.program.count);
    for (auto &[name, n] : bits(c.program, ir::Role::activation)) CHECK(n == 32);
}

TEST_CASE("formats: an update stays apart where its gradient may not be finite, which is not yet known") {
    StepOptions options;
    options.accumulate = true, options.update = "backward";
    {  // one model at a time
        Compiled<Gpt> c(small, schedule_gpt, options, bf16);
        int found = 0;
        for (const ir::Op &s : c.program.ops)
            if (s.name == "next(h.0.mlp.c_fc.weight)")
                found += s.why.find("not yet known") != std::string::npos && s.placed == "root";
        CHECK(found == 1);
    }
    options.accumulate = false;
    Compiled<Gpt> once(small, schedule_gpt, options, bf16);
    CHECK(once.kernel("step", "d(h.0.mlp.c_fc.weight)") == once.kernel("step", "next(h.0.mlp.c_fc.weight)"));
    CHECK(once.kernel("step", "finite"));
}

}  // namespace cryolite::test
