#include "apps/cryolite/config_file.h"

#include <toml++/toml.h>

#include <algorithm>

#include "runtime/error.h"

namespace cryolite {

namespace {

std::string text_of(const toml::node &node) {
    if (auto s = node.as_string()) return s->get();
    if (auto i = node.as_integer()) return std::to_string(i->get());
    if (auto f = node.as_floating_point()) return fmt::format("{}", f->get());
    if (auto b = node.as_boolean()) return b->get() ? "true" : "false";
    return "";
}

/// Refuses what the parser would go into too deep: it opens and frees tables by recursion, one for each dot of a key.
/// Lines of comments do not count; a dot of a string or a number does no harm, and of these a file of flags has few.
void check_depth(std::string_view text, const fs::path &path) {
    constexpr size_t most_bytes = 1 << 20, most_dots = 2000;
    if (text.size() > most_bytes)
        fail_usage("{}: {}, expected a configuration: a flag a line, {} at most", path.string(), human_bytes(text.size()),
                   human_bytes(most_bytes));
    size_t dots = 0, number = 1;
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1, ++number) {
        end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        if (const size_t first = line.find_first_not_of(" \t"); first == line.npos || line[first] == '#') continue;
        dots += static_cast<size_t>(std::count(line.begin(), line.end(), '.'));
        if (dots > most_dots)
            fail_usage("{}, line {}: more than {} dots up to here: a key is the name of a flag, without dots", path.string(),
                       number, most_dots);
    }
}

}  // namespace

std::map<std::string, Given> read_config(const fs::path &path, Origin origin) {
    std::string bytes;
    try {
        bytes = read_file(path);
    } catch (const Error &e) {
        throw UsageError(e.what());
    }
    check_depth(bytes, path);
    std::map<std::string, Given> values;
    try {
        toml::table table = toml::parse(bytes, path.string());
        for (auto &[key, node] : table) {
            const std::string name{key.str()};
            const std::string where =
                fmt::format("{}, line {}", path.string(), node.source().begin.line);
            if (!node.is_string() && !node.is_number() && !node.is_boolean())
                fail_usage("{}: {} must be a string, a number, true or false", where, shown(name));
            values[name] = {text_of(node), origin, where};
        }
    } catch (const toml::parse_error &e) {
        fail_usage("{}: line {}: not TOML: {}", path.string(), e.source().begin.line,
                   e.description());
    }
    return values;
}

std::string toml_string(const std::string &text) {
    std::string out = "\"";
    for (unsigned char c : text) {
        if (c == '"' || c == '\\')
            out += '\\', out += static_cast<char>(c);
        else if (c < 0x20 || c == 0x7f)
            out += fmt::format("\\u{:04X}", c);
        else
            out += static_cast<char>(c);
    }
    return out + '"';
}

}  // namespace cryolite
