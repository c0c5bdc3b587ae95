// Settings to and from files.

#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/session/session.h"
#include "tests/command/settings_request.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

TEST_CASE("config.toml gives the same settings again") {
    const Scratch scratch;
    const Pairs line = {{"lr", "0.00123"},
                        {"steps", "77"},
                        {"width", "64"},
                        {"dropout", ".25"},
                        {"order", "sequential"},
                        {"data", "/some/where \"quoted\"\\\t.txt"},
                        {"seed", "9223372036854775807"},
                        {"threads", "3"},
                        {"workers", "2"}};
    Request first = request(line);
    TrainSettings s = understand(first);
    const fs::path file = write_plainly(scratch / "config.toml", config_toml(s));
    Request again = request();
    for (auto &[name, given] : read_config(file, Origin::config, list_mark))
        if (name != "app") again.values.give(name, given);
    TrainSettings t = understand(again);
    CHECK(flags_of(s) == flags_of(t));
    CHECK(s.data == t.data);
    CHECK(t.rate.steps == 77);
    CHECK(t.threads == 3);
    CHECK(t.workers == 2);
    CHECK(t.param("width", 0) == 64);
    CHECK(config_toml(t) == config_toml(s));
}

TEST_CASE("a list is given again and again, with commas, or as a list of a file") {
    const Scratch scratch;
    auto freeze = [&](const std::string &text) {
        Values values;
        for (auto &[name, given] : read_config(write_plainly(scratch / "c.toml", text), Origin::config))
            values.give(name, given);
        return values.text("freeze");
    };
    CHECK(freeze("freeze = [\"wte.weight\", \"h.*.mlp.*\"]") == "wte.weight,h.*.mlp.*");
    CHECK(freeze("freeze = \"wte.weight,wpe.weight\"") == "wte.weight,wpe.weight");
    CHECK_ERROR(freeze("freeze = [1, 2]"),
                "\"freeze\" must be a string, a number, true or false, or a list of strings with one or more");
}

TEST_CASE("configuration files that are wrong") {
    const Scratch scratch;
    CHECK_ERROR(read_config(scratch / "none.toml", Origin::config), "none.toml");
    write_plainly(scratch / "a.toml", "lr = 1\nsteps = = 3\n");
    CHECK_ERROR(read_config(scratch / "a.toml", Origin::config), "line 2: not TOML");
    write_plainly(scratch / "b.toml", "lr = 1\nsteps = [1, 2]\n");
    CHECK_ERROR(read_config(scratch / "b.toml", Origin::config),
                "line 2: \"steps\" must be a string, a number, true or false");
    std::string deep = "a";
    for (int i = 0; i < 200000; i++) deep += ".a";
    for (const std::string &line : {deep + " = 1", "[" + deep + "]", "lr = {" + deep + " = 1}"}) {
        write_plainly(scratch / "c.toml", "# more ........\n" + line + "\n");
        CHECK_ERROR(read_config(scratch / "c.toml", Origin::config), "c.toml, line 2: more than 2000 dots up to here");
    }
    write_plainly(scratch / "d.toml", "# " + deep + "\nlr = 0.5\n");
    CHECK(read_config(scratch / "d.toml", Origin::config).at("lr").text == "0.5");
    const auto texts = [&](const std::string &text) {
        return read_config(write_plainly(scratch / "d.toml", text), Origin::config).at("data").text;
    };
    for (const char *outside : {"lr = 1 \xc3\xa9", "\xc3\xa9 = 1", "lr = \xcc\xa5", "a = 1\nlr = \xff", "[\xc3\xa9]",
                                "data = \"\"\"a\"\"\" \xc3\xa9", "data = \"\\\"\" \xc3\xa9", "data = 'a\\' \xc3\xa9"}) {
        CAPTURE(outside);
        CHECK_ERROR(texts(outside), "is outside of a string: put the value in double quotes");
    }
    // A value is read to its end before it is known what it is: what looks like a string there is none.
    for (const char *within :
         {"lr = 00b\"\xc3\xa9\"", "lr = 0[\"\xc3\xa9\"]", "lr = 0.\"\xc3\xa9\"", "lr = 'a'\"b\""}) {
        CAPTURE(within);
        CHECK_ERROR(texts(within), "a quote within a value: put the whole value in quotes");
    }
    CHECK_ERROR(texts("lr=0=\"\xc3\xa9\""), "a second = within a value");
    CHECK(texts("\xef\xbb\xbf\"data\"=\"\xc3\xa9\"\nlr=1") == "\xc3\xa9");
    CHECK_ERROR(texts("data={a=\"\xc3\xa9\",b=[\"x\",'y']}"), "\"data\" must be a string");
    CHECK(texts("\xef\xbb\xbf# \xc3\xa9\ndata = \"\xc3\xa9 \\\" # '\" # \xc3\xa9\n") == "\xc3\xa9 \" # '");
    CHECK(texts("data = '\xc3\xa9\"'") == "\xc3\xa9\"");
    CHECK(texts("data = \"\"\"\n\xc3\xa9\\\\\"\" '''\n\xc3\xa9\"\"\"\"\"\nlr = 1 # \xc3\xa9") ==
          "\xc3\xa9\\\"\" '''\n\xc3\xa9\"\"");
    CHECK(texts("data = '''\xc3\xa9' '' \\'''") == "\xc3\xa9' '' \\");
    CHECK(texts("data = '" + deep + "'") == deep);
    write_plainly(scratch / "e.toml", "data = \"" + std::string(2 << 20, 'x') + "\"\n");
    CHECK_ERROR(read_config(scratch / "e.toml", Origin::config), "e.toml: 2.1 MB, expected a configuration");
}

TEST_CASE("a file whose name config.toml cannot hold is refused before a run begins") {
    for (const char *flag : {"data", "val", "init"}) {
        CHECK_ERROR(settings({{flag, "caf\xe9.txt"}}), fmt::format("--{}: the name \"/", flag));
        CHECK_ERROR(settings({{flag, "caf\xe9.txt"}}), "caf\\xe9.txt\" is not UTF-8, so config.toml");
        CHECK(settings({{flag, "caf\xc3\xa9.txt"}}).app == settings({}).app);
        CHECK(understand(request({{flag, "caf\xe9.txt"}}, "", Command::bench)).app == settings({}).app);  // writes none
    }
}

}  // namespace cryolite::test
