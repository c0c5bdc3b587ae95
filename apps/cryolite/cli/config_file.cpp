#include "apps/cryolite/cli/config_file.h"

#include <algorithm>

#include "apps/cryolite/cli/toml.h"
#include "apps/cryolite/session/usage.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// A list is one text, with `between` between its items.
std::string text_of(const toml::node &node, char between) {
    if (auto list = node.as_array()) {
        std::vector<std::string> items;
        for (const toml::node &item : *list) items.push_back(item.value_or(std::string()));
        return fmt::format("{}", fmt::join(items, std::string(1, between)));
    }
    if (auto s = node.as_string()) return s->get();
    if (auto i = node.as_integer()) return std::to_string(i->get());
    if (auto f = node.as_floating_point()) return fmt::format("{}", f->get());
    if (auto b = node.as_boolean()) return b->get() ? "true" : "false";
    return "";
}

/// Where a string or a comment that begins at text[at] ends; `at`, if none begins there.
size_t skip_text(std::string_view text, size_t at) {
    if (text[at] == '#') return std::min(text.find('\n', at), text.size());
    if (text[at] != '"' && text[at] != '\'') return at;
    const std::string three(3, text[at]);
    const bool lines = text.substr(at, 3) == three;
    for (size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
        if (text[i] == '\\' && text[at] == '"')
            ++i;
        else if (!lines && (text[i] == text[at] || text[i] == '\n'))
            return i + 1;
        else if (lines && text.substr(i, 3) == three)  // its last characters may be quotes, too
            return std::min({text.find_first_not_of(text[at], i), i + 5, text.size()});
    }
    return text.size();
}

/// Finds quotes within values that are not in quotes. `skip_text` takes such a quote for the beginning of a string, but
/// the parser does not: it reads a value to its end before it asks what the value is.
class ValueScan {
public:
    /// What is wrong with the character at text[at], outside of strings and comments; empty: nothing.
    std::string mistake(std::string_view text, size_t at) {
        const char c = text[at];
        if (std::string_view(" \t\r\n,]}").find(c) != std::string_view::npos) equals_ = 0;
        if ((c == '[' || c == '{') && at > 0 && text[at - 1] == '=') equals_ = 0;
        if (c == '=' && ++equals_ > 1) return "a second = within a value: put the value in double quotes";
        if (c != '"' && c != '\'') return "";
        while (at > 0 && (text[at - 1] == '[' || text[at - 1] == '{')) --at;
        if (at == 0 || std::string_view(" \t\r\n=,").find(text[at - 1]) != std::string_view::npos) return "";
        return "a quote within a value: put the whole value in quotes";
    }

private:
    int equals_ = 0;  ///< signs = since a value may have begun
};

/// Refuses what would overflow the parser's stack: it opens and frees tables by recursion, one for each dot of a key.
/// Also refuses a character that is not ASCII outside of a string, with a plainer message than the parser's.
void check_limits(std::string_view text, const fs::path &path) {
    constexpr size_t most_bytes = 1 << 20, most_dots = 2000;
    if (text.size() > most_bytes)
        fail_usage("{}: {}, expected a configuration: a flag a line, {} at most", path.string(),
                   human_bytes(text.size()), human_bytes(most_bytes));
    auto refuse = [&](size_t at, const std::string &what) {
        fail_usage("{}, line {}: {}", path.string(), 1 + std::count(text.begin(), text.begin() + long(at), '\n'), what);
    };
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    ValueScan scan;
    size_t dots = 0;
    for (size_t at = 0; at < text.size(); ++at) {
        if (const std::string mistake = scan.mistake(text, at); !mistake.empty()) refuse(at, mistake);
        if (const size_t end = skip_text(text, at); end > at) {
            at = end - 1;
            continue;
        }
        if (text[at] == '.' && ++dots > most_dots)
            refuse(at,
                   fmt::format("more than {} dots up to here: a key is the name of a flag, without dots", most_dots));
        if (static_cast<unsigned char>(text[at]) >= 0x80)
            refuse(at, fmt::format("{} is outside of a string: put the value in double quotes",
                                   shown(text.substr(at, size_t(std::max(1, code_point_at(text, at).length))))));
    }
}

}  // namespace

std::map<std::string, Given> read_config(const fs::path &path, Origin origin, char (*between)(const std::string &key)) {
    std::string bytes = usage_errors("", [&] { return read_file(path); });
    check_limits(bytes, path);
    std::map<std::string, Given> values;
    try {
        toml::table table = toml::parse(bytes, path.string());
        for (auto &[key, node] : table) {
            const std::string name{key.str()};
            const std::string where = fmt::format("{}, line {}", path.string(), node.source().begin.line);
            const bool list = node.is_array() && node.as_array()->is_homogeneous(toml::node_type::string);
            if (!node.is_string() && !node.is_number() && !node.is_boolean() && !list)
                fail_usage("{}: {} must be a string, a number, true or false{}", where, shown(name),
                           node.is_array() ? ", or a list of strings with one or more" : "");
            values[name] = {text_of(node, between ? between(name) : ','), origin, where, list};
        }
    } catch (const toml::parse_error &e) {
        fail_usage("{}: line {}: not TOML: {}", path.string(), e.source().begin.line, e.description());
    }
    return values;
}

namespace {

std::string escaped(const std::string &text, bool newlines) {
    std::string out;
    for (unsigned char c : text) {
        if (c == '"' || c == '\\')
            out += '\\', out += static_cast<char>(c);
        else if ((c < 0x20 && !(newlines && c == '\n')) || c == 0x7f)
            out += fmt::format("\\u{:04X}", c);
        else
            out += static_cast<char>(c);
    }
    return out;
}

}  // namespace

std::string toml_string(const std::string &text) { return '"' + escaped(text, false) + '"'; }

// A newline after the opening quotes is no part of the text.
std::string toml_lines(const std::string &text) { return "\"\"\"\n" + escaped(text, true) + "\"\"\""; }

}  // namespace cryolite
