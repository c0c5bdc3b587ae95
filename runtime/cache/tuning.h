#pragma once
// What was measured on this machine: CACHE/tuning.sqlite. A damaged file is begun again, with a message; one that
// cannot be written is not used.

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
    std::string dialect;         ///< what computes it
    std::string implementation;  ///< the code that does: a kernel's symbol, a library's version
};

class Tuning {
public:
    /// Opens the records of a cache's folder, or begins them.
    explicit Tuning(const fs::path &folder);

    std::optional<double> seconds(const TuningKey &key) const;
    /// The implementation that is remembered for the key's other members; empty: none.
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
