#pragma once
// Lines of a step schedule as text, so that a schedule can be kept in a file, printed and edited without a compiler:
//
//   s(h.*.mlp.act).compute_with(h.*.mlp.c_fc);                        // names as messages and checkpoints have them
//   s(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight));  // for every block
//   s(ln_f).store_at(forward); s(lm_head).dialect(onednn); s(lm_head).compute_at(loss, 32);
//   s(d(net)).distribute(workers); s.budget(1.5GB); s.layout(wte.weight, panels(16, 1));
//   loops(h.*.mlp.c_fc, d_parameter): rows=4 columns=48;              // numbers of a kernel's loops: tunables.h
//   s.clear(); s.automatic();                                         // chosen lines in place of those before
//
//   s.clear_loops();                                                  // automatic loops in place of written ones
//
//   s(lm_head).dialect(onednn).where_legal();                         // left out where a flag makes it illegal
//
// The words are those of step_schedule.h. In a stage, '*' stands for any characters between two dots: the line is for
// every stage of the model that matches. In the place, '*' stands for the same characters. The semicolon may be left
// out; `//` or `#` begins a comment.

#include <string>

#include "schedules/step_schedule.h"

namespace cryolite {

/// Adds the lines to `step`, where they replace older ones of the same stages. `called` is what errors call the text:
/// the name of its file. Errors, with line and column: text that is no line, with what was expected there; a name that
/// the model does not have, with the nearest ones; a line that is not legal. Whether a kernel's loops have a number of
/// the given name is checked when the kernel is built.
void add_lines(Step &step, Model &net, const std::string &text, const std::string &called);

}  // namespace cryolite
