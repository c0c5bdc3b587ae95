#pragma once
// What was measured on this machine, remembered: CACHE/tuning.sqlite. A cache of numbers: one that is damaged is a miss
// with a word and is made again, one that cannot be written is not used.

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cache/database.h"

namespace cryolite {

/// One way to compute an operator, in one place.
struct TuningKey {
    std::string target;   ///< what it runs on: cpu
    std::string machine;  ///< digest of what the system says of the processor
    int threads = 1;
    std::string operation;       ///< what is computed, in words that are equal for equal work
    std::string dialect;         ///< by whom
    std::string implementation;  ///< by which code: a kernel's symbol, a library's version
};

class Tuning {
public:
    /// Opens the records of a cache's folder, or begins them.
    explicit Tuning(const fs::path &folder);

    std::optional<double> seconds(const TuningKey &key) const;
    /// Which implementation is remembered, whatever the key's is; empty: none.
    std::string implementation(const TuningKey &key) const;
    void remember(const TuningKey &key, double seconds);
    int count() const;

    static fs::path file(const fs::path &folder) { return folder / "tuning.sqlite"; }
    /// Why the records must not be used; empty: they are whole, or there are none.
    static std::string damage(const fs::path &folder);
    static void remove(const fs::path &folder);

private:
    Database database_;
};

}  // namespace cryolite
