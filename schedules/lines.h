#pragma once
// Lines of a step schedule as text, so that a schedule can be kept in a file, printed and edited without a compiler:
//
//   s(h.*.mlp.act).compute_with(h.*.mlp.c_fc);                        // names as messages and checkpoints have them
//   s(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight));  // for every block
//   s(ln_f).store_at(forward); s(lm_head).dialect(onednn); s(lm_head).compute_at(loss, 32);
//   s(d(net)).distribute(workers); s.budget(1.5GB); s.layout(wte.weight, panels(16, 1));
//   loops(h.*.mlp.c_fc, d_parameter): rows=4 columns=48;              // numbers of a kernel's loops: tunables.h
//   s.clear(); s.automatic();                                         // none of the lines before: chosen ones
//
//   s.clear_loops();                                                  // no loops that were written
//
//   s(lm_head).dialect(onednn).where_legal();                         // or not, as a flag may have it
//
// The words are those of step_schedule.h. A '*' stands for any characters between two dots, in all names that the model
// has; in the place it stands for the same characters. The semicolon may be left out; `//` or `#` begins a comment.

#include <string>

#include "schedules/step_schedule.h"

namespace cryolite {

/// Adds the lines, which replace older ones of the same stages. `called` is what errors call the text: a file's name.
/// Errors, with line and column: what is no line, and what was expected there; a name that the model does not have,
/// with the nearest; what the line itself refuses. Which numbers loops have the kernel says when it is built.
void add_lines(Step &step, Model &net, const std::string &text, const std::string &called);

}  // namespace cryolite
