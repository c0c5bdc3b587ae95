// Kernels of layers that know whether they train, with their loop schedules and without; what they read and write.

#include <algorithm>

#include "dsl/layers/batch_norm.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/pooling.h"
#include "schedules/models/gpt.h"
#include "tests/support/kernels.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

struct Normed : Classifier {
    Conv2D stem{"stem", 3, 11, 3};
    BatchNorm norm{"norm", 11};
    Relu relu{"relu"};
    MeanPool mean{"mean"};
    Linear head{"head", 11, classes};

    Shape features() const override { return {3, 7, 5}; }
    Tensor forward(Tensor x) override { return head(mean(relu(norm(stem(x))))); }
};

/// A state that its layer reads as it was and as it is.
struct Greedy : BatchNorm {
    using BatchNorm::BatchNorm;
    Expr next(const LayerState &state, const Expr &old, const std::vector<Var> &at, const Call &) override {
        return old + state(at[0]);
    }
};
struct Forgetful : BatchNorm {
    using BatchNorm::BatchNorm;
    Expr next(const LayerState &s, const Expr &old, const std::vector<Var> &at, const Call &c) override {
        return Layer::next(s, old, at, c);
    }
};
template <typename Norm> struct With : Classifier {
    Norm norm{"norm", 5};
    Linear head{"head", 5, classes};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(norm(x)); }
};

const ModelArguments three_rows = {{"batch", "3"}};

ModelArguments dropping() {
    ModelArguments a = ragged_gpt();
    a.push_back({"dropout", "0.25"});
    return a;
}

std::vector<std::string> read_by(const StepProgram &p, const ir::Op &op) {
    std::vector<std::string> names;
    for (const ir::Ref &r : op.reads) names.push_back(p.values[r.value].name);
    return names;
}

/// The calls of layers of this kind.
std::vector<CallId> calls_of(const StepProgram &p, const std::string &kind) {
    std::vector<CallId> list;
    for (CallId c : p.calls.ids())
        if (p.layer(c).kind == kind) list.push_back(c);
    return list;
}

}  // namespace

TEST_CASE("schedules: dropout, also in the epilogues of products") {
    auto drops = [](const StepProgram &p, const ir::Kernel &k) {
        return std::ranges::any_of(k.ops, [&](OpId id) {
            const auto c = ir::call_of(p.ops[id]);
            return c && p.layer(*c).kind == "Dropout";
        });
    };
    Compiled<Gpt> c(dropping(), schedule_gpt);
    check_kernels(c, 3e-5, drops);
    CHECK(c.kernel("forward", "h.0.attn.resid_dropout") == c.kernel("forward", "h.0.attn.c_proj"));
}

TEST_CASE("dropout: no mask is stored, and its gradient reads nothing that is kept") {
    {
        Compiled<Gpt> without(ragged_gpt(), schedule_gpt);
        CHECK(calls_of(without.program, "Dropout").empty());
        for (const ir::Value &v : without.program.values) CHECK(v.name != "mode");
    }
    Compiled<Gpt> c(dropping(), schedule_gpt);
    const StepProgram &p = c.program;
    const std::vector<CallId> calls = calls_of(p, "Dropout");
    CHECK(calls.size() == 3);
    int gradients = 0;
    for (OpId id : p.entries.at("step").ops) {
        auto *g = ir::as<ir::InputGrad>(p.ops[id]);
        if (!g || p.layer(g->call).kind != "Dropout") continue;
        gradients++;
        const std::string path = p.layer(g->call).path;
        for (const ir::Ref &r : p.ops[id].reads) {
            const std::string &name = p.values[r.value].name;
            CAPTURE(name);
            CHECK((r.value == g->dy || name == "mode" || name == path + ".stream" ||
                   std::ranges::count(g->addends, r.value)));
        }
    }
    CHECK(gradients == 3);
    // Every array is a value of a layer, or an adjoint of one.
    for (ValueId v : p.values.ids())
        if (p.values[v].role == ir::Role::activation)
            CHECK((p.values[v].producer || p.values[v].name.starts_with("d(") || v == p.loss));
}

TEST_CASE("schedules: batch norm, and the states that it keeps") { check_kernels(Compiled<Normed>(three_rows)); }
TEST_CASE("schedules: batch norm, accumulating over micro-batches" * slow()) {
    check_kernels(Compiled<Normed>(three_rows, {}, {.accumulate = true}));
}

TEST_CASE("batch norm: one pass over the rows makes mean and variance, one more the sums of its gradient") {
    const Compiled<Normed> c(three_rows);
    const std::pair<const char *, int> passes_over_rows[] = {{"norm", 1},    {"norm.rescaled", 0},  {"d(norm)", 1},
                                                             {"d(stem)", 0}, {"d(norm.weight)", 0}, {"next(norm)", 0}};
    auto sums = [&](int i) {
        const KernelId k = c.kernel(i < 2 ? "forward" : "step", passes_over_rows[i].first);
        int n = 0;
        for (const Func &f :
             build_kernel(c.program, c.program.kernels[k], c.machine, {.scheduled = false}).group.funcs())
            n += f.has_update_definition();
        return std::to_string(n);
    };
    run_children(6, 2, 60, sums, [&](int i, const ChildResult &r) {
        CAPTURE(passes_over_rows[i].first);
        CHECK(r.error == "");
        CHECK(r.output == std::to_string(passes_over_rows[i].second));
    });
}

TEST_CASE("batch norm: its states are read by every pass, written by those of training, and not trained") {
    Compiled<Normed> c({{"batch", "4"}}, {}, {.accumulate = true});
    const StepProgram &p = c.program;
    const ParamId mean = p.parameter_ids.at(&c.model->norm.mean);
    CHECK(p.parameters[mean].state);
    CHECK(!p.parameters[mean].trained());
    CHECK(!p.parameters[mean].gradient);
    CHECK(p.parameters[mean].states.empty());
    CHECK(p.spared == ir::Spared{});  // nothing was to be trained there
    for (auto [name, written] : {std::pair{"forward", false}, {"first", true}, {"accumulate", true}, {"step", true}}) {
        int writes = 0;
        for (OpId id : p.entries.at(name).ops) {
            writes += ir::writes(p.ops[id], p.parameters[mean].value);
            if (auto *n = ir::as<ir::NextState>(p.ops[id])) {
                CHECK(n->states.size() == 2);  // from the same sums
                CHECK(read_by(p, p.ops[id]) == std::vector<std::string>{"norm"});
            }
        }
        CHECK(writes == int(written));
    }
}

TEST_CASE("states: with several workers one of them writes, for all") {
    Compiled<Normed> c({{"batch", "2"}}, {}, {.workers = 2});
    int found = 0;
    for (const ir::Op &op : c.program.ops)
        if (auto *n = ir::as<ir::NextState>(op)) {
            CHECK(n->shard == ir::Shard{0, 0, 11});
            found++;
        }
    CHECK(found == 1);
}

TEST_CASE("states: a layer that reads one as it was, or says nothing of it, is refused by name") {
    using Reads = With<Greedy>;
    CHECK_ERROR(Compiled<Reads>(three_rows, {}), "'next(norm)' reads 'norm.running_mean', whose old value may already "
                                                 "be overwritten: in next(), read a state only as its argument `old`");
    using Says = With<Forgetful>;
    CHECK_ERROR(Compiled<Says>(three_rows, {}),
                "[norm] Forgetful does not define the next value of its state 'running_mean': write next()");
}

}  // namespace cryolite::test
