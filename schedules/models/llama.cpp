// The step schedule of Llama.

#include "schedules/models/llama.h"

namespace cryolite {

void schedule_llama(Llama &net, Step &s) {
    // cuBLASLt's products have no gates, and on tensor cores take a quarter of the time of Halide's that have them.
    const bool gates_in_products = s.dialect_of_products != "cublaslt";
    for (LlamaBlock &b : net.blocks) {
        if (gates_in_products) {
            s(b.act).compute_with(b.up);          // the gate is applied to tiles still in registers
            s(d(b.gate)).compute_with(d(b.act));  // d(gate) and d(up) in the epilogue of the dX of `down`,
            s(d(b.up)).compute_with(d(b.act));
            s(d(b.act)).compute_at(d(b.up));  // whose result d(act) is never stored
        }
        // What costs less to compute again than to keep: the backward pass does so before the weights' gradients.
        // In fp32 the gated unit moves twice the bytes of 16 bits, and is kept.
        if (net.format() != fp32) s(b.act).store_at(forward);
        s(b.norm1).store_at(forward);
        s(b.norm2).store_at(forward);
    }
    s(d(net)).distribute(workers);
}

}  // namespace cryolite
