// The step schedule of Llama on a CPU.

#include "schedules/models/llama.h"

namespace cryolite {

void schedule_llama(Llama &net, Step &s) {
    for (LlamaBlock &b : net.blocks) {
        s(b.act).compute_with(b.up);          // the gate opens on tiles still in registers
        s(d(b.gate)).compute_with(d(b.act));  // both adjoints of the gated unit in the epilogue of dX,
        s(d(b.up)).compute_with(d(b.act));
        s(d(b.act)).compute_at(d(b.up));  // which is never stored
        // What costs less to compute again than to keep: the backward pass does it before the weights' gradients.
        s(b.act).store_at(forward);
        s(b.norm1).store_at(forward);
        s(b.norm2).store_at(forward);
    }
    s(d(net)).distribute(workers);
}

}  // namespace cryolite
