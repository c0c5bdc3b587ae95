#pragma once
// Regular expressions on UTF-8, by PCRE2.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace cryolite {

class Pattern {
public:
    /// An expression in Oniguruma's syntax, as far as PCRE2 reads it the same way; \s is Unicode's White_Space. Errors:
    /// it is no regular expression (and why); the two libraries read it differently.
    explicit Pattern(const std::string &expression);
    ~Pattern();

    /// Calls part(text, matches) for every match that is not empty and for the text before, between and after matches;
    /// `text` is UTF-8. Errors: the search takes too long, as nested repetitions may.
    void for_each_part(std::string_view text,
                       const std::function<void(std::string_view part, bool matches)> &part) const;

    /// The expression that matches these letters.
    static std::string quoted(std::string_view letters);

private:
    std::string expression_;
    std::unique_ptr<pcre2_real_code_8, void (*)(pcre2_real_code_8 *)> code_;
};

}  // namespace cryolite
