// cryolite explain APP [KERNEL]: the plan of a step, for people and as JSON.

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/explain/explain_diff.h"
#include "apps/cryolite/explain/explain_exchanges.h"
#include "apps/cryolite/explain/explain_formats.h"
#include "apps/cryolite/explain/tables/explain_groups.h"
#include "apps/cryolite/explain/explain_launches.h"
#include "apps/cryolite/explain/tables/explain_parameters.h"
#include "apps/cryolite/explain/loops/explain_loops.h"
#include "apps/cryolite/explain/tables/merged_rows.h"
#include "apps/cryolite/explain/page/arena_json.h"
#include "apps/cryolite/explain/page/step_page.h"
#include "apps/cryolite/explain/tables/stage_words.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/report/cost_model.h"
#include "apps/cryolite/report/page.h"
#include "apps/cryolite/report/units.h"
#include "apps/cryolite/session/memory_choice.h"
#include "apps/cryolite/session/session.h"
#include "bundle/block_names.h"
#include "bundle/flops.h"
#include "apps/cryolite/session/step_questions.h"
#include "apps/cryolite/session/tuned_lines.h"
#include "bundle/target.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/exec/peak.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

json stage_json(const PlanCall &c) {
    json list = json::array();
    for (const PlanCall::Stage &s : c.stages) {
        list.push_back({{"name", s.name}, {"placed", s.placed}});
        if (!s.why.empty()) list.back()["why"] = s.why;
    }
    return list;
}

class Explanation {
public:
    /// `loops`: null if inner loops are not to be shown; `launches`: null if the device is not cuda. `measured`: times
    /// of kernels that were measured before.
    Explanation(const Plan &plan, const TrainSettings &s, const Request &r, std::optional<Roof> roof, LoopReport *loops,
                LaunchReport *launches, CostModel::Measured measured)
        : plan_(plan), s_(s), r_(r), roof_(roof), loops_(loops), launches_(launches), measured_(std::move(measured)) {
        bool any = r_.kernel.empty();
        for (auto &[name, calls] : plan_.plans)
            for (const PlanCall &c : calls) any |= chosen(c);
        if (!any) fail_usage("no kernel of {} has '{}' in its name; explain {} lists them", r_.app, r_.kernel, r_.app);
    }

    json to_json() const {
        json j = {{"app", r_.app},
                  {"program", r_.program.description.name},
                  {"preset", r_.preset},
                  {"params", s_.params},
                  {"optimizer", s_.optimizer},
                  {"update", s_.update},
                  {"precision", s_.precision},
                  {"device", plan_.device},
                  {"dialect", s_.dialect},
                  {"clip", s_.clip > 0},
                  {"workers", plan_.workers},
                  {"parts", plan_.parts},
                  {"flops", step_flops(plan_, s_.accumulate)},
                  {"arena_bytes", plan_.arena},
                  {"arena_unshared_bytes", plan_.arena_unshared},
                  {"kernels", plan_.kernels.size()}};
        if (roof_) j["peak_gflops"] = roof_->peak, j["bandwidth_gb_s"] = roof_->bandwidth;
        for (auto &[name, calls] : plan_.plans) {
            j["plans"][name] = json::array();
            for (const PlanCall &c : calls)
                if (chosen(c)) j["plans"][name].push_back(call_json(c));
        }
        j["title"] = fmt::format("A step of {}", model_name(r_));
        j["summary"] = summary();
        j["arena"] = arena_json(plan_);
        j["saved"] = json::array();
        for (auto &[name, bytes] : saved()) j["saved"].push_back({{"name", name}, {"bytes", bytes}});
        j["memory"] = plan_.memory();
        if (any_frozen())
            j["spared"] = {{"state_bytes", plan_.spared.state_bytes},
                           {"gradient_bytes", plan_.spared.gradient_bytes},
                           {"flops", plan_.spared.flops}};
        j["memory_of_run"] = cryolite::memory_words(plan_, s_);
        if (!s_.memory_note.empty()) j["memory_note"] = s_.memory_note;
        if (const json formats = formats_json(plan_); !formats.empty()) j["formats"] = formats;
        if (const json between = exchanges_json(plan_); !between.empty()) j["exchanges"] = between;
        j["groups"] = json::array();
        for (const PlanGroup &g : plan_.groups) j["groups"].push_back(group_json(plan_, g));
        j["parameters"] = json::array();
        for (const PlanBuffer &b : plan_.buffers)
            if (b.role == Role::parameter) {
                const ParameterUpdate update = update_of(plan_, b.name);
                j["parameters"].push_back({{"name", b.name},
                                           {"shape", b.shape},
                                           {"bytes", b.bytes},
                                           {"type", b.type},
                                           {"layout", layout_words(b)},
                                           {"update", update.place},
                                           {"why", update.why}});
            }
        return j;
    }

    void print() const {
        fmt::print("{}\n", summary());
        for (auto pass : {entry::forward, entry::first, entry::accumulate, entry::step, entry::deferred, entry::flush})
            if (plan_.plans.count(pass)) print_pass(pass);
        fmt::print("\n{} and {}: of one call.{}\n"
                   "loops: its loop schedule, of schedules/{}, the program's own or an autoscheduler's. "
                   "compute_at: never stored; compute_with: stored in the same loops; compute_root: alone.\n",
                   flop_.name, byte_.name,
                   roof_ ? " share: of the pass, were every call as fast as the machine; bound: what limits it then."
                         : "",
                   roof_ ? "cpu" : "gpu");
        if (launches_) fmt::print("{}\n", launches_->legend());
        if (!r_.kernel.empty()) return;
        print_saved();
        print_spared();
        fmt::print("{}", parameters_text(plan_));
        fmt::print("{}", formats_text(plan_));
        print_exchanges(plan_);
        print_groups(plan_);
    }

private:
    const Plan &plan_;
    const TrainSettings &s_;
    const Request &r_;
    std::optional<Roof> roof_;  ///< of this machine's cores; nothing is known of a device's
    LoopReport *loops_;
    LaunchReport *launches_;
    CostModel::Measured measured_;
    const Unit flop_ = column_unit(largest([](const PlanCall &c) { return c.flops; }), "FLOP"),
               byte_ = column_unit(largest([](const PlanCall &c) { return double(c.bytes); }), "B");

    std::string summary() const {
        return fmt::format(
            "{}, {}{}{}{}{}: {} parameters, {} a step{}", model_name(r_),
            plan_.device == "cpu" ? "" : plan_.device + ", ", s_.precision == "fp32" ? "" : s_.precision + ", ",
            s_.dialect == "halide" ? "" : s_.dialect + ", ",
            s_.clip > 0 ? fmt::format("clip {}", s_.clip) : "no clipping",
            plan_.workers > 1 ? fmt::format(", {} workers (bytes, FLOPs and calls of each pass: of one)", plan_.workers)
            : plan_.parts     ? fmt::format(", in {} parts (forward and backward pass: of one)", plan_.parts)
                              : "",
            grouped(uint64_t(plan_.parameters())), flop_words(step_flops(plan_, s_.accumulate)),
            roof_ ? fmt::format("; this machine's cores: {:.0f} GFLOP/s{}, {:.0f} GB/s", roof_->peak, peak_words(),
                                roof_->bandwidth)
                  : "");
    }
    /// What the peak of a step counts. Large products of this machine's kernels multiply in the same way.
    std::string peak_words() const {
        if (s_.precision != "bf16") return peak_is_of_tiles(s_, plan_) ? " of float32 by tiles of bf16" : "";
        if (peak_is_of_tiles(s_, plan_)) return " of tiles of bf16";
        return dot_products_are_faster() ? " of pairs of bf16" : " of float32, to which bf16 factors are widened";
    }

    bool chosen(const PlanCall &c) const {
        std::string names = c.name;  // also without the numbers of blocks, as the list of all kernels has them
        for (const PlanCall::Stage &stage : c.stages) names += '\n' + stage.name;
        return (names + '\n' + without_numbers(names)).find(r_.kernel) != std::string::npos;
    }

    json call_json(const PlanCall &c) const {
        json args = json::array();
        for (size_t i = 0; i < c.args.size(); i++) {
            const PlanBuffer &b = plan_.buffers[size_t(c.args[i].buffer)];
            args.push_back({{"buffer", b.name},
                            {"role", role_name(b.role)},
                            {"type", type_of(c, i)},
                            {"extents", extents_of(c, i)},
                            {"written", plan_.writes(c, i)}});
        }
        json j = {{"name", c.name},   {"pass", c.pass},   {"loops", plan_.loops(c)}, {"dialect", dialect(c)},
                  {"flops", c.flops}, {"bytes", c.bytes}, {"stages", stage_json(c)}, {"args", args}};
        if (roof_) j["roof_s"] = roof_->seconds(c), j["bound"] = roof_->bound(c);
        if (c.kernel >= 0 && measured_)
            if (const auto seconds = measured_(cost_key(plan_.kernels[size_t(c.kernel)]))) j["seconds"] = *seconds;
        if (c.kernel >= 0) j["kernel"] = plan_.kernels[size_t(c.kernel)].symbol;
        if (c.kernel >= 0 && launches_) j["launches"] = launches_->to_json(c.kernel), j["sectors"] = sectors(c);
        if (c.kernel >= 0 && loops_) j["inner_loops"] = loops_->to_json(plan_.kernels[size_t(c.kernel)].symbol);
        if (!c.why.empty()) j["why"] = c.why;
        if (c.worker >= 0) j["worker"] = c.worker;
        return j;
    }
    /// How many sectors of a GPU's memory a call moves, if it moves each byte once.
    static int64_t sectors(const PlanCall &c) { return (c.bytes + 31) / 32; }
    std::string dialect(const PlanCall &c) const {
        const PlanKernel *k = c.kernel < 0 ? nullptr : &plan_.kernels[size_t(c.kernel)];
        return k && k->chosen >= 0 ? k->dialects[size_t(k->chosen)].name : "halide";
    }
    std::string why(const PlanCall &c) const { return dialect(c) + ": " + c.why; }
    // A sum over workers has no kernel that would say its type.
    std::string type_of(const PlanCall &c, size_t argument) const {
        return c.kernel < 0 ? "float32" : plan_.kernels[size_t(c.kernel)].args[argument].type;
    }
    std::vector<int> extents_of(const PlanCall &c, size_t argument) const {
        return c.kernel < 0 ? std::vector<int>{int(c.sum)} : plan_.kernels[size_t(c.kernel)].args[argument].extents;
    }

    /// All that the line of a call shows beside its name. The index of the kernel stands for the numbers in the line.
    std::string columns(const PlanCall &c) const {
        std::string text = fmt::format("{} {} {}", c.kernel, dialect(c), c.why);
        for (const PlanCall::Stage &s : c.stages) text += fmt::format(" {} {}", s.name, placed_words(s.placed));
        return text;
    }
    double largest(double (*of)(const PlanCall &)) const {
        double most = 0;
        for (auto &[pass, calls] : plan_.plans)
            for (const PlanCall &c : calls) most = std::max(most, of(c));
        return most;
    }

    /// Equal kernels of equal blocks are one line.
    void print_pass(const std::string &pass) const {
        std::vector<const PlanCall *> calls;
        std::vector<BlockRow> rows;
        double total = 0;
        for (const PlanCall &c : plan_.plans.at(pass)) {
            total += roof_ ? roof_->seconds(c) : 0;
            if (!chosen(c)) continue;
            calls.push_back(&c);
            rows.push_back({c.name, columns(c)});
        }
        if (rows.empty()) return;
        fmt::print("\n{}: {} kernel calls{}\n", pass, plan_.plans.at(pass).size(),
                   launches_ ? fmt::format(", {} launches of compiled kernels", launches_->launches(pass)) : "");
        fmt::print("  calls {:>8} {:>8}   {}loops                kernel\n", flop_.name, byte_.name,
                   roof_ ? "share  bound    " : "");
        std::vector<MergedRow> lines;
        if (r_.kernel.empty()) lines = merged_rows(rows);
        for (size_t i = 0; i < rows.size() && !r_.kernel.empty(); i++) lines.push_back({i, rows[i].name});
        std::map<std::string, int> alike;  // lines with the same reason, which is printed with the first of them
        for (const MergedRow &l : lines) alike[why(*calls[l.first])]++;
        for (const MergedRow &l : lines) {
            const PlanCall &c = *calls[l.first];
            const std::string limit =
                roof_ ? fmt::format(" {:6.1f}%  {:7}", 100 * roof_->seconds(c) * l.count / total, roof_->bound(c)) : "";
            fmt::print("  {:5} {:8.2f} {:8.3f}{}  {:19}  {}\n", l.count, c.flops / flop_.size,
                       double(c.bytes) / byte_.size, limit, plan_.loops(c), l.name);
            if (const int n = c.why.empty() ? 0 : std::exchange(alike[why(c)], 0))
                fmt::print("{:62}{}{}\n", "", why(c), n > 1 ? fmt::format("; so for {} more lines", n - 1) : "");
            if (c.stages.size() > 1 || !r_.kernel.empty()) print_stages(c, l.count > 1 && l.name != c.name);
            if (!r_.kernel.empty()) print_arguments(c);
            if (c.kernel >= 0 && launches_) fmt::print("{:30}{} sectors of 32 B\n", "", grouped(uint64_t(sectors(c))));
            if (c.kernel >= 0 && launches_)
                for (const std::string &line : launches_->lines(c.kernel)) fmt::print("{:30}{}\n", "", line);
            if (c.kernel >= 0 && loops_) loops_->print(plan_.kernels[size_t(c.kernel)].symbol);
        }
    }

    /// `of_blocks`: the line stands for the calls of several blocks. Then, or if the call has many stages, stages that
    /// differ only in the number of their block are one line.
    void print_stages(const PlanCall &c, bool of_blocks) const {
        constexpr size_t most = 12;
        const bool each = !r_.kernel.empty() || (!of_blocks && c.stages.size() <= most);
        for (const std::string &line : stage_lines(c, each)) fmt::print("{:62}{}\n", "", line);
    }

    void print_arguments(const PlanCall &c) const {
        for (size_t i = 0; i < c.args.size(); i++) {
            const PlanBuffer &b = plan_.buffers[size_t(c.args[i].buffer)];
            fmt::print("{:62}{} {} {}: {} {}\n", "", plan_.writes(c, i) ? "writes" : "reads ", role_name(b.role),
                       b.name, type_of(c, i), shape_words(extents_of(c, i)));
        }
    }

    /// The activations that the forward pass writes and the backward pass reads, with their bytes.
    std::vector<std::pair<std::string, int64_t>> saved() const {
        std::map<int, bool> written;
        if (auto at = plan_.plans.find(entry::forward); at != plan_.plans.end())
            for (const PlanCall &c : at->second)
                for (size_t i = 0; i < c.args.size(); i++)
                    if (plan_.writes(c, i)) written[c.args[i].buffer] = true;
        std::map<int, bool> read;  // by buffer, as names need not be unique
        if (auto at = plan_.plans.find(plan_.backward(0, 1)); at != plan_.plans.end())
            for (const PlanCall &c : at->second)
                for (const PlanCall::Bound &a : c.args) read[a.buffer] = true;
        std::vector<std::pair<std::string, int64_t>> saved;
        for (auto &[buffer, yes] : read)
            if (const auto &b = plan_.buffers[size_t(buffer)]; written.count(buffer) && b.role == Role::activation)
                saved.emplace_back(b.name, b.bytes);
        return saved;
    }

    void print_saved() const {
        const std::vector<std::pair<std::string, int64_t>> all = saved();
        std::vector<BlockRow> rows;
        int64_t total = 0;
        for (auto &[name, bytes] : all) rows.push_back({name, std::to_string(bytes)}), total += bytes;
        fmt::print("\nsaved for the backward pass: {}\n", human_bytes(uint64_t(total)));
        std::vector<MergedRow> merged = merged_rows(rows);
        std::ranges::stable_sort(merged, {}, [&](const MergedRow &m) { return without_numbers(rows[m.first].name); });
        for (const MergedRow &m : merged)
            fmt::print("  {:10}  {}{}\n", human_bytes(uint64_t(all[m.first].second * m.count)), m.name,
                       m.count > 1 ? fmt::format("  ({} of them)", m.count) : "");
        fmt::print("memory of a step: {}{}\n", step_memory_words(),
                   s_.budget ? fmt::format(", --recompute {} allows {}", s_.recompute, human_bytes(s_.budget)) : "");
        fmt::print("memory of a run: {}\n", cryolite::memory_words(plan_, s_));
        if (!s_.memory_note.empty()) fmt::print("{}\n", s_.memory_note);
        const bool gradients = std::ranges::any_of(
            plan_.buffers, [](const PlanBuffer &b) { return b.role == Role::gradient && b.in_arena(); });
        fmt::print("activations{}: {} in one arena; without sharing they were {}\n", gradients ? " and gradients" : "",
                   human_bytes(uint64_t(plan_.arena)), human_bytes(uint64_t(plan_.arena_unshared)));
    }

    bool any_frozen() const {
        return std::ranges::any_of(plan_.buffers, [](const PlanBuffer &b) { return !b.frozen.empty(); });
    }
    void print_spared() const {
        if (!any_frozen()) return;
        const auto &[state, gradients, flops] = plan_.spared;
        fmt::print("frozen: {} of {} parameters; spared: {} of optimizer state, {} of gradients where they are stored, "
                   "{} of each micro-batch\n",
                   grouped(uint64_t(plan_.parameters() - plan_.trained_parameters())),
                   grouped(uint64_t(plan_.parameters())), human_bytes(uint64_t(state)),
                   human_bytes(uint64_t(gradients)), flop_words(flops));
    }

    std::string step_memory_words() const {
        int64_t all = 0;
        std::string words;
        const bool apart = plan_.device != "cpu" && plan_.workers > 1;  // each worker has a device of its own
        const auto memory = apart ? plan_.memory(1) : plan_.memory();
        for (auto &[role, bytes] : memory) all += bytes;
        int64_t small = 0;
        for (auto &[role, bytes] : memory)
            if (bytes * 20 >= all)
                words += fmt::format("{}{} {}", words.empty() ? "" : ", ", role, human_bytes(uint64_t(bytes)));
            else
                small += bytes;
        if (small > 0) words += fmt::format(", others {}", human_bytes(uint64_t(small)));
        return fmt::format("{}{} ({})", human_bytes(uint64_t(all)), apart ? " at most on each device" : "", words);
    }
};

}  // namespace

int run_explain(const std::vector<std::string> &arguments) {
    Request request = read_request(Command::explain, arguments);
    TrainSettings s = understand(request);
    check_page_file("html", request.html);
    data_of_step(s, request);  // as train does, since the data decide the vocabulary
    if (!request.diff.empty()) return explain_difference(s, request, request.diff);
    Progress progress;
    for (const std::string &note : idle_flag_notes(request)) progress.say(note);
    if (!request.ir.empty()) {
        const char *other = s.json                   ? "--json"
                            : !request.html.empty()  ? "--html"
                            : request.kernel.empty() ? ""
                                                     : "KERNEL";
        if (*other) fail_usage("--ir prints the whole step as text: leave out {}", other);
        take_tuned_lines(s, request, Cache(s.cache), threads_of_worker(s, core_numbers()), progress);
        BundleRequest wanted = bundle_request(s);
        wanted.any_size = true;
        fmt::print("{}", step_text(request.program, wanted, request.ir));
        return 0;
    }
    const bool as_json = s.json;
    s.json = false;  // one object, without the compile event
    const std::shared_ptr<const Bundle> bundle = open_bundle(s, request, progress);
    const int threads = s.threads ? s.threads : usable_cores();
    std::optional<LoopReport> loops;
    if (!request.kernel.empty() || !request.html.empty()) loops.emplace(bundle->library());
    std::optional<Roof> roof;
    if (bundle->plan.device == "cpu") roof = {measure_peak(s, bundle->plan, threads), measure_bandwidth(threads)};
    std::optional<SearchRecords> records;
    if (const fs::path folder = Cache(s.cache).folder(); roof && fs::exists(SearchRecords::file(folder)))
        records.emplace(folder, search_machine(threads_of_worker(s, core_numbers()), s.device));
    CostModel::Measured measured;
    if (records) measured = [&](const std::string &key) { return records->time_of(key); };
    std::optional<LaunchReport> launches;
    if (bundle->plan.device == "cuda") launches.emplace(*bundle, s.target);
    const Explanation explanation(bundle->plan, s, request, roof, loops ? &*loops : nullptr,
                                  launches ? &*launches : nullptr, measured);
    if (!request.html.empty()) {
        progress.busy("looking at inner loops");
        write_file_atomic(request.html, step_page(explanation.to_json()));
        progress.say(fmt::format("the step is in {}", request.html.string()));
    } else if (as_json)
        fmt::print("{}\n", explanation.to_json().dump(2));
    else
        explanation.print();
    return 0;
}

}  // namespace cryolite
