#pragma once

namespace cryolite {

/// While one lives, a model is traced by calls from its frame of the stack: a layer that lies between it and the call
/// is a local variable of the model's functions, which is gone before the step is built.
class TraceFrame {
public:
    TraceFrame();
    ~TraceFrame();
    TraceFrame(const TraceFrame &) = delete;
    /// Whether an object that is called from here is such a local variable.
    static bool has_local(const void *object);

private:
    const TraceFrame *const outer_;
};

}  // namespace cryolite
