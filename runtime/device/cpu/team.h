#pragma once
// What a kernel's user context points to on the CPU: the team that runs its parallel loops and the pools
// its temporaries come from.

#include <array>
#include <atomic>
#include <string>
#include <vector>

namespace cryolite {

/// Temporaries of one thread: few sizes, returned in any order, never given back to the system.
class Pool {
public:
    Pool() = default;
    Pool(const Pool &) = delete;
    ~Pool();
    void *take(size_t bytes);
    /// False where the block is not one of this pool's.
    bool give(void *block);
    size_t bytes() const { return bytes_; }

private:
    struct Block {
        void *address;
        size_t bytes;
        bool used;
    };
    std::vector<Block> blocks_;
    size_t bytes_ = 0;
};

struct Team {
    explicit Team(int threads) : threads(threads), pools(size_t(threads)) {}
    const int threads;
    std::vector<Pool> pools;  ///< one for each thread, so that no lock is needed
    std::string error;        ///< message of the last kernel that failed
};

/// Takes over parallel loops, temporaries and error messages of all Halide kernels in this process, once.
void install_halide_hooks();

}  // namespace cryolite
