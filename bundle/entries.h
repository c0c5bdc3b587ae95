#pragma once
// What the runtime may call of a step: the names of a plan's lists of calls, docs/plan.md.

namespace cryolite::entry {

inline constexpr const char *forward = "forward";
inline constexpr const char *step = "step";              ///< the backward pass of the last micro-batch, and the update
inline constexpr const char *first = "first";            ///< the backward pass of the first micro-batch
inline constexpr const char *accumulate = "accumulate";  ///< the backward pass of those between
inline constexpr const char *evaluate = "evaluate";      ///< after forward: the loss of the rows that count
inline constexpr const char *predict = "predict";        ///< after forward: the output
inline constexpr const char *deferred = "deferred";      ///< forward, with the updates of the step before
inline constexpr const char *flush = "flush";            ///< the deferred updates alone

}  // namespace cryolite::entry
