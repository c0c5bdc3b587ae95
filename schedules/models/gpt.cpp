// The step schedule of GPT on a CPU.

#include "schedules/models/gpt.h"

namespace cryolite {

void schedule_gpt(Gpt &net, Step &s) {
    for (Block &b : net.blocks) {
        s(b.gelu).compute_with(b.up);      // GELU in the epilogue, on tiles still in registers
        s(d(b.gelu)).compute_at(d(b.up));  // its derivative in the epilogue of dX
        if (net.dropout == 0) continue;
        s(b.project).compute_at(b.drop1);  // the mask in the epilogue, too
        s(b.down).compute_at(b.drop2);
    }
    s(d(net)).distribute(workers);  // added over workers as soon as they exist; each updates its shard
}

}  // namespace cryolite
