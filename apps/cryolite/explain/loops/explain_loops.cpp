#include "apps/cryolite/explain/loops/explain_loops.h"

#include <fmt/format.h>

#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

LoopReport::LoopReport(const fs::path &library) : tools_(find_llvm_tools()) {
    if (tools_)
        loops_ = sum_loops(*tools_, library);
    else
        tell("note: to show inner loops explain {}", install_llvm_tools);
}

const LoopReport::Judged &LoopReport::judged(const std::string &symbol) {
    auto [at, is_new] = judged_.try_emplace(symbol);
    if (is_new) {
        at->second.loops = main_loops(loops_, symbol);
        at->second.speeds = predict(*tools_, at->second.loops);
    }
    return at->second;
}

void LoopReport::print(const std::string &symbol) {
    if (!tools_ || !printed_.insert(symbol).second) return;
    const auto &[loops, speeds] = judged(symbol);
    if (loops.empty()) return fmt::print("    no inner loop that sums products\n");
    for (size_t i = 0; i < loops.size(); i++) {
        const SumLoop &l = loops[i];
        const LoopSpeed &s = speeds[i];
        fmt::print(
            "    inner loop: {} multiply-adds ({} scalar) in {} instructions, {} spills; {}: {:.1f} cycles, its ports "
            "allow {:.1f}: {:.0f} %\n",
            l.fmas.size(), l.scalar, l.code.size(), l.spills, s.processor, s.cycles, s.fma_cycles, 100 * s.share());
        for (const std::string &line : shortened(l.code)) fmt::print("        {}\n", line);
    }
}

json LoopReport::to_json(const std::string &symbol) {
    if (!tools_) return nullptr;
    const auto &[loops, speeds] = judged(symbol);
    json list = json::array();
    for (size_t i = 0; i < loops.size(); i++)
        list.push_back({{"fmas", loops[i].fmas.size()},
                        {"scalar_fmas", loops[i].scalar},
                        {"spills", loops[i].spills},
                        {"processor", speeds[i].processor},
                        {"cycles", speeds[i].cycles},
                        {"share_of_fma_ports", speeds[i].share()},
                        {"code", loops[i].code}});
    return list;
}

}  // namespace cryolite
