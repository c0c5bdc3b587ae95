#include "apps/cryolite/config_file.h"

#include <toml++/toml.h>

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

}  // namespace

std::map<std::string, Given> read_config(const fs::path &path, Origin origin) {
    std::string bytes;
    try {
        bytes = read_file(path);
    } catch (const Error &e) {
        throw UsageError(e.what());
    }
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
