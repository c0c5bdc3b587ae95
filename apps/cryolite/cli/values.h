#pragma once
// Flags as text, from wherever they were given, and as checked values.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bundle/setting.h"

namespace cryolite {

/// Where a value comes from; a later one wins.
enum class Origin { preset, init, resumed, config, command_line };

struct Given {
    std::string text;
    Origin origin = Origin::command_line;
    std::string where = {};  ///< for messages: "preset nano", "my.toml, line 3"; empty: the command line
    bool list = false;       ///< it was a list: `text` has its items, with `list_mark` of the flag between them
};

/// Every reader checks the value and throws a UsageError that names the flag, the value, where it
/// was given and what is expected.
class Values {
public:
    /// Keeps the value unless a stronger origin gave one.
    void give(const std::string &flag, Given value);

    bool given(const std::string &flag) const { return values_.count(flag) != 0; }
    /// Given by the user, not by a preset.
    bool chosen(const std::string &flag) const;
    /// Given by the config.json of --init.
    bool of_init(const std::string &flag) const { return given(flag) && values_.at(flag).origin == Origin::init; }
    /// Whether a flag comes from a stronger place than another one; both are given.
    bool stronger(const std::string &flag, const std::string &than) const {
        return values_.at(flag).origin > values_.at(than).origin;
    }
    const std::map<std::string, Given> &all() const { return values_; }
    void erase(const std::string &flag) { values_.erase(flag); }

    std::string text(const std::string &flag, const std::string &otherwise = "") const;
    /// Puts the value into `into`, if it was given.
    void read(const Setting &setting, ValueRef into) const;

    /// Throws: --flag is 'value' (where), expected `expected`.
    [[noreturn]] void refuse(const std::string &flag, const std::string &expected) const;

private:
    std::map<std::string, Given> values_;
};

}  // namespace cryolite
