// Whole steps whose products are cuBLASLt's, on the device cuda against doubles of the driver and of the library: those
// compute on the host what is put into the streams. Halide's kernels are those of the CPU, whose plan is changed to be
// the GPU's: nothing here runs PTX. So the losses and the weights have to be the CPU's.

#include "tests/parity/on_doubles.h"

namespace cryolite::test {

namespace {

/// Trains the step on both; which products the library computed.
std::set<std::string> check_training(const json &args, const std::string &flags) {
    CAPTURE(args.dump());
    CAPTURE(flags);
    OnDoubles on(args);
    const Trained expected = train_bundle(compile_gpt(args, flags, on.folder / "cpu"), on.accumulate, on.clip);
    OnRecorder made = on_recorder(on.folder / "cpu", on.folder / "cuda");
    const Trained got = train_bundle(std::move(made.bundle), on.accumulate, on.clip, "cuda");
    on.check_calls();
    REQUIRE(got.losses.size() == expected.losses.size());
    for (size_t s = 0; s < got.losses.size(); s++)
        CHECK(std::abs(got.losses[s] - expected.losses[s]) < 1e-5 * expected.losses[s]);
    CHECK(got.losses.front() != got.losses.back());
    REQUIRE(got.weights.size() == expected.weights.size());
    double worst = 0;
    for (size_t w = 0; w < got.weights.size(); w++)
        for (size_t i = 0; i < got.weights[w].size(); i++)
            worst = std::max(worst, std::abs(double(got.weights[w][i]) - expected.weights[w][i]));
    CHECK(worst < 2e-3);  // Adam divides small gradients by their own size: a fifth of a step
    return made.products;
}

}  // namespace

TEST_CASE("cublaslt: with factors of TF32 losses are the CPU's to its digits, and not those of float32") {
    const json args = {{"layers", 2}, {"heads", 2}, {"width", 32}, {"context", 13}, {"batch", 2}, {"vocab", 19}};
    UseRecorder cuda;
    UseCublasLtRecorder lt;
    Scratch folder;
    const Trained expected = train_bundle(compile_gpt(args, "--update separate", folder / "cpu"));
    const Trained plain = train_bundle(on_recorder(folder / "cpu", folder / "fp32").bundle, 1, 0, "cuda");
    lt.recorder.calls.clear();
    const Trained got =
        train_bundle(on_recorder(folder / "cpu", folder / "tf32", true, "tfloat32").bundle, 1, 0, "cuda");
    for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
    CHECK(lt.recorder.calls.size() > 20);
    for (const CublasLtRecorder::Call &c : lt.recorder.calls) CHECK(c.compute == 77);
    REQUIRE(got.losses.size() == expected.losses.size());
    size_t others = 0;  // a loss may round to the same float32
    for (size_t s = 0; s < got.losses.size(); s++) {
        CHECK(std::abs(got.losses[s] - expected.losses[s]) < 1e-2);
        others += got.losses[s] != plain.losses[s];
    }
    CHECK(others > got.losses.size() / 2);
    CHECK(got.weights != plain.weights);
}

TEST_CASE("cublaslt: losses and weights of whole steps are the CPU's") {
    json args = {{"layers", 2}, {"heads", 2}, {"width", 32}, {"context", 13}, {"batch", 2}, {"vocab", 19}};
    std::set<std::string> products = check_training(args, "--update separate");
    args["width"] = 22, args["clip"] = 0.7, args["accumulate"] = 2;
    products.merge(check_training(args, "--update separate"));
    args = {{"layers", 1}, {"heads", 2}, {"width", 24}, {"context", 8}, {"batch", 2}, {"vocab", 19}};
    products.merge(check_training(args, "--lines 's.layout(h.0.mlp.c_fc.weight, row_major()); "
                                        "s.layout(h.0.mlp.c_proj.weight, row_major());'"));
    std::string all;
    for (const std::string &p : products) all += p + "; ";
    CAPTURE(all);
    for (const char *words :
         {"panels y bias", "panels y bias gelu_tanh", "panels y bias, add", "panels dx", "panels dx d_gelu_tanh",
          "panels dW", "panels dW accumulate", "rows y bias", "rows dx", "rows dW"}) {
        CAPTURE(words);
        CHECK(products.count(words) == 1);
    }
}

}  // namespace cryolite::test
