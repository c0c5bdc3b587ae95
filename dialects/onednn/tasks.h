#pragma once
// Parallel loops over tasks. A task runs single-threaded primitives one after the other.

#include <HalideRuntime.h>

#include "dialects/dialect.h"
#include "dialects/onednn/primitives.h"

namespace cryolite::of_onednn {

using Task = std::vector<Action>;

inline int ceil_div(int64_t a, int64_t b) { return int((a + b - 1) / b); }

/// What products and convolutions share: the arguments, the parallel loop and the epilogue.
class ReadyTasks : public Ready {
protected:
    ReadyTasks(const Product &p, const std::vector<void *> &arguments) : p(p) {
        for (void *a : arguments) at.push_back(static_cast<float *>(a));
    }

    const Product p;

    float *argument(int a) const { return at.at(size_t(a)); }

    static int loop(void *context, std::vector<Task> &list) {
        return halide_do_par_for(context, run_task, 0, int(list.size()), reinterpret_cast<uint8_t *>(list.data()));
    }

    /// Adds the epilogue to a task, for the `count` dense rows from row `r` that the task computes. Each step works in
    /// place or writes to the array that stores its value.
    void then(Task &t, int64_t r, int64_t count, int width) const {
        const Md rows = matrix(count, width, width);
        const int64_t begin = r * width;
        float *now = argument(p.place(-1)) + begin;
        for (size_t i = 0; i < p.then.size(); i++) {
            const Product::Then &step = p.then[i];
            float *next = argument(p.place(int(i))) + begin,
                  *reads = step.reads >= 0 ? argument(step.reads) + begin : nullptr;
            if (step.op == "bias") continue;  // the product has added it
            const bool moves = step.op == "add" || step.op.starts_with("d_");
            if (moves && now != next) t.push_back(Action::copy(rows, now, rows, next));
            if (step.op == "add")
                t.push_back(Action::add(rows, reads, next));
            else if (moves)
                t.push_back(Action::slope(step.op.substr(2), rows, reads, next));
            else
                t.push_back(Action::pointwise(step.op, rows, now, next));
            now = next;
        }
    }

private:
    std::vector<float *> at;

    static int run_task(void *context, int i, uint8_t *closure) {
        const OneThread one;
        for (const Action &a : reinterpret_cast<const Task *>(closure)[i])
            if (int code = a.run(context)) return code;
        return 0;
    }
};

/// A convolution: a product with a window.
std::unique_ptr<Ready> ready_convolution(const Product &p, const std::vector<void *> &arguments);

}  // namespace cryolite::of_onednn
