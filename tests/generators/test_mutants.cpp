// Mutants: kernels whose lowered loops have one thing wrong. Candidates of a search, and automatic loops, pass the
// comparison with the unscheduled kernel before they are taken: no mutant may.

#include <array>

#include <nlohmann/json.hpp>

#include "dsl/layers/activation.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "generators/codegen/compare.h"
#include "tests/support/slow.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

using namespace Halide::Internal;
using nlohmann::json;

/// What is wrong: a load's index is one more; a sum lacks its second term; a loop lacks its last iteration; an
/// iteration does the work of the one before; a store's index is one more; beside a store, another lies past the end.
enum class Wrong { index, term, tail, overlap, store, outside };
constexpr std::array<const char *, 6> names = {"index", "term", "tail", "overlap", "store", "outside"};

/// One thing wrong, at one of the places where it could be.
class Mutation : public IRMutator {
public:
    std::array<int, names.size()> sites{};  ///< that were seen, by what could be wrong there

    explicit Mutation(Wrong wrong = Wrong::index, int site = -1, int past_end = 0)
        : wrong_(wrong), site_(site), past_end_(past_end) {}

private:
    const Wrong wrong_;
    const int site_, past_end_;
    using IRMutator::visit;

    bool here(Wrong w) { return sites[size_t(w)]++ == site_ && w == wrong_; }
    static Expr one_more(const Expr &index) { return index + make_one(index.type()); }

    Expr visit(const Load *op) override {
        if (!op->type.is_float() || !here(Wrong::index)) return IRMutator::visit(op);
        return Load::make(op->type, op->name, one_more(op->index), op->image, op->param, op->predicate, {});
    }
    Expr visit(const Add *op) override {
        return op->type.is_float() && here(Wrong::term) ? mutate(op->a) : IRMutator::visit(op);
    }
    Stmt visit(const For *op) override {
        const Expr v = Variable::make(Halide::Int(32), op->name);
        const bool shorter = here(Wrong::tail), twice = here(Wrong::overlap);
        if (!shorter && !twice) return IRMutator::visit(op);
        return For::make(op->name, op->min, shorter ? op->extent - 1 : op->extent, op->for_type, op->partition_policy,
                         op->device_api, twice ? substitute(op->name, v - v % 2, op->body) : op->body);
    }
    Stmt visit(const Store *op) override {
        if (!op->value.type().is_float()) return IRMutator::visit(op);
        if (here(Wrong::store))
            return Store::make(op->name, op->value, one_more(op->index), op->param, op->predicate, {});
        if (!op->param.defined() || !here(Wrong::outside)) return IRMutator::visit(op);
        const Stmt past =
            Store::make(op->name, make_one(op->value.type().element_of()), past_end_, op->param, const_true(), {});
        return Block::make(op, past);
    }
};

/// Sizes that no tile divides.
struct Net : Classifier {
    Relu relu{"relu"};
    Linear up{"up", 21, 40}, down{"down", 40, 24}, head{"head", 24, classes};
    LayerNorm norm{"norm", 24};
    Shape features() const override { return {21}; }
    Tensor forward(Tensor x) override { return head(norm(down(relu(up(x))))); }
};

/// A kernel, what it has to compute, and what it computes as it is.
struct Subject {
    KernelId kernel;
    Expected expected{};
    std::vector<std::string> own{};
    std::array<int, names.size()> sites{};
};

struct Mutant {
    const Subject *subject;
    Wrong wrong;
    int site;
};

class Mutants {
public:
    /// Of the kernels of these operations of a step; `all`: compared on all inputs, else on random ones.
    Mutants(const std::vector<std::string> &operations, bool all)
        : c({{"batch", "13"}}, {}, {}, fp32, few_registers()), all_inputs(all) {
        for (const std::string &name : operations) {
            INFO(name);
            const KernelId forward = c.kernel("forward", name), k = forward ? forward : c.kernel("step", name);
            REQUIRE(k);
            subjects.push_back({.kernel = k});
        }
        share_jit_runtime();
        run_children(
            int(subjects.size()), 2, 300, [&](int n) { return look_at(subjects[size_t(n)]); },
            [&](int n, const ChildResult &r) {
                Subject &s = subjects[size_t(n)];
                INFO(name(s));
                REQUIRE(r.error == "");
                const json j = json::from_cbor(r.output);
                s.sites = j["sites"];
                for (const json &o : j["outputs"]) {
                    s.expected.outputs.emplace_back(Inputs(o[0].get<int>()), text(o[1]));
                    s.own.push_back(text(o[2]));
                }
                CHECK(!s.own.empty());
            });
    }

    /// So many of each kernel for each thing that may be wrong, at places evenly apart.
    std::vector<Mutant> list(int each) const {
        std::vector<Mutant> all;
        for (const Subject &s : subjects)
            for (size_t w = 0; w < size_t(Wrong::outside); w++)
                for (int i = 0, n = std::min(each, s.sites[w]); i < n; i++)
                    all.push_back({&s, Wrong(w), i * s.sites[w] / n});
        return all;
    }

    /// Of mutants of a kind.
    struct Count {
        int known = 0, accepted = 0;  ///< known not to be equivalent
    };
    /// What the comparison says of each.
    std::array<Count, names.size()> compare(const std::vector<Mutant> &mutants) const {
        std::array<Count, names.size()> counts;
        run_children(
            int(mutants.size()), 2, 120, [&](int n) { return try_one(mutants[size_t(n)]); },
            [&](int n, const ChildResult &r) {
                const Mutant &m = mutants[size_t(n)];
                Count &count = counts[size_t(m.wrong)];
                const json j = r.error.empty() ? json::parse(r.output) : json{{"off", 1}, {"refused", r.error}};
                const double off = j["off"];
                const std::string refused = j["refused"];
                // Rounding is far below; what differs by more computes something else.
                count.known += off > 1e-5;
                count.accepted += off > 1e-5 && refused.empty();
                INFO(std::string(names[size_t(m.wrong)]), " ", m.site, " of '", name(*m.subject), "' is off by ", off);
                CHECK((off <= 1e-5 || refused != ""));
            });
        return counts;
    }

    const std::string &name(const Subject &s) const { return c.program.kernels[s.kernel].name; }
    /// What the comparison says of a kernel that computes what it should, and writes one element past its output's end.
    std::string of_one_past_the_end(const Subject &s) const {
        return in_child([&] {
            BuiltKernel built = build(s);
            int64_t end = 0;
            for (const KernelArgument &a : built.arguments)
                if (a.written) end = Shape(a.extents).size();
            Mutation mutation(Wrong::outside, 0, int(end));
            built.pipeline.add_custom_lowering_pass(&mutation, nullptr);
            KernelTrial trial(c.program, c.program.kernels[s.kernel], built, c.machine, false);
            return error_of([&] { hold_against(s.expected, built, trial); });
        });
    }

    Compiled<Net> c;
    std::vector<Subject> subjects;

private:
    const bool all_inputs;

    /// Tiles of fewer registers are compiled in less time.
    static Halide::Target few_registers() {
        Halide::Target t = test_target();
        if (t.arch != Halide::Target::X86) return t;
        t = Halide::Target("x86-64-linux-sse41-avx-f16c-fma-avx2");
        for (auto f : {Halide::Target::NoRuntime, Halide::Target::UserContext, Halide::Target::NoAsserts,
                       Halide::Target::NoBoundsQuery})
            t.set_feature(f);
        return t;
    }
    static std::string text(const json &binary) {
        const auto &bytes = binary.get_binary();
        return {bytes.begin(), bytes.end()};
    }
    BuiltKernel build(const Subject &s) const {
        return build_kernel(c.program, c.program.kernels[s.kernel], c.machine, {.bounds = false});
    }
    std::string look_at(const Subject &s) const {
        const ir::Kernel &k = c.program.kernels[s.kernel];
        BuiltKernel built = build(s);
        const Expected e = unscheduled_outputs(c.program, k, built, c.machine, 60, all_inputs);
        Mutation counting;
        built.pipeline.add_custom_lowering_pass(&counting, nullptr);
        KernelTrial trial(c.program, k, built, c.machine, false);
        json j = {{"sites", counting.sites}, {"outputs", json::array()}};
        for (auto &[inputs, bytes] : e.outputs) {
            const std::string own = trial.run(inputs);
            j["outputs"].push_back(
                {int(inputs), json::binary({bytes.begin(), bytes.end()}), json::binary({own.begin(), own.end()})});
        }
        const std::vector<uint8_t> packed = json::to_cbor(j);
        return {packed.begin(), packed.end()};
    }
    std::string try_one(const Mutant &m) const {
        const Subject &s = *m.subject;
        const ir::Kernel &k = c.program.kernels[s.kernel];
        BuiltKernel built = build(s);
        Mutation mutation(m.wrong, m.site);
        built.pipeline.add_custom_lowering_pass(&mutation, nullptr);
        KernelTrial trial(c.program, k, built, c.machine, false);
        const std::string refused = error_of([&] { hold_against(s.expected, built, trial); });
        double off = 0;
        const std::string fails = error_of([&] {
            for (size_t i = 0; i < s.own.size(); i++)
                off = std::max(off, distance(built, s.own[i], trial.run(s.expected.outputs[i].first)));
        });
        if (!fails.empty()) off = 1;
        return json{{"off", off}, {"refused", refused}}.dump(-1, ' ', false, json::error_handler_t::replace);
    }
};

}  // namespace

TEST_CASE("mutants: one of each kind, and a kernel that writes past the end of its output, are refused") {
    const Mutants few({"up"}, false);
    int known = 0;
    for (const auto &count : few.compare(few.list(1))) known += count.known;
    CHECK(known >= 4);
    // What it computes is right.
    CHECK(few.of_one_past_the_end(few.subjects[0]) == "'up' writes past the end of a buffer");
}

TEST_CASE("mutants: 300 that are known not to be equivalent, none of which is accepted" * slow()) {
    const Mutants all({"up", "relu", "norm", "head", "d(up)", "d(down)", "d(norm)", "d(up.weight)", "next(up.weight)"},
                      true);
    const auto counts = all.compare(all.list(18));
    int known = 0, accepted = 0;
    for (size_t w = 0; w < size_t(Wrong::outside); w++) {
        MESSAGE(std::string(names[w]), ": ", counts[w].known, " known, ", counts[w].accepted, " accepted");
        CHECK(counts[w].known >= 20);
        known += counts[w].known, accepted += counts[w].accepted;
    }
    CHECK(known >= 300);
    CHECK(accepted == 0);
}

}  // namespace cryolite::test
