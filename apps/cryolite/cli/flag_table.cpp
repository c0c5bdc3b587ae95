// The table of flags, and looking things up in it.

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "apps/cryolite/cli/flags.h"

namespace cryolite {

const std::vector<Flag> &flag_table() {
    static const std::string step = "Step", schedule = "Schedule", run = "Run", folder = run_folder_group;
    using enum OnResume;
    static const std::vector<Flag> table = {
        {"accumulate", "N", step, "micro-batches in a step (1)", fixed},
        {"precision", "FORMAT", step,
         "fp32, or bf16: products and what they read; sums and masters fp32 (fp32)", fixed},
        {"freeze", "PATTERN", step,
         "parameters that are not trained, by their names in checkpoints: h.*.mlp.*; several with commas, or one by one (none)",
         fixed, true, true},
        {"clip", "NORM", step, "largest norm of the gradient; 0: off (0)", fixed},
        {"optimizer", "NAME", step, "adamw, sgd, lion or lars (the program's own)", fixed},
        {"lr", "RATE", step, "learning rate after the warm-up", free},
        {"min-lr", "RATE", step,
         "learning rate of the last step (the preset's, at most --lr; else lr / 10)", free},
        {"warmup", "STEPS", step, "steps in which the rate rises (0)", free},
        {"weight-decay", "X", step, "decay of parameters of two or more dimensions", fixed},
        {"beta1", "X", step, "decay of the mean of gradients, or momentum", fixed},
        {"beta2", "X", step, "decay of the mean of squared gradients", fixed},
        {"update", "PLACE", schedule, "auto, separate, backward or forward (auto)", free},
        {"group", "WHAT", schedule, "auto, or none: every layer in a kernel of its own (auto)", free},
        {"head-rows", "ROWS", schedule,
         "of a block of the head and its loss; 0: whole; auto: whole while that is small (auto)", free},
        {"recompute", "WHAT", schedule,
         "auto (what memory asks for), none, or the BYTES a step may take, 40MB or 1.5GiB too (auto)", free},
        {"dialect", "NAME", schedule,
         "what computes products: halide, onednn where it can, or auto: what is faster here (halide)", free},
        {"device", "NAME", schedule, "cpu, opencl, or cuda, for which kernels are compiled only (cpu)", free},
        {"workers", "N", schedule,
         "data-parallel replicas, each with its part of the batch (1; under mpirun: its processes)", free},
        {"threads", "N", schedule,
         "threads of each worker (all cores that this process may use, divided among its workers)", free},
        {"patience", "TIME", schedule,
         "that a worker may give no sign of life before the run ends; 90s, 5m (60s)", free},
        {"steps", "N", run, "steps in all (train: 1000, or the preset's; bench: 20)", free},
        {"seed", "N", run, "of the first weights and the order of the data (1)", fixed},
        {"data", "FILE", run, "text, a token shard, or a .csv/.csv.gz table (the embedded data)", fixed},
        {"val", "FILE", run, "validation data (a tenth of a text, a fifth of a table)", free},
        {"order", "ORDER", run, "random or sequential (random)", fixed},
        {"tokenizer", "NAME", run, "char or gpt2 (the preset's, else char)", fixed},
        {"init", "FILE", run, "begin with these weights (safetensors)", fixed},
        {"out", "DIR", folder, "folder of the run (runs/APP-DATE)", free},
        {"resume", "", folder, "go on from the newest good checkpoint in --out", free},
        {"checkpoint-every", "STEPS", folder, "0: only at the end (500)", free},
        {"give-up-after", "N", folder,
         "stop when so many updates in a row were withheld, as a gradient was not finite; 0: never (50)", free},
        {"restarts", "N", folder, "after a failure, go on from the newest checkpoint, so many times (0)", free, false},
        {"launch", "COMMAND", folder, "starts the workers as processes: \"mpirun -n {workers}\"", free, false},
        {"keep", "N", folder, "checkpoints to keep (2)", free},
        {"eval-every", "STEPS", folder, "evaluate as often, and at the end; 0: never (250)", free},
        {"cache", "DIR", run, "compiled kernels ($XDG_CACHE_HOME/cryolite)", free},
        {"json", "", run, "JSON lines on stdout, and nothing else there", free},
        {"preset", "NAME", "Model", "a set of flags of the program", fixed},
        {"config", "FILE", run, "read flags from a TOML file; the command line wins", free, false},
        {"profile", "", "Bench", "the time of every kernel", free, false},
        {"ablate", "", "Bench", "every directive on and off, at 32, 64, 256 and 1024 rows", free, false},
        {"peers", "", "Bench", "the same work in PyTorch, interleaved", free, false},
    };
    return table;
}

const Flag *find_flag(const std::string &name) {
    for (const Flag &flag : flag_table())
        if (flag.name == name) return &flag;
    return nullptr;
}

std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates) {
    size_t nearest = 3;  // more edits than this are another word
    std::string found;
    for (const std::string &candidate : candidates) {
        std::vector<size_t> row(candidate.size() + 1);
        std::iota(row.begin(), row.end(), size_t{0});
        for (size_t i = 0; i < word.size(); i++) {
            size_t diagonal = row[0]++;
            for (size_t j = 0; j < candidate.size(); j++) {
                const size_t change = diagonal + (word[i] != candidate[j]);
                diagonal = row[j + 1];
                row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
            }
        }
        if (row.back() < nearest) nearest = row.back(), found = candidate;
    }
    return found.empty() ? "" : fmt::format(" (did you mean {}?)", found);
}

}  // namespace cryolite
