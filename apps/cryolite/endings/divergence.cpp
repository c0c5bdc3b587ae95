#include "apps/cryolite/endings/divergence.h"

#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/endings/replay.h"
#include "apps/cryolite/inputs/init_file.h"
#include "runtime/collective/processes.h"
#include "runtime/files/checkpoint.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Restores the weights and state of the last checkpoint or, before there is one, of the run's beginning. False: not
/// every process sees the checkpoint.
bool go_back(const DivergedRun &r) {
    if (!r.last.step) return r.trainer.forget_steps(), begin_weights(r.trainer, r.settings, r.request), true;
    const fs::path path = checkpoint_path(r.folder, *r.last.step);
    std::error_code ignored;
    if (r.trainer.any(!fs::exists(path, ignored))) return false;
    read_tensors(r.trainer, path);
    return true;
}

/// Words for the first value of the run that was not finite; empty where none is found.
std::string first_not_finite(const DivergedRun &r) {
    ReplayedSteps again{.last = r.step, .evaluate = r.evaluating};
    defer_signals(processes().rank() > 0 ? nullptr : "\nending without the search\n");
    try {
        // A step whose update was withheld has left the weights as they were.
        if (!r.evaluating && r.trainer.withheld_in_a_row() > 0) {
            again.done = r.step - 1, again.position = r.next - uint64_t(r.settings.accumulate);
        } else {
            if (!go_back(r)) return "";
            again.done = r.last.step.value_or(0), again.position = r.last.position;
        }
        const std::string steps = again.done == r.step       ? "the evaluation"
                                  : again.done + 1 == r.step ? fmt::format("step {}", r.step)
                                                             : fmt::format("steps {} to {}", again.done + 1, r.step);
        r.progress.say(fmt::format("looking for the first value that is not finite: {} again", steps));
        return find_not_finite(r.trainer, r.data, r.settings, again, [&](uint64_t at) {
            r.progress.busy(fmt::format("step {} of {} again", at, r.step));
            return r.trainer.any(interrupted());
        });
    } catch (const Error &e) {
        r.progress.say(fmt::format("the first value that is not finite was not found: {}", e.what()));
        return "";
    }
}

}  // namespace

void read_tensors(Trainer &trainer, const fs::path &checkpoint) {
    const fs::path state = checkpoint / "optimizer.safetensors";
    trainer.check_state(state);  // first: a later error would leave weights and state of different checkpoints
    trainer.load_parameters(checkpoint / "model.safetensors", [](const std::string &name) { return name; });
    trainer.read_state(state);
}

void end_diverged(const DivergedRun &r, const std::string &why, std::optional<uint64_t> from) {
    const std::string first = first_not_finite(r);
    std::string go_on = "no checkpoint was written before: begin again with a lower --lr";
    if (from)
        go_on = fmt::format("the last good checkpoint is {}. To go on from it with a lower rate: {} --lr RATE",
                            checkpoint_path(r.folder, *from).string(), r.resume);
    if (from && from != r.last.step)
        go_on += fmt::format("; before that, remove {}, whose updates were withheld",
                             checkpoint_path(r.folder, *r.last.step).string());
    fail("{}.{} {}. A longer --warmup or --clip 1 may help, too", why,
         first.empty() ? "" : fmt::format(" The first value that is not finite is {};", first), go_on);
}

}  // namespace cryolite
