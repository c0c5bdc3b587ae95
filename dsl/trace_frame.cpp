#include "dsl/trace_frame.h"

#include <cstdint>

namespace cryolite {

namespace {
thread_local const TraceFrame *innermost = nullptr;

uintptr_t place(const void *object) { return reinterpret_cast<uintptr_t>(object); }
}  // namespace

TraceFrame::TraceFrame() : outer_(innermost) { innermost = this; }
TraceFrame::~TraceFrame() { innermost = outer_; }

/// Stacks grow downwards on all processors that kernels are compiled for.
bool TraceFrame::has_local(const void *object) {
    const char here = 0;
    return innermost && place(&here) < place(object) && place(object) < place(innermost);
}

}  // namespace cryolite
