// What `explain --device cuda` says of the transfers between workers.

#include "apps/cryolite/explain/explain_exchanges.h"

#include <nlohmann/json.hpp>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

namespace {

/// A gradient in two parts, a kernel beside it, an update of each part.
Plan two_parts(const std::string &device) {
    Plan p;
    p.device = device, p.workers = 2;
    for (Role role : {Role::parameter, Role::gradient, Role::activation})
        p.buffers.push_back({.name = "h.0.w", .role = role, .type = "float32", .shape = {20000}, .bytes = 80000});
    p.buffers[2].offset = 0;
    p.kernels = {{.symbol = "k", .args = {{"float32", {20000}, true}}},
                 {.symbol = "u", .args = {{"float32", {10000}, false}, {"float32", {10000}, true}}}};
    p.plans["step"] = {
        {.kernel = 0, .name = "d(h.0.w)", .args = {{1, 0}}, .flops = 5},
        {.kernel = -1, .worker = 0, .sum = 10000, .name = "sum(d(h.0.w))", .args = {{1, 0}}},
        {.kernel = -1, .worker = 1, .sum = 10000, .name = "sum(d(h.0.w))", .args = {{1, 10000}}},
        {.kernel = 0, .name = "d(x)", .args = {{2, 0}}, .flops = 7},
        {.kernel = 1, .worker = 0, .name = "next(h.0.w)", .args = {{1, 0}, {0, 0}}},
        {.kernel = 1, .worker = 1, .name = "next(h.0.w)", .args = {{1, 10000}, {0, 10000}}},
    };
    return p;
}

}  // namespace

TEST_CASE("explain: bytes between GPUs, and what their kernels do meanwhile") {
    const json j = exchanges_json(two_parts("cuda"))["step"];
    REQUIRE(j.size() == 2);
    auto has = [](const json &e, const char *kind, const char *role, const char *after, const char *before) {
        CHECK(e["parts"] == json{{{"kind", kind}, {"of", "h.0.w"}, {"role", role}, {"bytes", 80000}}});
        CHECK(e["bytes"] == 80000);
        CHECK(e["sent_bytes"] == 40000);  // each has a half
        CHECK(e["after"] == after);
        CHECK(e["before"] == before);
    };
    has(j[0], "reduce-scatter", "gradient", "sum(d(h.0.w))", "next(h.0.w)");
    CHECK(j[0]["meanwhile"] == 1);
    CHECK(j[0]["flops_meanwhile"] == 7.0);
    has(j[1], "all-gather", "parameter", "next(h.0.w)", "");
    CHECK(j[1]["meanwhile"] == 0);
    CHECK(exchanges_json(two_parts("cpu")).empty());
    Plan alone = two_parts("cuda");
    alone.workers = 1;
    CHECK(exchanges_json(alone).empty());
}

}  // namespace cryolite::test
