#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Calls the model on tensors: a program of values, calls, and a forward operation for each call; and the lines of the
/// schedule. Errors: a loss that is not one number.
StepProgram trace(const Context &cx);

/// The same of a graph, by the values of its output and its loss.
StepProgram program_of(Graph graph, int output, int loss, const Context &cx);
/// Takes over what the trace's graph has more than the program: for passes that call layers.
void take_calls(StepProgram &p);
/// How many rows, of its last dimension, the layer of a call sees of an input.
int rows_read(const StepProgram &p, CallId c, size_t input);
/// The operation that a call is in the forward pass.
ir::Op forward_op(const StepProgram &p, CallId c, ir::Forward::When when);

}  // namespace cryolite::compiler
