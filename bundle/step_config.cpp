#include "bundle/step_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bundle/target.h"
#include "dialects/table.h"

namespace cryolite {

using nlohmann::json;

namespace {

const std::string step = "Step", schedule = "Schedule";
constexpr auto value = InBundle::value, whether = InBundle::whether;
constexpr auto fixed = OnResume::fixed, free = OnResume::free;

/// Bundles are made with "halide" for "auto": what is faster is known once their kernels are measured.
std::vector<Setting::Word> dialects() {
    std::vector<Setting::Word> words = {{"auto", 0, "halide"}, {"halide"}};
    for (const DialectLine &d : dialect_table()) words.push_back({d.name});
    return words;
}

static_assert(
    [] {
        int at = 0;
        for (const FormatRow &f : number_formats)
            if (int(f.format) != at++) return false;
        return true;
    }(),
    "the rows of number_formats are not in the order of Format");

/// The formats, and tf32, which only rounds the factors of a library's products.
std::vector<Setting::Word> precisions() {
    std::vector<Setting::Word> words;
    for (const FormatRow &f : number_formats) words.push_back({f.name});
    words.push_back({"tf32"});
    return words;
}

}  // namespace

const std::vector<StepSetting> &step_settings() {
    using S = StepConfig;
    static const std::vector<StepSetting> rows = {
        {{.name = "accumulate",
          .value = "N",
          .group = step,
          .help = "micro-batches in a step",
          .range = WholeRange{1, 1 << 20},
          .on_resume = fixed,
          .in_bundle = whether},
         &S::accumulate},
        {{.name = "precision",
          .value = "FORMAT",
          .group = step,
          .help = "fp32; bf16 or fp16: products and what they read, sums and masters fp32; tf32: factors of cuBLASLt",
          .words = precisions(),
          .on_resume = fixed,
          .in_bundle = value},
         &S::precision},
        {{.name = "finite-check",
          .value = "WHAT",
          .group = step,
          .help = "on; off: bf16 and fp16 withhold no update and scale no loss, to measure what the check costs",
          .words = {{"on"}, {"off"}},
          .on_resume = fixed,
          .in_bundle = InBundle::where_given},
         &S::finite_check},
        {{.name = "loss-scale",
          .value = "SCALE",
          .group = step,
          .help = "fp16: scale of the loss in the first step",
          .range = PowerOfTwo{least_first_loss_scale, largest_first_loss_scale},
          .on_resume = fixed},
         &S::loss_scale},
        {{.name = "loss-scale-growth",
          .value = "FACTOR",
          .group = step,
          .help = "fp16: factor by which the scale of the loss grows",
          .range = PowerOfTwo{2, 65536},
          .on_resume = fixed},
         &S::loss_scale_growth},
        {{.name = "loss-scale-backoff",
          .value = "FACTOR",
          .group = step,
          .help = "fp16: factor of the scale of the loss after a gradient that is not finite",
          .range = PowerOfTwo{0x1p-10, 0.5},
          .on_resume = fixed},
         &S::loss_scale_backoff},
        {{.name = "loss-scale-interval",
          .value = "N",
          .group = step,
          .help = "fp16: updates in a row after which the scale of the loss grows",
          .range = WholeRange{1, 1'000'000'000},
          .on_resume = fixed},
         &S::loss_scale_interval},
        {{.name = "clip",
          .value = "NORM",
          .group = step,
          .help = "largest norm of the gradient; 0: off",
          .range = RealRange::not_negative,
          .on_resume = fixed,
          .in_bundle = whether,
          .in_bench = false},
         &S::clip},
        {{.name = "ema",
          .value = "DECAY",
          .group = step,
          .help = "decay of an exponential moving average of the weights, such as 0.999; 0: off",
          .range = RealRange::fraction,
          .on_resume = fixed,
          .in_bundle = InBundle::where_on},
         &S::ema},
        {{.name = "optimizer",
          .value = "NAME",
          .group = step,
          .help = "the rule of the update",
          .range = Setting::Text{},
          .on_resume = fixed,
          .in_bundle = value,
          .otherwise = "the program's own"},
         &S::optimizer},
        {{.name = "update",
          .value = "PLACE",
          .group = schedule,
          .help = "auto, separate, backward or forward",
          .words = {{"auto"}, {"separate"}, {"backward"}, {"forward"}},
          .on_resume = free,
          .in_bundle = value},
         &S::update},
        {{.name = "group",
          .value = "WHAT",
          .group = schedule,
          .help = "auto, or none: every layer in a kernel of its own",
          .words = {{"auto"}, {"none"}},
          .on_resume = free,
          .in_bundle = value},
         &S::group},
        {{.name = "head-rows",
          .value = "ROWS",
          .group = schedule,
          .help = "rows of the head and its loss computed at a time; 0: all; auto: all unless the logits are large",
          .range = WholeRange{0, 1 << 20},
          .words = {{"auto", -1}},
          .on_resume = free,
          .in_bundle = value},
         &S::head_rows},
        {{.name = "recompute",
          .value = "WHAT",
          .group = schedule,
          .help = "auto (as memory requires), none, or the BYTES that a step may take, such as 40MB or 1.5GiB",
          .range = Setting::Bytes{},
          .words = {{"none"}, {"auto"}},
          .on_resume = free},
         &S::recompute},
        {{.name = "budget",
          .value = "BYTES",
          .group = schedule,
          .help = "that a step may take, parameters and state among them; 0: any",
          .range = WholeRange{0, uint64_t{1} << 63},
          .on_resume = free,
          .in_bundle = value,
          .flag = "recompute"},
         &S::budget},
        {{.name = "dialect",
          .value = "NAME",
          .group = schedule,
          .help =
              "what computes matrix products: halide, onednn or cublaslt (cuda), or auto (cpu): the fastest that can",
          .words = dialects(),
          .on_resume = free,
          .in_bundle = value},
         &S::dialect},
        {{.name = "device",
          .value = "NAME",
          .group = schedule,
          .help = "cpu, opencl, or cuda, an NVIDIA GPU",
          .words = {{"cpu"}, {"opencl"}, {"cuda"}},
          .on_resume = free,
          .in_bundle = value},
         &S::device},
        {{.name = "target",
          .value = "NAME",
          .group = schedule,
          .help = "what kernels are compiled for; auto: this processor, or with --device cuda sm_80 and newer GPUs",
          .range = Setting::Targets{},
          .words = {{"auto"}},
          .on_resume = free,
          .in_bundle = InBundle::where_given,
          .list = ','},
         &S::target},
        {{.name = "workers",
          .value = "N",
          .group = schedule,
          .help = "data-parallel replicas, each with its part of the batch",
          .range = WholeRange{1, 1024},
          .on_resume = free,
          .in_bundle = value,
          .otherwise = "1; under mpirun: its processes"},
         &S::workers},
        {{.name = "deterministic",
          .group = step,
          .help = "the same bits on 1, 2, 4 and 8 workers: gradients of equal parts of a batch are added in a tree",
          .range = Setting::Switch{},
          .on_resume = fixed},
         &S::deterministic},
        {{.name = "parts",
          .value = "N",
          .group = step,
          .help = "of a batch, whose gradients are added in a tree; 0: one for each worker",
          .range = WholeRange{0, most_batch_parts},
          .on_resume = free,
          .in_bundle = InBundle::where_given,
          .flag = "deterministic"},
         &S::parts},
        {{.name = "lines",
          .value = "TEXT",
          .group = schedule,
          .help = "lines of a step schedule, with ; between them, as a run keeps those of --schedule",
          .range = Setting::Text{},
          .words = {{"none"}},
          .on_resume = free,
          .in_bundle = InBundle::where_given},
         &S::lines},
        {{.name = "tuned",
          .value = "WHAT",
          .group = schedule,
          .help = "lines that `tune` found for this step: auto, none, or the lines themselves, as a run keeps them",
          .range = Setting::Text{},
          .words = {{"auto", 0, "none"}, {"none"}},
          .on_resume = free,
          .in_bundle = InBundle::where_given,
          .otherwise = "auto"},
         &S::tuned},
        {{.name = "freeze",
          .value = "PATTERN",
          .group = step,
          .help = "names of parameters that are not trained, as h.*.mlp.*, with commas between several",
          .range = Setting::Text{},
          .words = {{"none"}},
          .on_resume = fixed,
          .in_bundle = InBundle::where_given,
          .list = ','},
         &S::freeze},
        {{.name = "param-group",
          .value = "PATTERN=lr:X,decay:X",
          .group = step,
          .help = "another rate or decay for some parameters, 0.1x: a tenth of the others'; again for more groups",
          .range = Setting::Groups{},
          .words = {{"none"}},
          .on_resume = fixed,
          .in_bundle = InBundle::where_given,
          .list = ';'},
         &S::param_group},
    };
    return rows;
}

namespace {

/// Whether a setting is on, of which a bundle depends on nothing more.
bool is_on(const StepSetting &s, StepConfig &config) {
    StepConfig plain;
    return text_of(s, s.of(config)) != text_of(s, s.of(plain));
}

std::string bundle_text(const StepSetting &s, StepConfig &config) { return bundle_text(s, text_of(s, s.of(config))); }

bool concerns_bundle(const StepSetting &s, StepConfig &config) {
    StepConfig plain;
    const bool where_it_is = s.in_bundle == InBundle::where_given || s.in_bundle == InBundle::where_on;
    return s.in_bundle != InBundle::no && (!where_it_is || bundle_text(s, config) != bundle_text(s, plain));
}

}  // namespace

std::string bundle_text(const StepSetting &s, const std::string &text) {
    for (const Setting::Word &w : s.words)
        if (w.text == text && !w.bundle.empty()) return w.bundle;
    return text;
}

const FormatRow *StepConfig::format() const {
    for (const FormatRow &f : number_formats)
        if (precision == f.name) return &f;
    return nullptr;
}

std::vector<std::string> StepConfig::freeze_patterns() const {
    return freeze == "none" ? std::vector<std::string>{} : list_items(freeze, ',');
}

std::vector<ParamGroup> StepConfig::param_groups() const {
    std::vector<ParamGroup> groups;
    if (param_group == "none") return groups;
    for (const std::string &text : list_items(param_group, ';'))
        if (auto group = ParamGroup::parse(text)) groups.push_back(*group);  // checked where it was read
    return groups;
}

void turn_on(const StepSetting &s, StepConfig &config) {
    std::visit(
        [&](auto member) {
            if constexpr (!std::is_same_v<decltype(member), std::string StepConfig::*>) config.*member += 1;
        },
        s.member);
}

json bundle_key(const StepConfig &given) {
    StepConfig config = given;
    json key = json::object();
    for (const StepSetting &s : step_settings()) {
        if (!concerns_bundle(s, config)) continue;
        json &at = key[s.key()];
        if (s.is_known_as_on())
            at = is_on(s, config);
        else
            std::visit(
                [&](auto member) {
                    if constexpr (std::is_same_v<decltype(member), std::string StepConfig::*>)
                        at = bundle_text(s, config);
                    else
                        at = config.*member;
                },
                s.member);
    }
    return key;
}

std::vector<std::string> program_arguments(const StepConfig &given) {
    StepConfig config = given;
    std::vector<std::string> words;
    for (const StepSetting &s : step_settings()) {
        if (!concerns_bundle(s, config)) continue;
        if (s.is_known_as_on() || s.is_switch()) {
            if (is_on(s, config)) words.push_back("--" + s.name);
        } else {
            words.insert(words.end(), {"--" + s.name, bundle_text(s, config)});
        }
    }
    return words;
}

const StepSetting *find_by_key(const std::string &key) {
    for (const StepSetting &s : step_settings())
        if (s.in_bundle != InBundle::no && s.key() == key) return &s;
    return nullptr;
}

std::string text_of_key(const StepSetting &s, const json &value) {
    if (value.is_string()) return value.get<std::string>();
    for (const Setting::Word &w : s.words)
        if (value.is_number_integer() && value.get<int64_t>() == w.value) return w.text;
    return value.dump();
}

std::string why_not(const StepConfig &c) {
    const StepConfig plain;
    if (c.finite_check != plain.finite_check && !c.narrow())
        return fmt::format("--finite-check {} is for --precision bf16 or fp16, not for {}, which has no such check",
                           c.finite_check, c.precision);
    if (!c.scales_loss() &&
        (c.loss_scale != plain.loss_scale || c.loss_scale_growth != plain.loss_scale_growth ||
         c.loss_scale_backoff != plain.loss_scale_backoff || c.loss_scale_interval != plain.loss_scale_interval))
        return fmt::format("--loss-scale and its growth, backoff and interval are for --precision fp16, not for {}{}",
                           c.precision, c.finite_check == plain.finite_check ? "" : " with --finite-check off");
    const std::vector<const TargetLine *> targets = targets_of(c.target).value();
    for (const TargetLine *t : targets)
        if (c.target != plain.target && t->device != c.device)
            return fmt::format("--target {} is for --device {}, not for {}", t->name, t->device, c.device);
    const DialectLine *dialect = find_dialect(c.dialect);
    if (const std::string on = dialect ? dialect->device : "cpu"; c.dialect != "halide" && c.device != on)
        return fmt::format("--dialect {} is for --device {}, not for {}; use halide", c.dialect, on, c.device);
    if (c.batch_parts() % c.workers)
        return fmt::format("the {} parts of a batch cannot be divided equally among {} workers: use fewer --workers",
                           c.parts, c.workers);
    if (c.deterministic && c.dialect == "auto")
        return "--deterministic needs --dialect halide or onednn: auto takes the faster one, which varies between runs";
    if (c.deterministic && c.tuned == "auto")
        return "--deterministic needs --tuned none: the lines that `tune` finds differ by the number of workers";
    if (c.deterministic && c.device != "cpu")
        return fmt::format("--deterministic adds gradients in the host's memory, but --device {} keeps them in its "
                           "own; use --device cpu",
                           c.device);
    if (c.precision == "tf32" && c.dialect != "cublaslt")
        return "--precision tf32 needs --device cuda --dialect cublaslt; use fp32 with any other device or dialect";
    if (c.device == "cpu") return "";
    if (c.workers > 1 && c.device != "cuda")
        return fmt::format("--device {} runs one worker, not {}: use --workers 1, or --device cpu or cuda", c.device,
                           c.workers);
    return "";
}

}  // namespace cryolite
