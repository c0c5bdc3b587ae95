#pragma once
// Parameters that have another learning rate or weight decay than the rest.

#include <optional>
#include <string>

namespace cryolite {

/// A number of a group: its own value, or (`times`) a multiple of the one that all others have.
struct GroupValue {
    double value = 1;
    bool times = true;
    auto operator<=>(const GroupValue &) const = default;
};

/// "wte=lr:0.1x,decay:0": a pattern of names in checkpoints, then `lr` and `decay`, each a multiple (with an x) or a
/// value. In the pattern *, ? and [...] are a shell's. It matches parameters, or the layers that hold them: "wte"
/// matches wte.weight, too.
struct ParamGroup {
    std::string text, pattern;
    std::optional<GroupValue> lr = {}, decay = {};

    /// Nothing where the text is not as `expected` says.
    static std::optional<ParamGroup> parse(const std::string &text);
    static const std::string expected;
    bool matches(const std::string &name) const;
};

}  // namespace cryolite
