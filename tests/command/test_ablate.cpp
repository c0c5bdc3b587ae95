// What `bench --ablate` compares.

#include "apps/cryolite/explain/ablate.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

namespace cryolite::test {

namespace {

/// What the flag is at last; empty: it is not there.
std::string flag(const TimedVariant &v, const std::string &name) {
    const auto at = std::find(v.flags.rbegin(), v.flags.rend(), "--" + name);
    return at == v.flags.rend() ? "" : *(at - 1);
}

}  // namespace

TEST_CASE(
    "ablate: steps of 16 bits take turns with those without their check of gradients, and differ in nothing else") {
    std::set<std::string> compared;
    for (const AblationGroup &g : ablation_groups("")) {
        if (flag(g.variants[0], "finite-check").empty()) continue;
        REQUIRE(g.variants.size() == 2);
        CHECK(flag(g.variants[0], "finite-check") == "off");
        CHECK(flag(g.variants[1], "finite-check") == "on");
        std::string what;
        for (const char *same : {"precision", "clip", "update"}) {
            CHECK(flag(g.variants[0], same) == flag(g.variants[1], same));
            what += flag(g.variants[0], same) + " ";
        }
        CHECK(g.variants[0].flags.size() == g.variants[1].flags.size());
        compared.insert(what);
    }
    CHECK(compared == std::set<std::string>{"bf16 0 auto ", "bf16 0 separate ", "bf16 1 auto ", "bf16 1 separate ",
                                            "fp16 0 auto ", "fp16 0 separate ", "fp16 1 auto ", "fp16 1 separate "});
}

TEST_CASE("ablate: a format that is named is the only one, and every directive of it is compared") {
    CHECK(ablation_groups("tf32").empty());
    for (const char *precision : {"fp32", "bf16", "fp16"}) {
        const auto groups = ablation_groups(precision);
        CHECK(groups.size() == (std::string(precision) == "fp32" ? 2 : 6));
        CHECK(std::ranges::count_if(groups, [](auto &g) { return g.variants.size() == 7; }) == 2);
        for (const AblationGroup &g : groups)
            for (const TimedVariant &v : g.variants) CHECK(flag(v, "precision") == precision);
    }
}

}  // namespace cryolite::test
