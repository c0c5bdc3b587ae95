#include "generators/driver/memory/fit.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "generators/passes/placement/memory.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

/// Elements of the largest array that is written to a file or read from one.
int64_t largest_tensor(const StepProgram &p) {
    int64_t most = 0;
    for (const ir::Value &v : p.values)
        if (v.role == ir::Role::parameter || v.role == ir::Role::state)
            most = std::max(most, v.bytes() / v.type.bytes());
    return most;
}

struct Way {
    StepOptions options;
    int64_t budget = 0, bytes = 0;
    int64_t step = 0, arena = 0;  ///< bytes of the step of all workers, and of one worker's activations
    int head_rows = 0;            ///< rows of the head's chunks in the lowered step

    json to_json() const {
        return {{"update", options.update}, {"budget", budget}, {"head_rows", options.head_rows}, {"bytes", bytes}};
    }
};

class Fitting {
public:
    Fitting(const MemoryRoom &room, const StepOptions &options, int64_t budget, const Lower &lower)
        : room(room), lower(lower), asked{.options = options, .budget = budget} {}

    json answer() {
        const StepProgram p = lower_within(asked.budget, asked.options, lower);
        measure(asked, p);
        json j = {{"largest", largest_tensor(p)}, {"fits", asked.bytes <= room.bytes}};
        j["way"] = j["advice"] = nullptr;
        for (auto &[role, bytes] : roles(p)) j["roles"][role_name(role)] = bytes;
        if (asked.bytes > room.bytes) {
            if (const auto way = search(room.update, room.recompute))
                j["way"] = way->to_json();
            else if (const auto advice = search(true, true))
                j["advice"] = advice->to_json();
        }
        j["least"] = least;
        return j;
    }

private:
    const MemoryRoom room;
    const Lower &lower;
    Way asked;
    int64_t least = std::numeric_limits<int64_t>::max();

    /// Bytes by role. One process of several holds the optimizer state of its own share of the parameters alone.
    std::map<ir::Role, int64_t> roles(const StepProgram &p) const {
        std::map<ir::Role, int64_t> bytes = memory_by_role(p, room.replicas);
        if (room.replicas < p.workers) bytes[ir::Role::state] /= p.workers;
        return bytes;
    }
    void measure(Way &way, const StepProgram &p) {
        way.step = step_bytes(p), way.arena = p.memory.bytes, way.head_rows = p.chunks.rows;
        way.bytes = room.staging * largest_tensor(p);
        for (auto &[role, bytes] : roles(p)) way.bytes += bytes;
        least = std::min(least, way.bytes);
    }

    /// First tries updates inside the kernels of their gradients, which costs little time. Then rematerialises.
    std::optional<Way> search(bool update, bool recompute) {
        Way way = asked;
        if (update && asked.options.update != "backward") {
            Way fused = asked;
            fused.options.update = "backward";
            measure(fused, lower_within(asked.budget, fused.options, lower));
            if (fused.bytes <= room.bytes) return fused;
            if (fused.bytes < way.bytes) way = fused;
        }
        return recompute && !asked.budget ? rematerialised(way) : std::nullopt;
    }
    /// Keeps the chunks of the head's rows, so that no order of additions depends on the memory that is free.
    std::optional<Way> rematerialised(Way way) {
        // A budget counts all workers together. The error of one that nothing fits into has the fewest bytes.
        const int workers = asked.options.workers;
        const int64_t activations = room.bytes - (way.bytes - room.replicas * way.arena);
        const int64_t budget = way.step - workers * way.arena + activations / room.replicas * workers;
        way.budget = round_budget(std::max<int64_t>(budget, 1));
        auto lower_and_measure = [&] { measure(way, lower_within(way.budget, way.options, lower)); };
        if (way.options.head_rows < 0) way.options.head_rows = way.head_rows;
        try {
            lower_and_measure();
        } catch (const DoesNotFit &e) {
            least = std::min(least, way.bytes - room.replicas * (way.step - e.least) / workers);
            if (e.least > budget) return std::nullopt;
            way.budget = e.least;  // only the rounded budget is too small
            lower_and_measure();
        }
        return way;
    }
};

}  // namespace

json fit_step(const MemoryRoom &room, const StepOptions &options, int64_t budget, const Lower &lower) {
    return Fitting(room, options, budget, lower).answer();
}

int64_t round_budget(int64_t bytes) {
    const int digits = int(std::bit_width(uint64_t(bytes)));
    return digits <= 5 ? bytes : bytes >> (digits - 5) << (digits - 5);
}

}  // namespace cryolite::compiler
