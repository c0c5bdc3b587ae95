// What `explain` says of the formats of values and parameters.

#include "apps/cryolite/explain/explain_formats.h"

#include <nlohmann/json.hpp>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

namespace {

Plan plan_of_two_blocks() {
    Plan p;
    auto add = [&](const char *name, Role role, const char *type, const char *why) {
        p.buffers.push_back({.name = name, .role = role, .type = type, .shape = {4}, .bytes = 16, .format_why = why});
    };
    add("h.0.up.weight", Role::parameter, "float16", "products of 'h.0.up' read it");
    add("h.1.up.weight", Role::parameter, "float16", "products of 'h.1.up' read it");
    add("h.0.up.bias", Role::parameter, "float32", "no product reads it in fp16");
    add("h.0.up.weight.master", Role::master, "float32", "");
    add("output", Role::activation, "float32", "it is a result of the model");
    add("norms", Role::norms, "float64", "");
    return p;
}

}  // namespace

TEST_CASE("explain: formats of values and parameters as JSON, each with what decides it") {
    CHECK(formats_json(plan_of_two_blocks()) == json::parse(R"([
        {"name": "h.0.up.weight", "role": "parameter", "type": "float16", "why": "products of 'h.0.up' read it"},
        {"name": "h.1.up.weight", "role": "parameter", "type": "float16", "why": "products of 'h.1.up' read it"},
        {"name": "h.0.up.bias", "role": "parameter", "type": "float32", "why": "no product reads it in fp16"},
        {"name": "output", "role": "activation", "type": "float32", "why": "it is a result of the model"}])"));
    CHECK(formats_json(Plan{}).empty());
}

TEST_CASE("explain: the same for people, blocks that are equal in one line") {
    CHECK(formats_text(plan_of_two_blocks()) ==
          "\nformats of values and parameters, and what decides them:\n"
          "  h.*.up.weight                float16   products of 'h.*.up' read it (2)\n"
          "  h.0.up.bias                  float32   no product reads it in fp16\n"
          "  output                       float32   it is a result of the model\n");
    CHECK(formats_text(Plan{}).empty());
}

}  // namespace cryolite::test
