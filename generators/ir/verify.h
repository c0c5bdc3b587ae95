#pragma once
// The rules that every program obeys between passes. Each rule has a name.

#include "generators/ir/program.h"

namespace cryolite::ir {

/// The names of the rules, and what each says.
struct VerifierRule {
    const char *name, *says;
};
const std::vector<VerifierRule> &verifier_rules();

/// Throws where the program breaks a rule. The error names the last pass, the rule, the operation and the value.
void verify(const Program &p, const std::string &after_pass);

/// The same for a kernel as it was built: it may read and write no more than its operations declare.
void verify_arguments(const Program &p, const Kernel &k, const std::vector<ValueId> &read,
                      const std::vector<ValueId> &written);

}  // namespace cryolite::ir
