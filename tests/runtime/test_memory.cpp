// What a process may take, from files as /proc and /sys have them, and what a run of a plan does.
#include "runtime/plan/memory_left.h"
#include "runtime/plan/memory_need.h"

#include <unistd.h>

#include <cstdlib>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

/// A root folder with a machine of 8 GB of free memory.
class Machine {
public:
    Machine() { write("proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 100 kB\nMemAvailable:    8000000 kB\n"); }
    void write(const fs::path &file, const std::string &text) const {
        fs::create_directories((scratch_.path / file).parent_path());
        write_file_atomic(scratch_.path / file, text);
    }
    MemoryLeft left() const { return memory_left(scratch_.path); }

private:
    Scratch scratch_;
};

}  // namespace

TEST_CASE("memory: the least of what the machine, limits and cgroups leave, by name") {
    const Machine m;
    CHECK(m.left().bytes == 8'192'000'000);
    CHECK(m.left().of_host);
    CHECK(m.left().words == "are free on this machine");
    const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
    m.write("proc/self/statm", "1000 500 100 10 0 300 0\n");
    m.write("proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                                "Max data size             unlimited            unlimited            bytes     \n"
                                "Max address space         3000000000           unlimited            bytes     \n");
    CHECK(m.left().bytes == 3'000'000'000 - 1000 * page);
    CHECK(!m.left().of_host);
    CHECK(m.left().words.find("ulimit -v") != std::string::npos);
    m.write("proc/self/limits", "Max data size             2000000000           unlimited            bytes     \n"
                                "Max address space         unlimited            unlimited            bytes     \n");
    CHECK(m.left().bytes == 2'000'000'000 - 300 * page);
    m.write("proc/self/limits", "Max data size             1                    unlimited            bytes     \n");
    CHECK(m.left().bytes == 0);
}

TEST_CASE("memory: cgroups of both versions, the own one and those above; cached files count as free") {
    const Machine m;
    m.write("proc/self/cgroup", "0::/user/run\n");
    m.write("sys/fs/cgroup/user/run/memory.max", "max\n");
    m.write("sys/fs/cgroup/user/run/memory.current", "7000000\n");
    CHECK(m.left().bytes == 8'192'000'000);
    m.write("sys/fs/cgroup/user/memory.max", "5000000000\n");
    m.write("sys/fs/cgroup/user/memory.current", "3000000000\n");
    m.write("sys/fs/cgroup/user/memory.stat", "anon 1\nfile 9\ninactive_file 500000000\nactive_file 100000000\n");
    CHECK(m.left().bytes == 2'600'000'000);
    CHECK(m.left().words == "are left of the cgroup /user");
    m.write("sys/fs/cgroup/user/run/memory.max", "1000000\n");  // less than there is of it
    CHECK(m.left().bytes == 0);

    const Machine old;
    old.write("proc/self/cgroup", "12:cpuset:/docker/abc\n7:memory:/docker/abc\n");
    // As a container sees it: what is mounted there is its own group.
    old.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000000\n");
    old.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000000\n");
    old.write("sys/fs/cgroup/memory/memory.stat",
              "inactive_file 7\ntotal_inactive_file 200000000\ntotal_active_file 0\n");
    CHECK(old.left().bytes == 3'200'000'000);
    old.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
    CHECK(old.left().bytes == 8'192'000'000);
}

TEST_CASE("memory: CRYOLITE_MEMORY says it instead") {
    const Machine m;
    setenv("CRYOLITE_MEMORY", "40MB", 1);
    CHECK(m.left().bytes == 40'000'000);
    CHECK(m.left().words == "are allowed by CRYOLITE_MEMORY");
    setenv("CRYOLITE_MEMORY", "much", 1);
    CHECK_ERROR(m.left(), "CRYOLITE_MEMORY is \"much\", expected bytes, such as");
    unsetenv("CRYOLITE_MEMORY");
}

TEST_CASE("memory: what a run takes, of all workers in one process or of one of several") {
    Plan plan;
    plan.workers = 4, plan.arena = 1'000'000;
    auto add = [&](Role role, const char *type, int n, bool stored = true) {
        PlanBuffer b;
        b.role = role, b.type = type, b.shape = {n}, b.stored = stored;
        b.bytes = int64_t{n} * b.element_bytes();
        plan.buffers.push_back(b);
    };
    add(Role::parameter, "float32", 1'000'000), add(Role::parameter, "float32", 500'000);
    add(Role::state, "float32", 3'000'000), add(Role::gradient, "float32", 1'500'000),
        add(Role::gradient, "float32", 7, false);
    add(Role::activation, "float32", 9'000'000), add(Role::input, "int32", 1000);
    const MemoryNeed all = memory_need(plan, false), one = memory_need(plan, true);
    CHECK(all.staging == 8 * 3'000'000);
    CHECK(all.bytes() == 6'000'000 + 12'000'000 + 4 * 6'000'000 + 4 * 1'000'000 + 4 * 4000 + all.staging);
    CHECK(one.bytes() == 6'000'000 + 12'000'000 / 4 + 6'000'000 + 1'000'000 + 4000 + one.staging);
    const std::pair<const char *, const char *> holders[] = {{"weights", "6.0 MB"},
                                                             {"optimizer state", "12.0 MB"},
                                                             {"gradients", "24.0 MB"},
                                                             {"activations", "4.0 MB"},
                                                             {"batches, norms, numbers", "16.0 kB"},
                                                             {"staging: loading, checkpoint buffers", "24.0 MB"}};
    for (auto &[name, bytes] : holders)
        CHECK_MESSAGE(contains(all.table(), fmt::format("\n  {:<37}{:>9}", name, bytes)), all.table());
    add(Role::master_low, "uint16", 1'000'000);
    CHECK(memory_need(plan, false).staging == 12 * 3'000'000);
}

}  // namespace cryolite::test
