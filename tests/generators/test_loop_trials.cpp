// Candidates of a search: each is compiled by itself, compared, and one that is wrong is a line of the answer.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <nlohmann/json.hpp>

#include "dsl/layers/linear.h"
#include "generators/codegen/kernel_store.h"
#include "generators/driver/trials/loop_trials.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

/// Loops of a product, of which some are wrong: a number that lies.
void lying(Group &g, const Machine &m) {
    const int lie = g.tunables("lie", 0, {0, 1, 2, 3, 4});
    if (lie == 1) {  // iterations that write what others add
        Halide::Func f = g.anchor;
        f.compute_root();
        f.update().allow_race_conditions().vectorize(f.rvars()[0], 4, Halide::TailStrategy::GuardWithIf);
    }
    if (lie == 2) abort();
    if (lie == 3)
        for (;;) usleep(1000);
    if (lie == 4) throw std::bad_alloc();
    if (lie != 1) g.anchor.compute_root();
    (void)m;
}

struct Net : Classifier {
    Linear up{"up", 24, 16}, head{"head", 16, classes};
    Shape features() const override { return {24}; }
    Tensor forward(Tensor x) override { return head(up(x)); }
};

/// What `try_loops` prints, by candidate.
std::map<int, json> answers(const std::string &kernel, const std::vector<std::string> &candidates,
                            json request = json::object()) {
    request["kernel"] = kernel, request["candidates"] = candidates;
    std::string name = (std::filesystem::temp_directory_path() / "cryolite-trials-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    Compiled<Net> c({{"batch", "8"}}, [](Net &, Step &s) { s.loops<Linear>(Form::forward, lying); });
    const CompileOptions how{.store = name + "/kernels", .jobs = 2, .time_limit = 10};
    const std::string output = name + "/said";
    fflush(stdout);
    const int kept = dup(1);
    REQUIRE(freopen(output.c_str(), "w", stdout));
    std::string error = error_of([&] { try_loops(c.program, c.step, c.machine, how, request.dump(), name + "/made"); });
    fflush(stdout);
    dup2(kept, 1);
    close(kept);
    std::map<int, json> by_candidate;
    std::stringstream lines(read_whole(output));
    for (std::string line; std::getline(lines, line);) {
        const json j = json::parse(line);
        by_candidate[j.at("candidate")] = j;
        if (j.contains("symbol"))
            CHECK(std::filesystem::exists(fmt::format("{}/made/{}/kernels.so", name, int(j["candidate"]))));
    }
    std::filesystem::remove_all(name);
    if (!error.empty()) by_candidate[-1] = error;
    return by_candidate;
}

}  // namespace

TEST_CASE("trials of loops: one that is wrong, aborts, hangs or eats memory is refused, and the others are made") {
    const std::map<int, json> said =
        answers("up", {"", "lie=1", "lie=2", "lie=3", "lie=4", "lie=7", "truth=1", "lie=0"});
    REQUIRE(said.size() == 8);
    CHECK(said.at(0).contains("symbol"));
    CHECK(said.at(0).at("unsure") == "");
    CHECK(said.at(7).at("symbol") == said.at(0).at("symbol"));
    auto refused = [&](int n) { return said.at(n).value("error", "it was made"); };
    CHECK(refused(1).find("its result is off by") == 0);
    CHECK(refused(2).find("the compiler process died") == 0);
    CHECK(refused(3).find("it took longer than the limit") == 0);
    CHECK(refused(4).find("ran out of memory") != std::string::npos);
    CHECK(refused(5) == "candidate: lie is 7, expected 0, 1, 2, 3 or 4");
    CHECK(refused(6) == "with these numbers its loops have no number 'truth'");
    CHECK(answers("down", {""}).at(-1) == "the step has no kernel 'down' that is compiled");
}

TEST_CASE("trials of loops: what is expected of a kernel is kept, for its algorithm alone") {
    std::string folder = (std::filesystem::temp_directory_path() / "cryolite-expected-XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()));
    const std::string file = folder + "/expected";
    const auto error = [&](const std::string &algorithm) {
        return answers("up", {""}, {{"expected", file}, {"algorithm", algorithm}}).at(0).value("error", "");
    };
    CHECK(error("this") == "");
    const std::string whole = read_whole(file);
    json kept = json::from_cbor(whole);
    REQUIRE(kept.at("outputs").size() > 1);
    for (json &o : kept["outputs"]) {  // numbers that it does not come to: only a kernel that reads them is refused
        std::vector<uint8_t> bytes = o[1].get_binary();
        std::ranges::fill(bytes, 0x40);
        o[1] = json::binary(bytes);
    }
    const auto write = [&](const std::string &bytes) { std::ofstream(file, std::ios::binary) << bytes; };
    const std::vector<uint8_t> other = json::to_cbor(kept);
    write({other.begin(), other.end()});
    CHECK(error("this").find("its result is off by") == 0);
    CHECK(error("another") == "");
    for (const std::string &damaged : {std::string(), whole.substr(0, whole.size() / 2), std::string("no kept file")}) {
        write(damaged);
        CHECK(error("this") == "");
        CHECK(read_whole(file) == whole);
    }
    std::filesystem::remove_all(folder);
}

}  // namespace cryolite::test
