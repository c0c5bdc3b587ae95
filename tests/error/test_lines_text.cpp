// Lines of a step schedule as text: they are those of C++, and what is no line is refused by its place.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "schedules/lines.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Block {
    Linear up, down;
    Relu relu;
    explicit Block(const std::string &path) : up(path + ".up", 5, 7), down(path + ".down", 7, 5), relu(path + ".act") {}
};

struct Blocks : Classifier {
    Block first{"h.0"}, second{"h.1"};
    Linear head{"head", 5, classes};

    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override {
        for (Block *b : {&first, &second}) x = b->down(b->relu(b->up(x)));
        return head(x + x);
    }
};

/// Calls a layer that is gone when the lines are read.
struct Forgetful : Blocks {
    Tensor forward(Tensor x) override {
        const auto between = std::make_unique<Linear>("between", 5, 5);
        return head((*between)(x));
    }
};

std::vector<std::string> text_of(const Step &s) {
    std::vector<std::string> lines;
    for (const auto &[stage, placement] : s.placements) lines.push_back("s(" + stage.str() + ")" + placement.line());
    for (const auto &a : s.rematerialised) lines.push_back("s(" + a.stage.str() + ").store_at(forward)");
    for (const auto &a : s.distributed) lines.push_back("s(" + a.stage.str() + ").distribute(workers)");
    for (const auto &a : s.dialects) lines.push_back("s(" + a.stage.str() + ").dialect(" + a.what + ")");
    return lines;
}

std::vector<std::string> read(const std::string &text, std::function<void(Blocks &, Step &)> before = {},
                              std::function<void(const Step &)> also = {}) {
    const Machine machine = Machine::of(test_target());
    Arguments::current() = {{{"batch", "3"}}, {}};
    Blocks net;
    Step step(machine);
    if (before) before(net, step);
    add_lines(step, net, text, "my.schedule");
    if (also) also(step);
    return text_of(step);
}

std::string said(const std::string &text) {
    return error_of([&] { read(text); });
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lines as text: each of C++, with its name as a message has it") {
    CHECK(read("s(h.0.act).compute_with(h.0.up);") == Lines{"s(h.0.act).compute_with(h.0.up)"});
    CHECK(read("s(d(h.0.act)).compute_at(d(h.0.up))") == Lines{"s(d(h.0.act)).compute_at(d(h.0.up))"});
    CHECK(read("s(h.0.act).compute_root(); s.clear(); s(h.0.up).compute_root()") == Lines{"s(h.0.up).compute_root()"});
    CHECK(said("s.clear(all)") == "my.schedule:1:9: found 'all', expected ')'");
    read("s.clear_loops()", {}, [](const Step &s) { CHECK(!s.loops_written); });
    CHECK(read("s(d(head.weight)).compute_at(next(head.weight))") ==
          Lines{"s(d(head.weight)).compute_at(next(head.weight))"});
    CHECK(read("s(next(head.weight)).compute_at(forward)") == Lines{"s(next(head.weight)).compute_at(forward)"});
    CHECK(read("s(head).compute_at(loss, 32)") == Lines{"s(head).compute_at(loss, 32)"});
    CHECK(read("s(h.0.act).store_at(forward)") == Lines{"s(h.0.act).store_at(forward)"});
    CHECK(read("s(d(net)).distribute(workers)") == Lines{"s(d(net)).distribute(workers)"});
    CHECK(read("s(head).dialect(onednn)") == Lines{"s(head).dialect(onednn)"});
    CHECK(read("// nothing\n\n") == Lines{});
    CHECK(read("# of the head\n\n  # and\ns(head).compute_root();  # after a line\n// s(h.0.up).compute_root()\n#") ==
          Lines{"s(head).compute_root()"});
    CHECK(said("# one\n\n// three\ns(haed).compute_root()").starts_with("my.schedule:4:3: the model has no 'haed'"));
    CHECK(said("s(head)  # .compute_root()\n.compute_inside(loss)").starts_with("my.schedule:2:1: found '.compute_in"));
    CHECK(read("s(h.*.act).compute_with(h.*.up).where_legal(); s(head).compute_root()") ==
          Lines{"s(h.0.act).compute_with(h.0.up).where_legal()", "s(h.1.act).compute_with(h.1.up).where_legal()",
                "s(head).compute_root()"});
    CHECK(read("s(head).dialect(onednn) .where_legal()", {},
               [](const Step &s) { CHECK(s.dialects.at(0).where_legal); }) == Lines{"s(head).dialect(onednn)"});
    CHECK(said("s(head).compute_root().where_leagl()") ==
          "my.schedule:1:23: found '.where_leagl', expected .where_legal() or the end of the line");
    CHECK(said("s(head).where_legal()").find("expected .compute_root, .compute_at") != std::string::npos);
    read("s.budget(1.5MB); s.layout(head.weight, panels(16, 1)); s.layout(h.*.up.bias, row_major())", {},
         [](const Step &s) {
             CHECK(s.bytes_allowed == 1'500'000);
             REQUIRE(s.layouts.size() == 3);
             for (const auto &[w, l] : s.layouts)
                 CHECK(l.layout == (w->path() == "head.weight" ? panels(16, 1) : row_major()));
         });
}

TEST_CASE("lines as text: automatic loops of a device by their names") {
    Halide::Target target = test_target();
    target.set_feature(Halide::Target::OpenCL);
    const Machine machine = Machine::of(target);
    const Step step(machine);
    const std::vector<std::string> &names = automatic_names(machine);
    REQUIRE(names.size() == 1 + step.fallback_loops.size() + step.wider_loops.size());
    for (const auto &[name, is] :
         std::map<std::string, std::string>{{"anderson2021", "Anderson2021 beam_size=1 parallelism=80"},
                                            {"li2018", "Li2018 parallelism=16"},
                                            {"plain", "plain loops version=1"},
                                            {"anderson2021_beam4", "Anderson2021 beam_size=4 parallelism=80"},
                                            {"anderson2021_beam32", "Anderson2021 beam_size=32 parallelism=80"}}) {
        const auto at = std::ranges::find(names, name);
        REQUIRE(at != names.end());
        CHECK(step.automatic_way(size_t(at - names.begin() - 1)).str() == is);
    }
    CHECK(std::ranges::count(names, "tiled") == 0);
}

TEST_CASE("lines as text: automatic loops by their names") {
    const auto value = [](const std::string &word) {
        int found = -1;
        read("loops(head, forward): automatic=" + word, {}, [&](const Step &s) { found = s.loop_values.at(0).value; });
        return found;
    };
    const Machine machine = Machine::of(test_target());
    const Step step(machine);
    for (const auto &[word, is] :
         std::map<std::string, std::string>{{"adams2019", "Adams2019 beam_size=1 parallelism=16"},
                                            {"mullapudi2016", "Mullapudi2016 parallelism=16"},
                                            {"plain", "plain loops version=1"},
                                            {"adams2019_beam4", "Adams2019 beam_size=4 parallelism=16"},
                                            {"adams2019_beam32", "Adams2019 beam_size=32 parallelism=16"}}) {
        REQUIRE(value(word) > 0);
        CHECK(step.automatic_way(size_t(value(word) - 1)).str() == is);
    }
    CHECK(value("written") == 0);
    CHECK(value("2") == value("mullapudi2016"));
    CHECK(value("tiled") == 6);
    // apps/cryolite/tune/search.h has these as late_automatic.
    CHECK(value("adams2019_beam4") == 4);
    CHECK(value("adams2019_beam32") == 5);
    CHECK(automatic_names(machine).size() == 2 + step.fallback_loops.size() + step.wider_loops.size());
    CHECK(said("loops(head, forward): automatic=adams") ==
          "my.schedule:1:33: found 'adams', expected a whole number from 0 to 6, or written, adams2019, mullapudi2016, "
          "plain, adams2019_beam4, adams2019_beam32, tiled");
    CHECK(said("loops(head, forward): automatic=li2018")
              .ends_with("plain, adams2019_beam4, adams2019_beam32, tiled; these loops are for a device"));
    for (const char *none : {"7", "-1"})
        CHECK(said(fmt::format("loops(head, forward): automatic={}", none))
                  .starts_with(
                      fmt::format("my.schedule:1:33: found '{}', expected a whole number from 0 to 6, or", none)));
    CHECK(said("loops(head, forward): rows=plain") ==
          "my.schedule:1:28: found 'plain', expected a whole number; names of loops are for automatic=");
    CHECK(said("loops(head, update): rows=4") ==
          "my.schedule:1:7: 'head' is a layer, but update is of a parameter, as its weight");
    CHECK(said("loops(head.weight, forward): rows=4") ==
          "my.schedule:1:7: 'head.weight' is a parameter, but forward is of a layer");
    CHECK(said("loops(head, forward): rows=many") == "my.schedule:1:28: found 'many', expected a whole number");
}

TEST_CASE("lines as text: a star stands for what is between dots, and in the place for the same") {
    CHECK(read("s(d(h.*.up.weight)).compute_at(next(h.*.up.weight))  // of every block\n "
               "s(h.1.a*).compute_with(h.1.up)") == Lines{"s(d(h.0.up.weight)).compute_at(next(h.0.up.weight))",
                                                          "s(d(h.1.up.weight)).compute_at(next(h.1.up.weight))",
                                                          "s(h.1.act).compute_with(h.1.up)"});
    CHECK(read("s(d(h.*.*)).compute_root()").size() == 6);  // adjoints, where layers have such names
    CHECK(read("s(next(h.*.*.weight)).compute_at(forward)").size() == 4);
    CHECK(said("s(*).compute_with(h.0.up)") == "");  // head and the loss: no dot
    CHECK(said("s(h.0.act).compute_with(h.*.up)") ==
          "my.schedule:1:25: 'h.*.up' has more stars than the stage that is placed");
}

TEST_CASE("lines as text: they replace the program's, and a compiled step obeys them") {
    auto fused = [](Blocks &n, Step &s) { s(d(n.head.W)).compute_at(next(n.head.W)); };
    CHECK(read("s(d(head.weight)).compute_root()", fused) == Lines{"s(d(head.weight)).compute_root()"});
    for (const char *line : {"s(d(head.weight)).compute_at(next(head.weight))", "s(d(head.weight)).compute_root()"}) {
        Compiled<Blocks> c({{"batch", "3"}}, [&](Blocks &n, Step &s) { add_lines(s, n, line, "my.schedule"); });
        CHECK(gradient_of(c.program, c.model->head.W).stored == (std::string(line).find("root") != std::string::npos));
    }
}

TEST_CASE("lines as text: names of C++ are answered with those that text has") {
    const std::string why = "a line of text takes the names that checkpoints have, without the object 'net' of C++: ",
                      all = "explain --ir lines prints lines with all names";
    CHECK(said("s(net.head).compute_root();") == "my.schedule:1:3: the model has no 'net.head'; " + why + "'head'");
    CHECK(said("s(h.0.act).compute_with(net.h.0.up);") ==
          "my.schedule:1:25: the model has no 'net.h.0.up'; " + why + "'h.0.up'");
    CHECK(said("s(d(net.head.W)).compute_at(next(net.head.W));") ==
          "my.schedule:1:5: the model has no 'net.head.W'; " + why + "'head.weight'");
    CHECK(said("s.layout(net.head.W, row_major())").ends_with(why + "'head.weight'"));
    CHECK(said("s(next(net.head.b)).compute_root()").ends_with(why + "'head.bias'"));
    CHECK(said("s(net.relu).compute_with(net.up)").ends_with(why + "near 'relu' are h.*.act; " + all));
    CHECK(said("s(net.h.*.up).compute_root()").ends_with(why + "'h.*.up'"));
    CHECK(said("s(b.act).compute_with(b.up)") ==
          "my.schedule:1:3: the model has no 'b.act'; a line of text takes the names that checkpoints have, without "
          "the object 'b' of C++: 'h.*.act'");
    CHECK(said("s(d(b.up.W)).compute_at(next(b.up.W))").ends_with("'b' of C++: 'h.*.up.weight'"));
    CHECK(said("s(net.haed).compute_root()").ends_with(why + "near 'haed' are head, loss, h.*.up; " + all));
    CHECK(said("s(net.blocks[0].relu).compute_root()") ==
          "my.schedule:1:3: the model has no 'net.blocks[0].relu'; a line of text takes the names that checkpoints "
          "have, without the object 'net.blocks[0]' of C++: near 'relu' are h.*.act; " +
              all);
    CHECK(said("s(h.0.relu).compute_root()").find("the model has no 'h.0.relu'; near it are h.0.") !=
          std::string::npos);
}

TEST_CASE("lines as text: of a model that calls a layer that is gone, the layer is named") {
    Arguments::current() = {{{"batch", "3"}}, {}};
    Forgetful net;
    Step step(Machine::of(test_target()));
    CHECK(error_of([&] {
              add_lines(step, net, "s(head).compute_root()", "my.schedule");
          }).starts_with("[between] is gone before the step is built"));
}

TEST_CASE("lines as text: what is no line is refused by line and column") {
    CHECK(said("\n  t(head).compute_root()") ==
          "my.schedule:2:3: found 't', expected a line: s(STAGE).PLACE(...), s.budget(...), s.layout(...), "
          "s.automatic(), s.clear(), s.clear_loops() or loops(NAME, FORM): NUMBER=VALUE");
    CHECK(said("s.clear_loop()").ends_with("(did you mean s.clear_loops?)"));
    CHECK(said("s(head.compute_root()") == "my.schedule:1:20: found '(', expected ')'");
    CHECK(said("s(head)").starts_with("my.schedule:1:8: found the end, expected .compute_root, .compute_at, "));
    CHECK(said("s(head).compute_root") == "my.schedule:1:21: found the end, expected '('");
    CHECK(said("s(head).compute_inside(h.0.up)") ==
          "my.schedule:1:8: found '.compute_inside', expected .compute_root, .compute_at, .compute_with, .store_at, "
          ".dialect or .distribute");
    CHECK(said("s(up).compute_root()").starts_with("my.schedule:1:3: the model has no 'up'; near it are h.*.up, "));
    CHECK(said("s(d(h.0.up.W)).compute_root()") == "my.schedule:1:5: the model has no 'h.0.up.W'; a line of text takes "
                                                   "the names that checkpoints have: 'h.0.up.weight'");
    CHECK(said("s(h.0.up).store_at(backward)") == "my.schedule:1:20: found 'backward', expected forward");
    CHECK(said("s(head).compute_wit(h.0.up)").ends_with(".distribute (did you mean .compute_with?)"));
    CHECK(said("s(h.0.up).compute_with(h.0.down); s(haed).compute_root()") ==
          "my.schedule:1:37: the model has no 'haed'; near it are head, loss, h.0.up");
    CHECK(
        said("s(next(head)).compute_root()").find("my.schedule:1:8: the model has no 'head'; near it are head.bias") ==
        0);
    CHECK(
        said("s(add).compute_root()")
            .find("the model has no 'add'; no line can name 'add', which an operator or a function of tensors makes") !=
        std::string::npos);
    CHECK(said("s(head).compute_at(loss, many)") == "my.schedule:1:26: found 'many', expected a number of rows");
    CHECK(said("s(d(net)).distribute(all)") == "my.schedule:1:22: found 'all', expected workers");
    CHECK(said("s.budget(much)") ==
          "my.schedule:1:10: found 'much', expected bytes, such as 2350000000, 40MB or 1.5GiB");
    CHECK(said("s.layout(head.weight, columns(3))") ==
          "my.schedule:1:23: found 'columns', expected row_major() or panels(WIDTH, DIMENSION)");
    CHECK(said("s.layout(head.weight, panels(16, 7))")
              .find("my.schedule:1:1: s.layout(head.weight, panels(16, 7)) is "
                    "refused: the parameter has shape") == 0);
    CHECK(said("s(d(head)).store_at(forward)").find("my.schedule:1:1: s(d(head)).store_at(forward) is refused") == 0);
}

}  // namespace cryolite::test
