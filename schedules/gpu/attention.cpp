// Causal self-attention: each of its sums is a launch, an element of it a thread's.

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

void attention(Group &g, const Machine &m) { plain_loops(g, m); }

}  // namespace cryolite::gpu
