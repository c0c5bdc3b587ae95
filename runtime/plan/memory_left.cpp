#include "runtime/plan/memory_left.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "bundle/setting.h"

namespace cryolite {

namespace {

/// The number after `name` in a file of lines "name number ..."; nothing where there is none ("max", "unlimited").
std::optional<uint64_t> number_after(const fs::path &file, const std::string &name) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with(name)) continue;
        std::istringstream rest(line.substr(name.size()));
        if (uint64_t value = 0; rest >> value) return value;
        return std::nullopt;
    }
    return std::nullopt;
}

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

class Limits {
public:
    explicit Limits(const fs::path &root) : root_(root) {
        least_.bytes = std::numeric_limits<uint64_t>::max();
        if (const auto free = number_after(root / "proc/meminfo", "MemAvailable:"))
            take({*free * 1024, true, "are free on this machine"});
        of_process();
        of_cgroups();
    }
    MemoryLeft least() const { return least_; }

private:
    const fs::path root_;
    MemoryLeft least_;

    void take(const MemoryLeft &limit) {
        if (limit.bytes < least_.bytes) least_ = limit;
    }

    void of_process() {
        uint64_t size = 0, resident = 0, shared = 0, text = 0, unused = 0, data = 0;  // pages
        std::ifstream(root_ / "proc/self/statm") >> size >> resident >> shared >> text >> unused >> data;
        const auto page = uint64_t(sysconf(_SC_PAGESIZE));
        const fs::path limits = root_ / "proc/self/limits";
        if (const auto most = number_after(limits, "Max address space"))
            take({less(*most, size * page), false, "are left of this process' address space (ulimit -v)"});
        if (const auto most = number_after(limits, "Max data size"))
            take({less(*most, data * page), false, "are left of this process' data (ulimit -d)"});
    }

    /// Lines of /proc/self/cgroup: "0::/path" for version 2, "9:memory:/path" for a hierarchy of version 1.
    void of_cgroups() {
        std::ifstream in(root_ / "proc/self/cgroup");
        for (std::string line; std::getline(in, line);) {
            const size_t first = line.find(':'), second = line.find(':', first + 1);
            if (first == std::string::npos || second == std::string::npos) continue;
            const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
            const fs::path path = line.substr(second + 1);
            if (controllers == ",,") each_group("sys/fs/cgroup", path, "memory.max", "memory.current", "");
            if (controllers.find(",memory,") != std::string::npos)
                each_group("sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_");
        }
    }
    /// A process is limited by its own group and by all groups above it. In a container the path may be the host's,
    /// where only the root of the mount can be read.
    void each_group(const fs::path &mount, fs::path path, const char *limit, const char *usage,
                    const std::string &total) {
        for (;; path = path.parent_path()) {
            const fs::path group = root_ / mount / path.relative_path();
            const auto most = number_after(group / limit, ""), used = number_after(group / usage, "");
            if (most && used) {
                uint64_t cached = 0;
                for (const char *list : {"active_file ", "inactive_file "})
                    cached += number_after(group / "memory.stat", total + list).value_or(0);
                take({less(*most, less(*used, cached)), true, fmt::format("are left of the cgroup {}", path.string())});
            }
            if (!path.has_relative_path()) break;
        }
    }
};

}  // namespace

MemoryLeft memory_left(const fs::path &root) {
    if (const char *text = std::getenv("CRYOLITE_MEMORY")) {
        const auto bytes = bytes_of(text);
        if (!bytes)
            fail_usage("CRYOLITE_MEMORY is {}, expected bytes, such as 2350000000, 40MB or 1.5GiB", shown(text));
        return {*bytes, false, "are allowed by CRYOLITE_MEMORY"};
    }
    return Limits(root).least();
}

}  // namespace cryolite
