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
    /// An expression in Oniguruma's syntax, as far as PCRE2 reads it so: \s is Unicode's White_Space. Errors: no
    /// expression, with where and why; one that the two read otherwise.
    explicit Pattern(const std::string &expression);
    ~Pattern();

    /// Calls part(text, matches) for every match that is not empty and for what lies before, between and after them;
    /// `text` is UTF-8. Errors: the search takes too long, which an expression of nested repetitions may.
    void for_each_part(std::string_view text,
                       const std::function<void(std::string_view part, bool matches)> &part) const;

    /// The expression that matches these letters.
    static std::string quoted(std::string_view letters);

private:
    std::string expression_;
    std::unique_ptr<pcre2_real_code_8, void (*)(pcre2_real_code_8 *)> code_;
};

}  // namespace cryolite
