#include "apps/cryolite/explain/loops/port_limit.h"

#include "runtime/system/process.h"

namespace cryolite {

std::optional<double> PortLimit::operator()(const std::string &symbol) const {
    if (!tools_ || symbol.empty()) return std::nullopt;
    const auto [at, is_new] = known_.try_emplace(symbol);
    if (is_new) at->second = read(symbol);
    return at->second;
}

/// If the tools cannot read a kernel, there is no limit, and no error: the limit only decides what is tried first.
std::optional<double> PortLimit::read(const std::string &symbol) const {
    const fs::path object = cache_->kernel(symbol);
    std::error_code error;
    if (!fs::is_regular_file(object, error)) return std::nullopt;
    try {
        double cycles = 0, of_sums = 0;
        for (const LoopSpeed &s : predict(*tools_, main_loops(sum_loops(*tools_, object), symbol)))
            cycles += s.run_cycles, of_sums += s.fma_cycles;
        if (cycles > 0) return of_sums / cycles;
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &) {
    }
    return std::nullopt;
}

}  // namespace cryolite
