#pragma once
// Compiled kernels on disk, KEY.o: found by content, published whole, checked when used. A line
// after the object, which linkers do not read, holds its key and digest: "\ncryolite kernel KEY
// DIGEST\n".
// (`cache verify` reads it, too: runtime/cache/cache.h.)

#include <functional>
#include <string>

namespace cryolite::compiler {

class KernelStore {
public:
    explicit KernelStore(std::string folder);
    /// Whether the kernel is there and whole. One that is damaged is not, with a word on stderr.
    bool has(const std::string &key) const;
    std::string path(const std::string &key) const { return folder_ + "/" + key + ".o"; }
    /// Publishes what `write(path)` writes, by one rename that replaces what is there.
    void put(const std::string &key, const std::function<void(const std::string &)> &write) const;

private:
    std::string folder_;
};

/// Whole contents of a file; throws with its name and the reason.
std::string read_whole(const std::string &path);
/// Writes a file by a temporary one, synced, and a rename.
void write_whole(const std::string &path, const std::string &bytes);

}  // namespace cryolite::compiler
