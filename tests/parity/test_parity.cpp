// Ten AdamW steps against PyTorch's, from goldens.json, which make_goldens.py writes.

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

const json &goldens() {
    static const json all = json::parse(read_file(source_file("tests/parity/goldens.json")));
    return all;
}

void check_losses(TrainingCase &c, const json &golden) {
    for (size_t s = 0; s < golden["losses"].size(); s++) {
        double loss = c.step(), expected = golden["losses"][s];
        CAPTURE(s);
        CHECK(std::abs(loss - expected) < 1e-4 * expected);
    }
}

/// Every kept place of every tensor, within a thousandth of the largest update of the run.
void check_weights(TrainingCase &c, const json &golden) {
    double largest = golden["largest_update"];
    REQUIRE(c.parameters().size() == golden["tensors"].size());
    for (auto &[name, t] : golden["tensors"].items()) {
        std::vector<float> w = c.values(Role::parameter, name);
        size_t width = w.size() / 3;
        for (size_t k = 0; k < t["at"].size(); k++) {
            size_t i = t["at"][k];
            CAPTURE(name);
            CAPTURE(i);
            // The softmax does not see the bias of the keys: its gradient is rounding alone, and
            // Adam divides it by itself.
            if (name.ends_with("c_attn.bias") && i >= width && i < 2 * width) continue;
            CHECK(std::abs(w[i] - t["final"][k].get<double>()) < 1e-3 * largest);
        }
    }
}

void check_case(const std::string &name, const std::string &flags) {
    const json &golden = goldens().at(name);
    TrainingCase c(golden["args"], flags);
    check_losses(c, golden);
    check_weights(c, golden);
}

}  // namespace

TEST_CASE("parity: even shapes" * slow()) { check_case("even", "--update separate"); }
TEST_CASE("parity: odd shapes") { check_case("odd", "--update separate"); }
TEST_CASE("parity: updates inside the backward pass" * slow()) {
    check_case("even", "--update backward");
    check_case("odd", "--update backward");
}
TEST_CASE("parity: clipped by the global norm" * slow()) { check_case("odd, clipped", "--update separate"); }
TEST_CASE("parity: clipped, no gradient of a product stored") { check_case("odd, clipped", "--update backward"); }
TEST_CASE("parity: updates at the next use" * slow()) { check_case("odd, clipped", "--update forward"); }
TEST_CASE("parity: accumulated over micro-batches" * slow()) { check_case("even, accumulated", "--update separate"); }
TEST_CASE("parity: accumulated, updates inside the last backward pass" * slow()) {
    check_case("even, accumulated", "--update backward");
}
TEST_CASE("parity: clipped and accumulated") { check_case("even, clipped and accumulated", "--update auto"); }

TEST_CASE("parity: the gradient of every parameter") {
    for (const char *name : {"even", "odd"}) {
        const json &golden = goldens().at(name);
        TrainingCase c(golden["args"], "--update separate");
        c.step();
        for (auto &[tensor, t] : golden["tensors"].items()) {
            std::vector<float> g = c.values(Role::gradient, tensor);
            double norm = 0;
            for (float x : g) norm += double(x) * x;
            CAPTURE(tensor);
            CHECK(std::sqrt(norm) == doctest::Approx(t["gradient_norm"].get<double>()).epsilon(1e-4));
            for (size_t k = 0; k < t["at"].size(); k++)
                CHECK(std::abs(g[t["at"][k]] - t["gradient"][k].get<double>()) <
                      1e-4 * t["gradient_max"].get<double>());
        }
    }
}

}  // namespace cryolite::test
