#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Calls the model on tensors. Makes a program of the values and calls, with a forward operation for each call, and
/// with the lines of the schedule. Errors: a loss that is not one number; an input that no run fills.
StepProgram trace(const Context &cx);

/// The same from a graph; `output` and `loss` are the numbers of its values.
StepProgram program_of(Graph graph, int output, int loss, const Context &cx);
/// Adds values and calls of the program's graph that the program has not yet: for passes that call layers.
void take_calls(StepProgram &p);
/// How many rows the layer of a call sees in an input: the extent of the outermost dimension.
int rows_read(const StepProgram &p, CallId c, size_t input);
/// The forward operation of a call.
ir::Op forward_op(const StepProgram &p, CallId c, ir::Forward::When when);

}  // namespace cryolite::compiler
