#include "generators/passes/near_names.h"

#include "bundle/near_names.h"

namespace cryolite::compiler {

std::vector<std::string> near_names(const StepProgram &p, const std::string &pattern) {
    std::vector<std::string> names;
    for (const ir::Parameter &w : p.parameters) names.push_back(w.path);
    return nearest_names(pattern, names);
}

}  // namespace cryolite::compiler
