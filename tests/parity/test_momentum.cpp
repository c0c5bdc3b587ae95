// Rules whose state is made of the weight as it was: the update stores the new one beside it.

#include <set>

#include "tests/parity/losses_case.h"

namespace cryolite::test {

TEST_CASE("momentum: a row that no token selects decays by the weight as it was") {
    for (const char *update : {"separate", "forward", "backward"}) {
        CAPTURE(update);
        LossesCase c(1, fmt::format("--optimizer sgd --update {}", update), 1, 1, 24);
        std::set<int> used(c.data.tokens.begin(), c.data.tokens.end());
        int row = 0;
        while (used.count(row)) row++;
        REQUIRE(row < c.vocab);
        constexpr double lr = 0.1, decay = 0.1, momentum = 0.8;
        c.trainer.set("lr", lr), c.trainer.set("weight-decay", decay), c.trainer.set("beta1", momentum);
        double w = 1, v = 0;
        for (int s = 0; s < 5; s++) {
            c.trainer.step([&]() -> const Batch & { return c.data; }, 1);
            v = momentum * v + decay * w, w -= lr * v;
        }
        c.trainer.flush();
        std::vector<float> table(size_t(c.vocab * width));
        c.trainer.get(c.trainer.plan().find(Role::parameter, "token.weight"), table);
        for (int i = row * width; i < (row + 1) * width; i++)
            CHECK(table[size_t(i)] == doctest::Approx(w * c.weights.at("token.weight")[size_t(i)]).epsilon(1e-6));
    }
}

}  // namespace cryolite::test
