#pragma once
// Flags as text, from wherever they were given, and as checked values.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cryolite {

/// Where a value comes from; a later one wins.
enum class Origin { preset, resumed, config, command_line };

struct Given {
    std::string text;
    Origin origin = Origin::command_line;
    std::string where =
        {};  ///< for messages: "preset nano", "my.toml, line 3"; empty: the command line
    bool list = false;  ///< a list of a file
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
    /// Whether a flag comes from a stronger place than another one; both are given.
    bool stronger(const std::string &flag, const std::string &than) const {
        return values_.at(flag).origin > values_.at(than).origin;
    }
    const std::map<std::string, Given> &all() const { return values_; }
    void erase(const std::string &flag) { values_.erase(flag); }

    std::string text(const std::string &flag, const std::string &otherwise = "") const;
    /// `words`: what else the flag may be, for the message ("auto or ").
    uint64_t whole(const std::string &flag, uint64_t low, uint64_t high, uint64_t otherwise,
                   const std::string &words = "") const;
    /// As `parse_bytes` reads it.
    uint64_t bytes(const std::string &flag, const std::string &words) const;
    double real(const std::string &flag, double otherwise) const;  ///< finite, not negative
    double positive(const std::string &flag, double otherwise) const;
    double fraction(const std::string &flag, double otherwise) const;  ///< in [0, 1)
    double seconds(const std::string &flag, double otherwise) const;  ///< "90s", "1.5m"; at least 0.1 s
    bool yes(const std::string &flag) const;
    std::string word(const std::string &flag, const std::vector<std::string> &words,
                     const std::string &otherwise) const;

    /// Throws: --flag is 'value' (where), expected `expected`.
    [[noreturn]] void refuse(const std::string &flag, const std::string &expected) const;

private:
    std::map<std::string, Given> values_;

    const std::string *find(const std::string &flag) const;
    double number(const std::string &flag, const std::string &expected) const;
};

}  // namespace cryolite
