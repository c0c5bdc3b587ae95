#include "apps/cryolite/session/memory_choice.h"

#include <array>

#include <fmt/ranges.h>

#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "bundle/plan_json.h"
#include "runtime/collective/processes.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/io/error.h"
#include "runtime/plan/memory_left.h"
#include "runtime/plan/memory_need.h"

namespace cryolite {

namespace {

/// The memory that this process may use, and how much the process itself uses beside the run's arrays.
struct Bound {
    MemoryLeft left;
    int threads, replicas;
    bool one_of_several;

    explicit Bound(const TrainSettings &s) : left(memory_left()) {
        Processes &all = known_processes();
        one_of_several = all.size() > 1;
        if (left.of_host) left.bytes /= uint64_t(all.on_host());
        replicas = one_of_several ? 1 : s.workers;
        threads = s.threads > 0 ? s.threads * replicas : usable_cores();
    }
    int64_t room() const {
        const auto bytes = int64_t(std::min<uint64_t>(left.bytes, uint64_t{1} << 62));
        return std::max<int64_t>(bytes - process_bytes(threads, bytes), 1);
    }
    std::string words() const { return fmt::format("{} {}", human_bytes(left.bytes), left.words); }
    int64_t whole(int64_t arrays) const { return arrays + process_bytes(threads, arrays); }

    MemoryNeed need(const Plan &plan) const { return complete(memory_need(plan, one_of_several)); }
    MemoryNeed need(const StepFit &fit, int64_t staging) const { return complete({fit.roles, fit.largest * staging}); }
    bool fits(const MemoryNeed &need) const { return uint64_t(need.bytes()) <= left.bytes; }

private:
    MemoryNeed complete(MemoryNeed need) const {
        need.process = process_bytes(threads, need.bytes());
        return need;
    }
};

std::string flags_of(const FittingWay &way, const TrainSettings &s) {
    std::string flags;
    if (way.update != s.update) flags += " --update " + way.update;
    if (way.budget) flags += fmt::format(" --recompute {}", way.budget);
    if (way.budget && way.head_rows != s.head_rows) flags += fmt::format(" --head-rows {}", way.head_rows);
    return flags.substr(1);
}

/// What else would help, beside what the refusal has named. `asked`: the program was asked for its advice.
std::string other_help(const TrainSettings &s, bool asked) {
    std::vector<std::string> help;
    if (s.param("batch", 1) > s.batch_parts())
        help.push_back(
            fmt::format("a smaller --batch (with --accumulate for as many {} a step)", s.text ? "sequences" : "rows"));
    if (!asked && s.update != "backward" && s.accumulate == 1) help.push_back("--update backward");
    if (!asked && !s.budget) help.push_back("--recompute BYTES");
    if (s.precision == "fp32") help.push_back("--precision bf16");
    if (s.params.count("context")) help.push_back("a smaller --context");
    help.push_back("a smaller model");
    return fmt::format("{}", fmt::join(help, ", "));
}

/// `fit`: what the program says of the step; null: it was not asked.
std::string refusal(const MemoryNeed &need, const Bound &bound, const TrainSettings &s, const StepFit *fit) {
    std::string help = "what may help: ";
    if (fit && fit->advice)
        help = fmt::format("it takes {} and fits with {}; or ", human_bytes(uint64_t(bound.whole(fit->advice->bytes))),
                           flags_of(*fit->advice, s));
    else if (fit)
        help = fmt::format("with --update backward and everything recomputed that can be, it still takes {}; {}",
                           human_bytes(uint64_t(bound.whole(fit->least))), help);
    return fmt::format("this run takes {}, and {}:{}\n{}{}", human_bytes(uint64_t(need.bytes())), bound.words(),
                       need.table(), help, other_help(s, fit));
}

/// What is chosen; nothing where the step fits as it is.
std::optional<FittingWay> fitting_way(TrainSettings &s, const Request &request, const Cache &cache) {
    const Bound bound(s);
    const BundleRequest wanted = bundle_request(s);
    const bool looks = request.command == Command::explain;
    auto refuse = [&](const std::string &why) {
        if (!looks) throw UsageError(why);
        s.memory_note = why;
        return std::nullopt;
    };
    std::optional<MemoryNeed> need;
    if (const auto known = find_bundle(cache, sha256_hex(bundle_parts(request.program, wanted, cache))))
        need = bound.need(read_plan(known->files.at("plan.json")->read(), "plan.json"));
    if (need && bound.fits(*need)) return std::nullopt;
    if (request.program.path.empty()) return need ? refuse(refusal(*need, bound, s, nullptr)) : std::nullopt;
    const int64_t staging = staging_bytes(s.narrow());
    StepFit fit;
    try {
        fit = fit_step(request.program, wanted,
                       // With --deterministic, the memory of a machine must not change the bits.
                       {bound.room(), staging, bound.replicas, s.update == "auto" && !s.deterministic,
                        s.recompute == "auto" && !s.deterministic});
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &) {  // the compiler itself has too little memory
        if (!need) throw;
        return refuse(refusal(*need, bound, s, nullptr));
    }
    if (fit.fits) return std::nullopt;
    need = bound.need(fit, staging);
    if (!fit.way) return refuse(refusal(*need, bound, s, &fit));
    s.memory_note = fmt::format("{} chosen for memory: the run takes {} instead of {}, and {}", flags_of(*fit.way, s),
                                human_bytes(uint64_t(bound.whole(fit.way->bytes))),
                                human_bytes(uint64_t(need->bytes())), bound.words());
    return fit.way;
}

/// A choice on its way from rank 0 to all.
struct Sent {
    bool chosen = false;
    std::array<char, 16> update{};
    uint64_t budget = 0;
    int head_rows = 0;
};

}  // namespace

void choose_for_memory(TrainSettings &s, const Request &request, const Cache &cache, Progress &progress) {
    if (s.device != "cpu") return;
    Processes &all = known_processes();
    Sent sent;
    if (all.rank() == 0)
        if (const auto way = fitting_way(s, request, cache)) {
            sent = {true, {}, way->budget, way->head_rows};
            way->update.copy(sent.update.data(), sent.update.size() - 1);
        }
    all.broadcast(std::as_writable_bytes(std::span(&sent, 1)));
    if (!s.memory_note.empty() && request.command != Command::explain) progress.say(s.memory_note);
    if (!sent.chosen) return;
    s.update = sent.update.data();
    if (sent.budget) s.budget = sent.budget, s.recompute = std::to_string(sent.budget), s.head_rows = sent.head_rows;
}

void check_memory(const Plan &plan, const TrainSettings &s, const Request &request) {
    if (plan.device != "cpu" || request.command == Command::explain) return;
    const Bound bound(s);
    if (const MemoryNeed need = bound.need(plan); !bound.fits(need)) throw UsageError(refusal(need, bound, s, nullptr));
}

std::string memory_words(const Plan &plan, const TrainSettings &s) {
    if (plan.device != "cpu")  // arrays are in the memory of a device, which is not asked here
        return fmt::format("{} on the device of each worker", human_bytes(uint64_t(memory_need(plan, true).bytes())));
    const Bound bound(s);
    return fmt::format("{} for all of a run; {}", human_bytes(uint64_t(bound.need(plan).bytes())), bound.words());
}

}  // namespace cryolite
