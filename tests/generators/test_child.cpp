// Compiler processes: what becomes of the others when the result of one ends the work, and how long each may take.

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "generators/codegen/child.h"

namespace cryolite::test {

using namespace compiler;

namespace fs = std::filesystem;

TEST_CASE("child: where one ends the work, the others write nothing later") {
    std::string folder = (fs::temp_directory_path() / "cryolite-child-XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    const fs::path late = fs::path(folder) / "late";
    auto work = [&](int i) {
        if (i == 0) throw std::runtime_error("first");
        usleep(700'000);
        std::ofstream(late) << "written";
        return std::string();
    };
    auto run = [&](bool stop) {
        run_children(2, 2, 60, work, [&](int, const ChildResult &r) {
            if (stop && !r.error.empty()) throw std::runtime_error(r.error);
        });
    };
    CHECK_THROWS_WITH(run(true), "first");
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    CHECK(!fs::exists(late));
    run(false);  // nobody objects: the second ends as it would
    CHECK(fs::exists(late));
    fs::remove_all(folder);
}

TEST_CASE("child: the limit is of the time it computes, or hangs, and not of what others on the machine take") {
    auto compute = [](double seconds) {
        for (const clock_t begin = clock(); double(clock() - begin) < seconds * CLOCKS_PER_SEC;) {
        }
    };
    auto late = [&](int count, int limit, double computes, int sleeps) {
        int n = 0;
        auto work = [&](int) { return compute(computes), sleep(sleeps), std::string(); };
        run_children(count, count, limit, work, [&](int, const ChildResult &r) { n += r.late; });
        return n;
    };
    const int crowd = 5 * int(std::thread::hardware_concurrency());
    CHECK(late(crowd, 2, 0.6, 0) == 0);  // each ends after three seconds
    CHECK(late(1, 1, 60, 0) == 1);
    CHECK(late(1, 1, 0, 60) == 1);
}

}  // namespace cryolite::test
