// Which arrays of a step are bf16 or fp16.

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
    for (const ir::Value &v : c.program.values) CHECK(v.format_why.empty());
}

TEST_CASE("formats: fp16 is where bf16 is by its own table, with whole masters and a scale of the loss") {
    std::map<std::string, int> values_of_bf16, weights_of_bf16;
    {  // one model at a time
        Compiled<Gpt> c(small, schedule_gpt, {}, bf16);
        values_of_bf16 = bits(c.program, ir::Role::activation), weights_of_bf16 = bits(c.program, ir::Role::parameter);
        CHECK(bits(c.program, ir::Role::loss_scaler).empty());
    }
    Compiled<Gpt> c(small, schedule_gpt, {}, fp16);
    const StepProgram &p = c.program;
    CHECK(bits(p, ir::Role::activation) == values_of_bf16);
    CHECK(bits(p, ir::Role::parameter) == weights_of_bf16);
    for (const ir::Value &v : p.values)
        if ((v.role == ir::Role::activation || v.role == ir::Role::parameter) && v.type.bits == 16)
            CHECK(v.type.str() == "float16");
    CHECK(bits(p, ir::Role::master_low).empty());
    const auto masters = bits(p, ir::Role::master);
    CHECK(masters.size() == 9);
    for (auto &[name, n] : masters) CHECK_MESSAGE(n == 32, name);
    CHECK(bits(p, ir::Role::loss_scaler).size() == 3);
    CHECK(int(c.keys().size()) == p.kernels.size());
}

TEST_CASE("formats: what is kept beside a weight, and whether the loss is scaled, is what a format's row says") {
    for (const FormatRow &f : number_formats)
        for (bool check : {true, false}) {
            CAPTURE(f.name);
            CAPTURE(check);
            StepOptions options;
            options.finite_check = check;
            Compiled<Gpt> c(small, schedule_gpt, options, f.format);
            const StepProgram &p = c.program;
            CHECK(bits(p, ir::Role::master_low).size() == (f.master == MasterKind::low_half ? 9 : 0));
            CHECK(bits(p, ir::Role::master).size() == (f.master == MasterKind::whole ? 9 : 0));
            const bool checked = check && f.is_narrow();
            CHECK(bool(p.count) == checked);
            CHECK(bool(p.loss_scaler) == (checked && f.scales_loss));
            CHECK(std::ranges::count(p.scalar_names, "loss_scale_growth") == (checked && f.scales_loss));
            CHECK(std::ranges::count(p.ops, "finite", &ir::Op::name) == checked);
            for (const auto &[name, n] : bits(p, ir::Role::parameter))
                if (name == "h.0.attn.c_attn.weight") CHECK(n == (f.is_narrow() ? 16 : 32));
            CHECK(int(c.keys().size()) == p.kernels.size());
        }
}

TEST_CASE("formats: the scale of the loss is read where adjoints begin and taken back in the factor of updates") {
    StepOptions options;
    options.update = "backward";
    Compiled<Gpt> c(small, schedule_gpt, options, fp16);
    const StepProgram &p = c.program;
    auto reads = [&](const ir::Op &op, ValueId v) {
        return std::ranges::any_of(op.reads, [&](const ir::Ref &r) { return r.value == v; });
    };
    std::vector<std::string> readers;
    for (OpId id : p.entries.at("step").ops) {
        const ir::Op &op = p.ops[id];
        if (reads(op, p.loss_scaler.scale)) readers.push_back(op.name);
        if (ir::is<ir::Update>(op)) CHECK_MESSAGE(reads(op, p.scale), op.name);
    }
    CHECK(readers == std::vector<std::string>{"d(wte.transposed)", "finite"});
    CHECK(c.kernel("step", "d(h.0.mlp.c_fc.weight)") == c.kernel("step", "next(h.0.mlp.c_fc.weight)"));
    CHECK(c.kernel("step", "next(loss_scale)"));
}

TEST_CASE("formats: what decides a value's format is said, and a line of the model changes it") {
    Compiled<Gpt> c(
        small,
        [](Gpt &net, Step &s) {
            schedule_gpt(net, s);
            net.blocks[1].gelu.numerics({.inputs = true});
        },
        {}, fp16);
    std::map<std::string, std::string> why;
    std::map<std::string, int> values = bits(c.program, ir::Role::activation);
    for (const ir::Value &v : c.program.values)
        if (v.role == ir::Role::activation || v.role == ir::Role::parameter) why[v.name] = v.format_why;
    CHECK(values.at("h.0.mlp.act") == 16);
    CHECK(values.at("h.1.mlp.act") == 32);
    CHECK(why.at("h.0.mlp.act") == "the row 'pointwise' of the cast table makes it, and all that read it take fp16");
    CHECK(why.at("h.1.mlp.act") == "'h.1.mlp.act' makes it in fp32: the model's line numerics(...)");
    CHECK(why.at("output") == "it is a result of the model");
    CHECK(why.at("wpe") == "'wpe' makes it in fp32: the row 'other' of the cast table");
    CHECK(why.at("h.0.mlp.c_fc.weight") == "products of 'h.0.mlp.c_fc' read it");
    CHECK(why.at("ln_f.weight") == "no product reads it in fp16");
}

TEST_CASE("formats: a layer of another narrow format than its model's is refused") {
    auto build = [](Format model, Format layer) {
        Compiled<Gpt> c(
            small, [&](Gpt &net, Step &) { net.blocks[0].up.numerics(layer); }, {}, model);
    };
    CHECK_ERROR(build(bf16, fp16),
                "[h.0.mlp.c_fc] has numerics(fp16) in a model of bf16: a model has one narrow format");
    CHECK_ERROR(build(fp32, bf16), "[h.0.mlp.c_fc] has numerics(bf16) in a model of fp32");
    build(fp16, fp16);
}

TEST_CASE("formats: an update stays apart where its gradient may not be finite, which is not yet known") {
    StepOptions options;
    options.accumulate = true, options.update = "backward";
    {  // one model at a time
        Compiled<Gpt> c(small, schedule_gpt, options, bf16);
        int found = 0;
        for (const ir::Op &s : c.program.ops)
            if (s.name == "next(h.0.mlp.c_fc.weight)")
                found += s.why.find("known only after the backward pass") != std::string::npos && s.placed == "root";
        CHECK(found == 1);
    }
    options.accumulate = false;
    Compiled<Gpt> once(small, schedule_gpt, options, bf16);
    CHECK(once.kernel("step", "d(h.0.mlp.c_fc.weight)") == once.kernel("step", "next(h.0.mlp.c_fc.weight)"));
    CHECK(once.kernel("step", "finite"));
}

TEST_CASE("formats: on a GPU products read the adjoint of a residual sum in 16 bits, and gradients of biases in fp32") {
    const std::vector<std::pair<std::string, std::string>> sizes = {{"layers", "1"},  {"heads", "2"}, {"width", "16"},
                                                                    {"context", "8"}, {"batch", "2"}, {"vocab", "17"}};
    for (const bool gpu : {false, true}) {
        CAPTURE(gpu);
        const auto features = gpu ? std::vector{Halide::Target::CUDA, Halide::Target::CUDACapability80}
                                  : std::vector<Halide::Target::Feature>{};
        const Compiled<Gpt> c(sizes, {}, {}, bf16, test_target(features));
        auto read_by = [&](const std::string &name) -> std::string {
            for (OpId id : c.program.entries.at("step").ops)
                if (const auto use = ir::use_of(c.program.ops[id]); use && c.program.ops[id].name == name)
                    return c.program.values[use->dy].type.str();
            return "none";
        };
        for (const char *name : {"d(h.0.mlp.c_proj.weight)", "d(h.0.mlp.act)", "d(h.0.attn.c_proj.weight)"}) {
            CAPTURE(name);
            CHECK(read_by(name) == (gpu ? "bfloat16" : "float32"));
        }
        CHECK(read_by("d(h.0.mlp.c_proj.bias)") == "float32");
    }
}

}  // namespace cryolite::test
