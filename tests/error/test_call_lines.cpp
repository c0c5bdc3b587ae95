// Lines of one call of a layer that the model calls several times.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "generators/ir/printer.h"
#include "generators/passes/moves/moves.h"
#include "schedules/lines.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Shared : Classifier {
    Linear up{"up", 5, 7}, mid{"mid", 7, 7}, head{"head", 7, classes};
    Relu act{"act"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(act(mid(act(up(x))))); }
};

Compiled<Shared> with(const std::string &lines) {
    return Compiled<Shared>({{"batch", "3"}}, [&](Shared &n, Step &s) { add_lines(s, n, lines, "my.schedule"); });
}
std::string said(const std::string &lines) {
    return error_of([&] { with(lines); });
}

/// Whether the nth call of `act` is in the kernel of a layer, in a step with these lines.
bool together(const std::string &lines, int call, const std::string &layer) {
    const Compiled<Shared> c = with(lines);
    int n = 0;
    for (OpId id : c.program.entries.at("forward").ops) {
        auto *f = ir::as<ir::Forward>(c.program.ops[id]);
        if (f && c.program.layer(f->call).path == "act" && ++n == call)
            return c.program.ops[id].kernel == c.kernel("forward", layer);
    }
    fail("act has no call {}", call);
}

}  // namespace

TEST_CASE("calls: a line of one call places that one, without an index all") {
    CHECK(!together("s(act[2]).compute_with(mid)", 1, "up"));
    CHECK(together("s(act[2]).compute_with(mid)", 2, "mid"));
    CHECK(!together("s(act[1]).compute_with(up)", 2, "mid"));
    CHECK(together("s(act[1]).compute_with(up)", 1, "up"));
    CHECK(said("s(act).compute_with(mid)").find("s(act).compute_with(mid) is refused") != std::string::npos);  // [1]
    CHECK(together("s(act).compute_with(up)", 1, "up"));
    CHECK(ir::lines_of(with("s(act[2]).compute_with(mid)").program)
              .find("s(act[2]).compute_with(mid);  // my.schedule:1:1: legal") == 0);
    CHECK(said("s(d(mid)).compute_with(d(act[2]))") == "");
    CHECK(said("s(d(mid)).compute_with(d(act[1]))").find("s(d(mid)).compute_with(d(act[1])) is refused") !=
          std::string::npos);
}

TEST_CASE("calls: the line of one call goes before that of all") {
    CHECK(!together("s(act[1]).compute_root(); s(act).compute_with(up)", 1, "up"));
    CHECK(!together("s(act).compute_with(up); s(act[1]).compute_root()", 1, "up"));
    CHECK(together("s(act).compute_with(mid); s(act[1]).compute_with(up)", 1, "up"));
    CHECK(together("s(act).compute_with(mid); s(act[1]).compute_with(up)", 2, "mid"));
}

TEST_CASE("calls: what is not legal of one call is refused by its name") {
    CHECK(said("s(act[2]).compute_with(up)").find("s(act[2]).compute_with(up) is refused") != std::string::npos);
    CHECK(said("s(act[1]).compute_with(up)") == "");
    CHECK(said("s(act[3]).compute_root()") ==
          "my.schedule:1:3: 'act' is called 2 times, so it has no call [3]; the last is act[2]");
    CHECK(said("s(up).compute_root(); s(up[2]).compute_root()") ==
          "my.schedule:1:25: 'up' is called once, so it has no call [2]; the last is up[1]");
    CHECK(said("s(act[0]).compute_root()") == "my.schedule:1:7: found '0]', expected the number of a call, from 1");
    CHECK(said("s(act[two]).compute_root()").find("expected the number of a call, from 1") != std::string::npos);
    CHECK(said("s(d(up.weight[1])).compute_root()") ==
          "my.schedule:1:5: 'up.weight' is no layer, so it has no call [1]");
    CHECK(said("s(act[2]).store_at(forward)").find("the nearest legal line is s(act).store_at(forward)") !=
          std::string::npos);
    CHECK(said("s(act).store_at(forward)") == "");
    const auto in_cpp = [](int call) {
        return error_of([&] {
            Compiled<Shared>({{"batch", "3"}}, [&](Shared &n, Step &s) { s(Stage(n.act)[call]).compute_root(); });
        });
    };
    CHECK(in_cpp(2) == "");
    CHECK(in_cpp(3).find("the model never calls 'act[3]'") != std::string::npos);
    CHECK(in_cpp(0).find("act[0] is no stage") != std::string::npos);
}

TEST_CASE("calls: fusions that a step could have name the call, and are read again") {
    std::string all;
    {
        Compiled<Shared> c = with("");
        for (const Move &m : fusions_of(c.program)) all += text_of(m) + "; ";
    }
    INFO(all);
    CHECK(all.find("s(act[1]).compute_with(up)") != std::string::npos);
    CHECK(all.find("s(act[2]).compute_with(mid)") != std::string::npos);
    CHECK(all.find("act)") == std::string::npos);
    CHECK(said("s(act[1]).compute_with(up); s(act[2]).compute_with(mid)") == "");
}

}  // namespace cryolite::test
