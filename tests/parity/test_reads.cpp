// Two layers of one type that differ in a data member train as two of different types do, with and without a value that
// is rematerialised for one of them.

#include "tests/parity/case.h"

namespace cryolite::test {

TEST_CASE("reads: layers of one type and of two, values stored and rematerialised, all the same bits") {
    Scratch folder;
    auto trained = [&](int types, int again) {
        const std::string flags = fmt::format(" --param types={} --param again={}", types, again);
        const fs::path bundle = folder.path / fmt::format("{}{}", types, again);
        return train_bundle(
            compile_program("tests/curves", "--param batch=2 --param context=8 --param vocab=19" + flags, bundle));
    };
    const Trained expected = trained(2, 1);
    CHECK(std::isfinite(expected.losses[2]));
    for (auto [types, again] : {std::pair{1, 1}, {2, 2}, {1, 2}}) {
        CAPTURE(types);
        CAPTURE(again);
        const Trained t = trained(types, again);
        CHECK(t.losses == expected.losses);
        CHECK(t.weights == expected.weights);
    }
}

}  // namespace cryolite::test
