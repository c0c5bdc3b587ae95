// Compiler processes: what becomes of the others when the result of one ends the work.

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
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

}  // namespace cryolite::test
