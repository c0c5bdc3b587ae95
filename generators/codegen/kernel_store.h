#pragma once
// Compiled kernels on disk: KEY.o, where KEY is a digest of what is compiled. Files are published whole and checked
// when they are used. After the object is a line that linkers do not read, "\ncryolite kernel KEY DIGEST\n", with the
// digest of the object. (`cache verify` reads that line, too: runtime/cache/cache.h.)

#include <functional>
#include <string>

namespace cryolite::compiler {

class KernelStore {
public:
    explicit KernelStore(std::string folder);
    /// Whether the kernel is there and whole. Of a damaged one, a line on stderr says why.
    bool has(const std::string &key) const;
    std::string path(const std::string &key) const { return folder_ + "/" + key + ".o"; }
    /// Publishes what `write(path)` writes, by one rename that replaces what is there.
    void put(const std::string &key, const std::function<void(const std::string &)> &write) const;

private:
    std::string folder_;
};

/// Whole contents of a file; throws with its name and the reason.
std::string read_whole(const std::string &path);
/// Replaces a file at once: writes and syncs a temporary file, then renames it.
void write_whole(const std::string &path, const std::string &bytes);

}  // namespace cryolite::compiler
