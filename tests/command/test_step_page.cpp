// The page of `explain --html`: well-formed, alone, and with names as they are.

#include "apps/cryolite/explain/page/step_page.h"

#include <nlohmann/json.hpp>

#include "apps/cryolite/explain/page/arena_json.h"
#include "tests/runtime/scratch.h"
#include "tests/support/html_elements.h"

namespace cryolite::test {

using nlohmann::json;

namespace {

constexpr const char *hostile = "h.0.<script src=\"x\">&'";

json step_of(const std::string &name) {
    const json call = {{"name", name},
                       {"flops", 2e6},
                       {"bytes", 1000},
                       {"roof_s", 1e-5},
                       {"bound", "compute"},
                       {"loops", name},
                       {"dialect", name},
                       {"why", name},
                       {"kernel", "k"},
                       {"stages", {{{"name", name}, {"placed", "with(" + name + ")"}, {"why", name}}}},
                       {"inner_loops",
                        {{{"fmas", 8},
                          {"spills", 0},
                          {"processor", name},
                          {"cycles", 4.0},
                          {"share_of_fma_ports", 0.9},
                          {"code", {"vfmadd " + name}}}}}};
    return {
        {"title", name},
        {"summary", name},
        {"peak_gflops", 300.0},
        {"bandwidth_gb_s", 30.0},
        {"arena_bytes", 1 << 20},
        {"arena_unshared_bytes", 1 << 21},
        {"memory", {{"parameter", 4096}}},
        {"arena",
         {{"calls", 2},
          {"forward", 1},
          {"buffers", {{{"name", name}, {"offset", 0}, {"bytes", 64}, {"first", 0}, {"last", 1}, {"saved", true}}}}}},
        {"parameters",
         {{{"name", name},
           {"shape", {2, 3}},
           {"type", "float32"},
           {"layout", name},
           {"update", "separate"},
           {"why", name}}}},
        {"plans", {{"forward", {call}}, {"step", {call}}, {"flush", json::array()}}}};
}

}  // namespace

TEST_CASE("step page: well-formed, loads nothing, and what names hold is text") {
    const std::string page = step_page(step_of(hostile));
    const auto names = html_elements(page);
    CHECK(std::ranges::count(names, "svg") == 2);
    CHECK(std::ranges::count(names, "rect") == 1);
    CHECK(std::ranges::count(names, "circle") == 2);
    CHECK(std::ranges::count(names, "details") == 1);  // of a kernel that two entries call
    check_loads_nothing(page, names);
    CHECK(contains(page, "h.0.&lt;script src=&quot;x&quot;&gt;&amp;"));
    CHECK(contains(page, "prefers-color-scheme: dark"));
    CHECK(contains(page, "2 x 3"));
    CHECK(names == html_elements(step_page(step_of("plain"))));
}

TEST_CASE("step page: of a device no figure of this machine is shown") {
    json step = step_of("h.0.mlp");
    CHECK(step_page(step).find("What limits each kernel") != std::string::npos);
    step.erase("peak_gflops"), step.erase("bandwidth_gb_s");
    for (auto &[entry, calls] : step["plans"].items())
        for (json &c : calls) c.erase("roof_s"), c.erase("bound");
    const std::string page = step_page(step);
    for (const char *word : {"What limits each kernel", "GFLOP/s", ">share<", ">bound<"}) {
        CAPTURE(word);
        CHECK(page.find(word) == std::string::npos);
    }
    CHECK(page.find("FLOP/byte") != std::string::npos);
}

TEST_CASE("step page: a timed kernel is as high as it was fast, one that was not timed is hollow and says so") {
    json step = step_of("h.0.mlp");
    const std::string without = step_page(step);
    CHECK(contains(without, "class=\"compute hollow\""));
    CHECK(contains(without, ">not timed<"));
    CHECK(contains(without, "<code>bench --profile</code>"));
    for (auto &[entry, calls] : step["plans"].items())
        for (json &c : calls) c["seconds"] = 2e-5;  // 2 MFLOP: 100 GFLOP/s, a third of the 300 that computing allows
    const std::string page = step_page(step);
    CHECK(contains(page, "100.0 GFLOP/s, 33 % of the roof"));
    CHECK(contains(page, "<td class=\"n\">100.0</td><td class=\"n\">33 %</td>"));
    CHECK(!contains(page, "class=\"compute hollow\""));
    CHECK(!contains(page, "not timed"));
    auto height = [](const std::string &text) {
        const size_t at = text.find(" cy=\"", text.find("<circle"));
        return std::stod(text.substr(at + 5));
    };
    CHECK(height(page) > height(without));  // SVG counts from the top
}

TEST_CASE("step page: without kernels that compute, without inner loops, without activations") {
    json step = step_of("plain");
    for (auto &[entry, calls] : step["plans"].items())
        for (json &c : calls) c["flops"] = 0, c["roof_s"] = 0, c["inner_loops"] = nullptr;
    step["arena"]["buffers"] = json::array();
    const std::string page = step_page(step);
    html_elements(page);
    CHECK(contains(page, "the package llvm-19"));
    CHECK(!contains(page, "nan"));
    CHECK(!contains(page, "inf"));
}

TEST_CASE("arena: an activation is there from its first call to its last") {
    Plan plan;
    for (const char *name : {"a", "b", "w"}) {
        PlanBuffer &b = plan.buffers.emplace_back();
        b.name = name, b.role = *name == 'w' ? Role::parameter : Role::activation, b.bytes = 64,
        b.offset = *name == 'b' ? 64 : 0;
    }
    auto call = [](std::vector<int> buffers) {
        PlanCall c;
        for (int b : buffers) c.args.push_back({b, 0});
        return c;
    };
    plan.plans["forward"] = {call({2, 0}), call({0, 1})};
    plan.plans["step"] = {call({2}), call({0}), call({2})};
    const json j = arena_json(plan);
    CHECK(j["calls"] == 5);
    CHECK(j["forward"] == 2);
    REQUIRE(j["buffers"].size() == 2);
    CHECK(j["buffers"][0] ==
          json({{"name", "a"}, {"offset", 0}, {"bytes", 64}, {"first", 0}, {"last", 3}, {"saved", true}}));
    CHECK(j["buffers"][1] ==
          json({{"name", "b"}, {"offset", 64}, {"bytes", 64}, {"first", 1}, {"last", 1}, {"saved", false}}));
}

}  // namespace cryolite::test
