#include "runtime/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// PCRE2's \s has U+180E too, which is no White_Space any more.
constexpr std::string_view white_space =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// Refuses the options of a group that the two libraries read differently: (?m) is PCRE2's (?s), and (?i) holds until
/// the end of the group, also for its other alternatives, or not.
void check_options(const std::string &expression, size_t group) {
    size_t i = group + 2;
    for (; i < expression.size() && (isalpha(expression[i]) || expression[i] == '-'); i++)
        if (expression[i] != 'i' && expression[i] != '-')
            fail("the pattern {} has the option {} in a group, which is not supported; expected i or none", expression,
                 expression[i]);
    if (group && i > group + 2 && i < expression.size() && expression[i] == ')')
        fail("the pattern {} has (?i) within it, which is not supported: write (?i:...)", expression);
}

/// Refuses counts that the two libraries read differently: {2}? and {1,3}+ are repeated in Oniguruma, and {,3} counts.
void check_count(const std::string &expression, size_t at) {
    const size_t end = expression.find('}', at);
    if (end == std::string::npos) return;
    const std::string count = expression.substr(at + 1, end - at - 1);
    const char next = end + 1 < expression.size() ? expression[end + 1] : ' ';
    const bool fixed = count.find(',') == std::string::npos;
    if (count.starts_with(',') || next == '+' || (next == '?' && fixed))
        fail("the pattern {} has {{{}}}{}, which is not supported: Oniguruma and PCRE2 differ", expression, count,
             next == '+' || next == '?' ? std::string(1, next) : "");
}

/// The expression with White_Space written out, and with ^ and $ at every line, as Oniguruma has them. Refuses what
/// PCRE2 reads in another way.
std::string for_pcre2(const std::string &expression) {
    std::string out;
    bool in_class = false;
    for (size_t i = 0; i < expression.size(); i++) {
        const char c = expression[i], next = i + 1 < expression.size() ? expression[i + 1] : ' ';
        if (c != '\\' || i + 1 == expression.size()) {
            if (c == '[' && in_class) fail("the pattern {} has a set in a set, which is not supported", expression);
            if (c == '&' && next == '&' && in_class)
                fail("the pattern {} has && in a set, which is not supported", expression);
            if (c == '(' && next == '?' && !in_class) check_options(expression, i);
            if (c == '{' && !in_class) check_count(expression, i);
            if ((c == '^' || c == '$') && !in_class) {
                out += fmt::format("(?m:{})", c);
                continue;
            }
            if (c == ']') in_class = false;
            out += c;
            if (c != '[') continue;
            in_class = true;
            if (next == '^') out += expression[++i];
            continue;
        }
        const char escaped = expression[++i];
        if (std::string_view("wWbBhHvVKQE").find(escaped) != std::string_view::npos)
            fail("the pattern {} has \\{}, which is not supported: Oniguruma and PCRE2 differ in what it stands "
                 "for; write characters as a set, as [\\p{{L}}\\p{{M}}\\p{{N}}]",
                 expression, escaped);
        if (escaped == 's' && in_class)
            out += white_space;
        else if (escaped == 's' || (escaped == 'S' && !in_class))
            out += fmt::format("[{}{}]", escaped == 'S' ? "^" : "", white_space);
        else if (escaped == 'S')
            fail("the pattern {} has \\S in a set, which is not supported", expression);
        else
            out += c, out += escaped;
        // The braces of \p{L} and \x{20} are no count.
        if (const size_t end = expression.find('}', i);
            (std::string_view("pPxo").find(escaped) != std::string_view::npos) && i + 1 < expression.size() &&
            expression[i + 1] == '{' && end != std::string::npos)
            out += expression.substr(i + 1, end - i), i = end;
    }
    return out;
}

std::string words_of(int error) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char *>(text);
}

}  // namespace

Pattern::Pattern(const std::string &expression) : expression_(expression), code_(nullptr, pcre2_code_free) {
    const std::string text = for_pcre2(expression);
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
    if (!code_)
        fail("the pattern {} is no regular expression: {} after {}", shown(expression, 200), words_of(error),
             shown(text.substr(0, at), 200));
    uint32_t empty = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        fail("the pattern {} also matches no letters at all, which is not supported; expected at least one",
             shown(expression, 200));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // optional: without it matching is slower
}

Pattern::~Pattern() = default;

void Pattern::for_each_part(std::string_view text,
                            const std::function<void(std::string_view part, bool matches)> &part) const {
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
    if (!match) throw std::bad_alloc();
    size_t done = 0;
    while (done < text.size()) {
        // The text is known to be UTF-8. Without NO_UTF_CHECK every match would check the rest of it again.
        auto search = [&](uint32_t options) {
            return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done,
                               PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, match.get(), nullptr);
        };
        int found = search(0);
        // Long matches of repeated groups: the interpreter is slower, and takes what memory it needs.
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(PCRE2_NO_JIT);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0)
            fail("the pattern {} cannot be searched for at byte {}: {}", shown(expression_, 200), done,
                 words_of(found));
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match.get());
        if (range[0] > done) part(text.substr(done, range[0] - done), false);
        part(text.substr(range[0], range[1] - range[0]), true);
        done = range[1];
    }
    if (done < text.size()) part(text.substr(done), false);
}

std::string Pattern::quoted(std::string_view letters) {
    std::string out;
    for (const char c : letters) {
        // An ASCII character that is no letter and no digit stands for itself behind a backslash.
        if (static_cast<unsigned char>(c) < 0x80 && !isalnum(static_cast<unsigned char>(c))) out += '\\';
        out += c;
    }
    return out;
}

}  // namespace cryolite
