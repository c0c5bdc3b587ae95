// Which placements of gradients and updates are legal: each refusal beside the nearest line that is accepted.

#include "dsl/layers/batch_norm.h"
#include "dsl/models/gpt.h"
#include "dsl/optimizers/lars.h"
#include "dsl/tensor.h"
#include "tests/support/chain.h"

namespace cryolite::test {

TEST_CASE("gradients are placed in the update of their own parameter") {
    refused([](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.down.W)); },
            "s(d(up.weight)).compute_at(next(down.weight)) is refused: a gradient can only be "
            "placed inside the "
            "update of its own parameter; the nearest legal line is "
            "s(d(up.weight)).compute_at(next(up.weight))");
    refused([](Chain &c, Step &s) { s(d(c.up.W)).compute_at(d(c.up)); }, "inside the update of its own parameter");
    refused([](Chain &c, Step &s) { s(d(c.up.W)).compute_with(next(c.up.W)); },
            "the update reads each element of the gradient once, so the line is compute_at, not compute_with; the "
            "nearest legal line is "
            "s(d(up.weight)).compute_at(next(up.weight))");
    refused([](Chain &c, Step &s) { s(next(c.up.W)).compute_at(c.up); },
            "an update can be placed with another update or at forward, and in the backward pass by a line for its "
            "gradient, s(d(w)).compute_at(next(w)); the nearest legal line is "
            "s(next(up.weight)).compute_root()");
    accepted([](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); });
    accepted([](Chain &c, Step &s) { s(next(c.up.W)).compute_root(); });
}

TEST_CASE("a gradient inside its update: not with clipping and accumulation, not where it is computed with others") {
    Lines line = [](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); };
    refused(line,
            "s(d(up.weight)).compute_at(next(up.weight)) is refused: clipping by the global norm needs the norm of the "
            "gradient summed over all micro-batches, so that sum must be stored; the nearest legal line is "
            "s(d(up.weight)).compute_root()",
            {.clip = true, .accumulate = true});
    accepted(line, {.accumulate = true});
    accepted(line, {.clip = true});
    refused([](Chain &c, Step &s) { s(d(c.norm.g)).compute_at(next(c.norm.g)); },
            "the gradient is computed together with others of its layer");
}

TEST_CASE("--deterministic: no gradient inside its update, and no layer with a state") {
    refused([](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); },
            "s(d(up.weight)).compute_at(next(up.weight)) is refused: --deterministic stores the gradients of 8 parts "
            "of a batch, and adds them in a fixed order before the update; the nearest legal line is "
            "s(d(up.weight)).compute_root()",
            {.parts = 8});
    accepted([](Chain &c, Step &s) { s(d(c.up.W)).compute_root(); }, {.parts = 8});
    struct Normed : Classifier {
        Linear head{"head", 5, classes};
        BatchNorm norm{"norm", 5};
        Shape features() const override { return {5}; }
        Tensor forward(Tensor x) override { return head(norm(x)); }
    };
    const auto lowered = [](int parts) { Compiled<Normed>({{"batch", "3"}}, {}, {.parts = parts}); };
    CHECK_ERROR(lowered(8), "[norm] BatchNorm updates a state from the whole batch, and --deterministic computes a "
                            "batch in parts: leave --deterministic out, or use a layer without a state");
    CHECK(error_of([&] { lowered(0); }) == "");
}

TEST_CASE("clipping without a stored gradient: its norm comes from inner products, before the first update") {
    Compiled<Chain> c({{"batch", "3"}}, [](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); },
                      {.clip = true});
    CHECK_FALSE(gradient_of(c.program, c.model->up.W).stored);
    std::map<std::string, int> norms;
    for (OpId id : c.program.entries.at("step").ops)
        if (auto *n = ir::as<ir::Norm>(c.program.ops[id])) norms[c.program.ops[id].name] += n->ghost() ? 100 : 1;
    CHECK(norms["norm(up.weight)"] == 100);
    CHECK(norms["norm(down.weight)"] == 1);
    const auto &plan = c.program.entries.at("step").kernels;
    auto place = [&](const std::string &stage) {
        return std::find(plan.begin(), plan.end(), c.kernel("step", stage)) - plan.begin();
    };
    CHECK(place("norm(up.weight)") < place("clip"));
    CHECK(place("clip") < place("next(up.weight)"));
    CHECK(place("clip") < place("next(down.weight)"));
}

namespace {

struct Twice : Classifier {
    Linear up{"up", 5, 5}, head{"head", 5, classes};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(up(up(x))); }
};

/// A tied table whose rows are looked up once, by two kinds of ids, and twice by one, which is one lookup.
struct LookedUp : TextModel {
    GeneratorParam<int> lookups{"lookups", 2};
    GeneratorParam<int> ids{"ids", 1};
    Embedding table{"table", 11, 6, normal(0.5)};
    TiedHead head{table};
    CrossEntropy cross_entropy{"loss"};
    Tensor forward(Tensor x) override { return head(lookups == 2 ? 0.25 * table(x) + table(x) : table(x)); }
    Tensor loss(Tensor o, Tensor targets) override {
        const Tensor loss = cross_entropy(o, targets);
        return ids == 1 ? loss : loss + mean(mean(mean(table(targets), 0), 0), 0);
    }
};

std::string of_lookups(const char *lookups, const char *ids) {
    return error_of([&] {
        Compiled<LookedUp>({{"lookups", lookups}, {"ids", ids}, {"vocab", "11"}, {"context", "5"}, {"batch", "2"}},
                           [](LookedUp &net, Step &s) { s(d(net.table.table)).compute_at(next(net.table.table)); });
    });
}

std::string of_small_gpt(const Compiled<Gpt>::Schedule &lines, StepOptions options = {}) {
    return error_of([&] {
        Compiled<Gpt>(
            {{"layers", "1"}, {"heads", "2"}, {"width", "6"}, {"vocab", "11"}, {"context", "5"}, {"batch", "2"}}, lines,
            options);
    });
}

}  // namespace

TEST_CASE("a gradient inside its update: a tied table, where it is in panels; not a weight of two products") {
    auto fused = [](Gpt &net, Step &s) { s(d(net.token.table)).compute_at(next(net.token.table)); };
    CHECK(of_small_gpt(fused) == "");
    CHECK(of_small_gpt(fused, {.clip = true}) == "");
    CHECK(of_small_gpt(fused, {.accumulate = true}) == "");
    CHECK(of_small_gpt([&](Gpt &net, Step &s) { s.layout(net.token.table, row_major()), fused(net, s); }) ==
          "s(d(wte.weight)).compute_at(next(wte.weight)) is refused: a tied table can add the rows of its lookup "
          "inside its update only where it is stored in panels, s.layout(w, panels(n, 1)); "
          "the nearest legal line is s(d(wte.weight)).compute_root()");
    CHECK(of_small_gpt([](Gpt &net, Step &s) { s.layout(net.token.table, panels(3, 1)); }) == "");
    CHECK(of_small_gpt([](Gpt &net, Step &s) { s.layout(net.token.table, panels(3, 0)); }) ==
          "s.layout(wte.weight, panels(3, 0)) is refused: [wte] adds gradients to rows of it, and a row has to lie in "
          "one panel; the nearest legal line is s.layout(wte.weight, panels(3, 1))");
    CHECK(error_of([] {
              Compiled<Twice>({{"batch", "3"}}, [](Twice &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); });
          }) ==
          "s(d(up.weight)).compute_at(next(up.weight)) is refused: the parameter is used by 2 products, and its "
          "gradient is complete only after the last of them; the nearest legal line is s(d(up.weight)).compute_root()");
    CHECK(of_lookups("1", "1") == "");
    CHECK(of_lookups("2", "1") == "");
    CHECK(
        of_lookups("1", "2") ==
        "s(d(table.weight)).compute_at(next(table.weight)) is refused: the table is looked up 2 times, and inside its "
        "update the rows of only one lookup can be added; the nearest legal line is s(d(table.weight)).compute_root()");
    // Of the residual stream, which the next norm and the next addition read.
    CHECK(of_small_gpt([](Gpt &net, Step &s) { s(net.blocks[0].norm1).compute_at(net.blocks[0].qkv); }) == "");
}

TEST_CASE("gradients are added over workers: not inside an update, for all parameters, and not placed together") {
    auto both = [](Chain &c, Step &s) {
        s(d(c)).distribute(workers);
        s(d(c.up.W)).compute_at(next(c.up.W));
    };
    refused(
        both,
        "s(d(up.weight)).compute_at(next(up.weight)) is refused: the gradients of 2 workers are added first, and each "
        "worker updates its shard of the sum; the nearest legal line is s(d(up.weight)).compute_root()",
        {.workers = 2});
    accepted(both);  // one worker has nothing to add
    accepted([](Chain &c, Step &s) { s(d(c)).distribute(workers), s(d(c.up.W)).compute_root(); }, {.workers = 2});
    refused([](Chain &c, Step &s) { s(d(c.up.W)).distribute(workers); },
            "s(d(up.weight)).distribute(workers) is refused: the workers share all parameters, so the gradients of the "
            "whole model are added; the nearest legal line is s(d(net)).distribute(workers)");
    refused([](Chain &c, Step &s) { s(d(c)).compute_root(); },
            "s(d(net)).compute_root() is refused: gradients are placed one by one, s(d(w)).compute_root(); the nearest "
            "legal "
            "line is s(d(net)).distribute(workers)");
}

TEST_CASE("with several workers every part of a parameter is updated by one of them, and --update gives the reason") {
    Compiled<Gpt> c(
        {{"layers", "1"}, {"heads", "2"}, {"width", "96"}, {"vocab", "11"}, {"context", "5"}, {"batch", "2"}}, {},
        {.clip = true, .update = "backward", .workers = 3});
    std::map<std::string, int64_t> updated, squared;
    std::map<std::string, std::set<int>> owners;
    for (OpId id : c.program.entries.at("step").ops) {
        const ir::Op &op = c.program.ops[id];
        auto *norm = ir::as<ir::Norm>(op);
        const bool update = ir::is<ir::Update>(op);
        if (!update && !norm) continue;
        CHECK_FALSE((norm && norm->ghost()));
        const ir::Shard shard = ir::shard_of(op);
        CHECK(shard.worker >= 0);
        const std::string &path = c.program.parameters[ir::parameter_of(op)].path;
        (update ? updated : squared)[path] += shard.count;
        owners[path].insert(shard.worker);
        if (update) CHECK(op.why.find("the gradients of 3 workers are added first") == 0);
    }
    for (const ir::Parameter &w : c.program.parameters) {
        CHECK(updated[w.path] == c.program.values[w.value].storage().size());
        CHECK(squared[w.path] == updated[w.path]);
        CHECK(owners[w.path].size() == (updated[w.path] >= 3 * 8192 ? 3 : 1));
        CHECK(c.program.values[w.gradient].stored);
    }
}

TEST_CASE("an update at forward leaves the step, and stands before its first use in the next one") {
    Compiled<Gpt> c(
        {{"layers", "1"}, {"heads", "2"}, {"width", "6"}, {"vocab", "11"}, {"context", "5"}, {"batch", "2"}},
        [](Gpt &net, Step &s) { s(next(net.blocks[0].up.W)).compute_at(forward); });
    const std::string update = "next(h.0.mlp.c_fc.weight)";
    CHECK_FALSE(c.kernel("step", update));
    CHECK(c.kernel("flush", update));
    const auto &plan = c.program.entries.at("deferred").kernels;
    auto place = [&](const std::string &stage) {
        return std::find(plan.begin(), plan.end(), c.kernel("deferred", stage)) - plan.begin();
    };
    CHECK(place(update) + 1 == place("h.0.mlp.c_fc"));
    CHECK(plan.size() == c.program.entries.at("forward").kernels.size() + 1);
}

TEST_CASE("an update at forward: not of a gradient that is never stored") {
    CHECK(of_small_gpt([](Gpt &net, Step &s) {
              s(next(net.blocks[0].up.W)).compute_at(forward);
              s(d(net.blocks[0].up.W)).compute_at(next(net.blocks[0].up.W));
          }) ==
          "s(d(h.0.mlp.c_fc.weight)).compute_at(next(h.0.mlp.c_fc.weight)) is refused: its update runs in the next "
          "forward pass, when the arrays that the gradient is computed from are gone; the nearest legal line is "
          "s(d(h.0.mlp.c_fc.weight)).compute_root()");
}

namespace {

/// y = sin(f x + p): the gradient of each parameter reads the other.
struct Wave : Layer {
    Parameter f{this, "f", {5}, ones}, p{this, "p", {5}, zeros};
    using Layer::Layer;
    Func forward(Array x) override {
        Var i("i"), r("r");
        Func total("total"), y("y");
        RDom k(0, x.extent(1), "k");
        total(i) += x(i, k);
        y(i, r) = sin(f(i) * x(i, r) + p(i)) * total(i);
        return y;
    }
};
struct Waves : Classifier {
    Linear up{"up", 5, 5}, head{"head", 5, classes};
    Wave wave{"wave"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(wave(up(x))); }
};
struct Untied : TextModel {
    Embedding token{"token", vocab, 6};
    Linear head{"head", 6, vocab};
    Tensor forward(Tensor x) override { return head(token(x)); }
};

}  // namespace

TEST_CASE("a gradient inside its update: not where another gradient reads the weight, or rows scatter") {
    auto wave = [](Waves &c, Step &s) { s(d(c.wave.f)).compute_at(next(c.wave.f)); };
    CHECK(error_of([&] {
              Compiled<Waves>({{"batch", "3"}}, wave);
          }).find("reads the weight as it was before its update") != std::string::npos);
    auto table = [](Untied &c, Step &s) { s(d(c.token.table)).compute_at(next(c.token.table)); };
    CHECK(error_of([&] {
              Compiled<Untied>({{"batch", "3"}}, table);
          }).find("adds at places that depend on data") != std::string::npos);
    // `backward` leaves both where they are, and places the products' weights.
    StepOptions everywhere;
    everywhere.update = "backward";
    Compiled<Waves> c(
        {{"batch", "3"}}, [](Waves &, Step &) {}, everywhere);
    CHECK(c.kernel("step", "d(wave.f)") != c.kernel("step", "next(wave.f)"));
    CHECK(c.kernel("step", "d(up.weight)") == c.kernel("step", "next(up.weight)"));
}

TEST_CASE("the old weight is read before it is replaced") {
    Compiled<Chain> c({{"batch", "3"}}, [](Chain &c, Step &s) {
        for (Linear *l : {&c.up, &c.down, &c.head}) s(d(l->W)).compute_at(next(l->W));
    });
    const auto &plan = c.program.entries.at("step").kernels;
    auto place = [&](const std::string &stage) {
        return std::find(plan.begin(), plan.end(), c.kernel("step", stage)) - plan.begin();
    };
    CHECK(place("d(norm)") < place("next(down.weight)"));
    CHECK(place("d(after)") < place("next(head.weight)"));
}

TEST_CASE("a rule that takes the gradient's norm is placed where that is known, or refused by its name") {
    auto fused = [](Direct &c, Step &s) { s(d(c.down.W)).compute_at(next(c.down.W)); };
    StepOptions whole, parts;
    parts.accumulate = true;
    CHECK(error_of([&] { Compiled<Direct, Lars>({{"batch", "3"}}, fused, whole); }) == "");
    CHECK(error_of([&] {
              Compiled<Direct, Lars>({{"batch", "3"}}, fused, parts);
          })
              .find("is refused: the optimizer 'lars' needs the norm of the gradient before it changes the first "
                    "element, so the sum over micro-batches must be stored; the nearest legal line is "
                    "s(d(down.weight)).compute_root()") != std::string::npos);
    CHECK(error_of([&] { Compiled<Direct>({{"batch", "3"}}, fused, parts); }) == "");  // AdamW takes none
}

}  // namespace cryolite::test
