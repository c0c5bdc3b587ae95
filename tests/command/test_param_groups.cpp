// Groups of parameters: what a text says, and how the flag, a list of a file and a run's config.toml have them.

#include "bundle/param_group.h"

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/session/settings.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

Request asked(const std::string &groups) {
    Request r;
    r.app = "some";
    r.program.description.task = "tokens", r.program.description.optimizer = "adamw";
    r.program.description.optimizers = {{"adamw", {{"lr", 1e-3, RealRange::positive, "rate"}}}};
    if (!groups.empty()) r.values.give("param-group", {groups, Origin::command_line});
    return r;
}

}  // namespace

TEST_CASE("groups of parameters: what a text says") {
    const ParamGroup g = ParamGroup::parse("h.*.up=lr:0.1x,decay:0").value();
    CHECK(g.pattern == "h.*.up");
    CHECK(g.lr == GroupValue{0.1, true});
    CHECK(g.decay == GroupValue{0, false});
    CHECK(!ParamGroup::parse("wte=lr:3e-4")->decay);
    for (const char *name : {"h.0.up", "h.0.up.weight", "h.11.mlp.up.bias"}) CHECK(g.matches(name));
    for (const char *name : {"h.0.upper.weight", "x.h.0.up", "up.weight"}) CHECK(!g.matches(name));
    CHECK(ParamGroup::parse("*.bias=lr:2x")->matches("head.bias"));
    CHECK(ParamGroup::parse("h.[02].up=lr:2x")->matches("h.2.up.weight"));
    for (const char *text : {"wte", "=lr:1", "wte=", "wte=lr", "wte=rate:1", "wte=lr:", "wte=lr:x", "wte=lr:-1",
                             "wte=lr:nan", "wte=lr:1y", "wte=lr:1,", "wte=lr:1,lr:2", ""}) {
        CAPTURE(text);
        CHECK(!ParamGroup::parse(text));
    }
}

TEST_CASE("groups of parameters: --param-group is refused by its name, with what a group is") {
    CHECK(understand(asked("")).param_groups().empty());
    const TrainSettings s = understand(asked("wte=lr:0.1x,decay:0;h.*=lr:2e-3"));
    REQUIRE(s.param_groups().size() == 2);
    CHECK(s.param_groups()[1].text == "h.*=lr:2e-3");
    CHECK_ERROR(understand(asked("wte=lr:0.1x;h.*=rate:1")),
                "--param-group is \"wte=lr:0.1x;h.*=rate:1\", expected none or PATTERN=lr:NUMBER,decay:NUMBER");
    CHECK_ERROR(understand(asked("wte=lr:0.1x;none")), "--param-group is");
}

TEST_CASE("groups of parameters: a list in TOML, and in the config.toml of a run") {
    const Scratch scratch;
    const std::string list = "param-group = [\"wte=lr:0.1x,decay:0\", \"h.*=lr:2e-3\"]";
    auto of_file = [&](const std::string &line) {
        Request r = asked("");
        for (auto &[name, given] :
             read_config(write_plainly(scratch / "my.toml", line + "\n"), Origin::config, list_mark))
            r.values.give(name, given);
        return understand(r);
    };
    CHECK(of_file(list).param_group == "wte=lr:0.1x,decay:0;h.*=lr:2e-3");
    CHECK(contains(config_toml(of_file(list)), "\n" + list + "\n"));
    CHECK(of_file("param-group = \"wte=lr:0.1x\"").param_group == "wte=lr:0.1x");
    CHECK_ERROR(of_file("param-group = [\"wte\"]"), "my.toml, line 1), expected none or PATTERN=");
}

}  // namespace cryolite::test
