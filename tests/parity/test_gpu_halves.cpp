// Whole steps in bf16 and fp16 whose products are cuBLASLt's, on the device cuda against doubles of the driver and of
// the library. Products are those that the compiler makes for the GPU. All other kernels are OpenCL's, which have the
// GPU's formats, on PoCL. The same step with Halide's products on OpenCL says what losses have to be.

#include "tests/parity/on_doubles.h"
#include "tests/parity/opencl.h"

namespace cryolite::test {

namespace {

/// Three steps, then one with a gain that is not finite, whose update is withheld, then one more.
struct Course {
    std::vector<double> losses;
    uint64_t withheld = 0;
    double loss_scale = 0;  ///< that it leaves
};

Course train(const std::shared_ptr<Bundle> &bundle, int accumulate, double clip, const std::string &on) {
    const auto device = make_device(on, 1);
    Trainer t(bundle, *device);
    auto find = [&](const char *name) { return t.plan().find(Role::parameter, name); };
    auto values = [&](int buffer) {
        t.flush();
        std::vector<float> v(size_t(t.plan().buffers[size_t(buffer)].elements()));
        return t.get(buffer, v), v;
    };
    // Weights so large that GELU bends, softmax chooses, and a wrong product is seen in the loss.
    for (size_t b = 0; b < t.plan().buffers.size(); b++) {
        const PlanBuffer &w = t.plan().buffers[b];
        if (w.role != Role::parameter) continue;
        std::vector<float> v(size_t(w.elements()));
        for (size_t i = 0; i < v.size(); i++)
            v[i] = (w.name.find("ln_") == std::string::npos ? 6 : 1) * formula_weight(w.name, i);
        t.put(int(b), v);
    }
    t.set("lr", 1e-3), t.set("clip", clip);
    Batch batch;
    uint64_t at = 0;
    auto next = [&]() -> const Batch & {
        batch.tokens.clear(), batch.targets.clear();
        for (int i = 0; i < t.batch() * t.rows_per_example(); i++, at++) {
            batch.tokens.push_back(int32_t(formula_bits("tokens", at) % 19));
            batch.targets.push_back(int32_t(formula_bits("tokens", at + 1) % 19));
        }
        return batch;
    };
    Course c;
    for (int s = 0; s < 3; s++) c.losses.push_back(t.step(next, accumulate));
    const int gain = find("ln_f.weight"), weight = find("h.0.mlp.c_fc.weight");
    const std::vector<float> good = values(gain), before = values(weight);
    std::vector<float> bad = good;
    bad[3] = INFINITY;
    const uint64_t withheld = t.withheld();
    t.put(gain, bad);
    t.step(next, accumulate);
    CHECK(values(weight) == before);
    CHECK(t.withheld() == withheld + 1);
    t.put(gain, good);
    c.losses.push_back(t.step(next, accumulate));
    CHECK(values(weight) != before);
    c.withheld = t.withheld(), c.loss_scale = t.loss_scale();
    return c;
}

/// A product that the library computes in a plan for CUDA: in which pass, by which call, of which arguments.
struct Found {
    std::string entry, call;
    Product product;
    std::vector<PlanArgument> args;
    bool is(const std::string &in, const PlanCall &c, const PlanKernel &k) const {
        return entry == in && call == c.name &&
               std::ranges::equal(args, k.args, [](const PlanArgument &x, const PlanArgument &y) {
                   return x.type == y.type && x.extents == y.extents;
               });
    }
};
std::vector<Found> products_of(const Plan &cuda) {
    std::vector<Found> all;
    for (const auto &[entry, calls] : cuda.plans)
        for (const PlanCall &c : calls)
            if (const PlanKernel &k = cuda.kernels[size_t(c.kernel)]; k.chosen >= 0)
                all.push_back({entry, c.name, k.dialects[size_t(k.chosen)].product, k.args});
    return all;
}

std::set<std::string> check_training(const json &args, const std::string &flags, double tolerance) {
    CAPTURE(args.dump());
    CAPTURE(flags);
    OnDoubles on(args);
    const std::shared_ptr<Bundle> opencl = compile_gpt(args, flags + " --device opencl", on.folder / "opencl");
    const Course expected = train(opencl, on.accumulate, on.clip, "opencl");
    const std::vector<Found> products =
        products_of(compile_gpt(args, flags + " --device cuda --dialect cublaslt", on.folder / "products")->plan);
    size_t taken = 0;
    OnRecorder made = on_recorder(on.folder / "opencl", on.folder / "cuda", [&](int kernel) -> std::optional<Product> {
        std::optional<Product> product;
        for (const auto &[entry, calls] : opencl->plan.plans)
            for (const PlanCall &c : calls)
                for (const Found &f : products)
                    if (c.kernel == kernel && f.is(entry, c, opencl->plan.kernels[size_t(kernel)]))
                        product = f.product, taken++;
        return product;
    });
    CHECK(taken == products.size());
    CHECK(taken > 14);  // all products but those of attention
    const Course got = train(made.bundle, on.accumulate, on.clip, "cuda");
    on.check_calls();
    REQUIRE(got.losses.size() == expected.losses.size());
    double worst = 0;
    for (size_t s = 0; s < got.losses.size(); s++)
        worst = std::max(worst, std::abs(got.losses[s] / expected.losses[s] - 1));
    CHECK(worst < tolerance);
    CHECK(got.losses.front() != got.losses.back());
    CHECK(got.withheld == expected.withheld);
    CHECK(got.loss_scale == expected.loss_scale);
    MESSAGE(taken << " calls of the library; losses differ by " << worst << " at most: " << flags);
    return made.products;
}

const json sizes = {{"layers", 1}, {"heads", 2}, {"width", 32}, {"context", 13}, {"batch", 2}, {"vocab", 19}};

/// `tolerance`: of losses, relative; additions in another order come to a third of it.
void check_products(const std::string &flags, double tolerance) {
    json args = sizes;
    std::set<std::string> products = check_training(args, flags, tolerance);
    args["width"] = 24, args["clip"] = 0.7, args["accumulate"] = 2;
    products.merge(check_training(args, flags, tolerance));
    std::string all;
    for (const std::string &p : products) all += p + "; ";
    CAPTURE(all);
    for (const char *words : {"rows y", "rows y bias", "rows y bias gelu_tanh", "rows y bias, add", "rows dx",
                              "rows dW", "rows dW accumulate"}) {
        CAPTURE(words);
        CHECK(products.count(words) == 1);
    }
}

}  // namespace

TEST_CASE("gpu halves: losses and withheld updates of whole steps in bf16 are those of Halide's products") {
    if (opencl_is_here()) check_products("--precision bf16 --update separate", 4e-3);
}

TEST_CASE("gpu halves: losses, scales and withheld updates in fp16, too") {
    if (opencl_is_here()) check_products("--precision fp16 --update separate", 5e-4);
}

}  // namespace cryolite::test
