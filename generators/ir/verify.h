#pragma once
// What holds of every program between passes: each rule has a name.

#include "generators/ir/program.h"

namespace cryolite::ir {

/// The names of the rules, and what each says.
struct VerifierRule {
    const char *name, *says;
};
const std::vector<VerifierRule> &verifier_rules();

/// Throws where the program breaks a rule: names the pass after which, the rule, the operation and the value.
void verify(const Program &p, const std::string &after_pass);

/// The same of a kernel as it was built: what it reads and writes lies within what its operations declare.
void verify_arguments(const Program &p, const Kernel &k, const std::vector<ValueId> &read,
                      const std::vector<ValueId> &written);

}  // namespace cryolite::ir
