#include "generators/driver/trials/choose_lines.h"

#include <algorithm>

#include "generators/passes/moves/moves.h"

namespace cryolite::compiler {

namespace {

class ChooseLines {
public:
    ChooseLines(Step &step, const std::function<StepProgram()> &lower)
        : step(step), lower(lower), own(step.placements.size()) {}

    /// A fusion may make others possible, so this repeats until there is nothing new to propose.
    void run() {
        for (StepProgram p = lower(); propose(p);) {
            p = lower();
            keep_legal(p);
        }
    }

private:
    Step &step;
    const std::function<StepProgram()> &lower;
    const size_t own;  ///< number of the program's lines, which come first and are kept
    std::set<std::string> tried;

    const Placement *placement(const Stage &stage) const {
        const auto at = std::ranges::find_if(step.placements, [&](auto &line) { return line.first.meets(stage); });
        return at == step.placements.end() ? nullptr : &at->second;
    }
    /// Whether a line wants the stage in a kernel of its own.
    bool stands_alone(const Stage &stage) const {
        const Placement *said = placement(stage);
        return said && said->how == Placement::root;
    }
    bool propose(StepProgram &p) {
        bool any = false;
        for (const Move &m : fusions_of(p)) {
            if (!m.is_epilogue || m.bytes < least_bytes || !tried.insert(text_of(m)).second) continue;
            for (const auto &[stage, place] : m.lines) any |= add(stage, place, m.bytes / int64_t(m.lines.size()));
        }
        return any;
    }
    /// Adds a line, unless the stage has one. A `compute_with` line may belong to either of its two stages.
    bool add(Stage stage, Placement place, int64_t bytes) {
        if (stands_alone(stage) || stands_alone(place.target)) return false;
        if (placement(stage) && place.how == Placement::with) std::swap(stage, place.target);
        if (placement(stage)) return false;
        place.source = "automatic", place.where_legal = true, place.saves = bytes;
        step.placements.push_back({stage, place});
        return true;
    }
    void keep_legal(const StepProgram &p) {
        auto placed = [&](size_t i) {
            const ir::Verdict &v = p.lines[i].verdict;
            return v.is == ir::Verdict::legal || (v.is == ir::Verdict::left_out && !v.by.empty());
        };
        std::vector<std::pair<Stage, Placement>> kept;
        for (size_t i = 0; i < step.placements.size(); i++)
            if (i < own || placed(i)) kept.push_back(step.placements[i]);
        step.placements = kept;
    }
    static constexpr int64_t least_bytes = 4096;  ///< a page: smaller arrays stay in the caches
};

}  // namespace

void choose_lines(Step &step, const std::function<StepProgram()> &lower) { ChooseLines(step, lower).run(); }

}  // namespace cryolite::compiler
