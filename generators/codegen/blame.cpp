#include "generators/codegen/blame.h"

#include <fmt/format.h>

namespace cryolite::compiler {

std::string blame(const ChildResult &r, const std::string &path, const std::string &kind) {
    if (!r.died && !r.late) return "";
    return fmt::format("; it was making the gradient of [{0}] {1}: if that is derived, write {1}::backward", path,
                       kind);
}

std::string blame(const ChildResult &r, const ir::Program &p, const ir::Kernel &k) {
    for (ir::OpId id : k.ops)
        if (ir::is<ir::InputGrad>(p.ops[id]) || ir::is<ir::ParamGrad>(p.ops[id])) {
            const ir::Layer &layer = p.layer(*ir::call_of(p.ops[id]));
            return blame(r, layer.path, layer.kind);
        }
    return "";
}

}  // namespace cryolite::compiler
