#include "schedules/line_names.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/ranges.h>

#include "bundle/block_names.h"
#include "bundle/near_names.h"
#include "dsl/traced_model.h"

namespace cryolite {

namespace {

/// What each star of a pattern stands for in a name: one or more characters that are no dots. None: they do not match.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
    const size_t star = pattern.find('*');
    if (star == std::string_view::npos)
        return pattern == name ? std::optional<std::vector<std::string>>({std::vector<std::string>()}) : std::nullopt;
    if (name.substr(0, star) != pattern.substr(0, star)) return std::nullopt;
    const size_t end = std::min(name.find('.', star), name.size());
    for (size_t to = end; to > star; to--)
        if (auto rest = match(pattern.substr(star + 1), name.substr(to))) {
            rest->insert(rest->begin(), std::string(name.substr(star, to - star)));
            return rest;
        }
    return std::nullopt;
}

std::string in_small_letters(std::string text) {
    for (char &c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

/// "up.W" in C++ is "up.weight" in a checkpoint: the library's layers call their parameters so.
std::string as_in_checkpoint(const std::string &name) {
    const size_t dot = name.rfind('.');
    const std::string member = name.substr(dot + 1);
    const bool weight = member == "W" || member == "g" || member == "table";
    if (dot == std::string::npos || !(weight || member == "b")) return name;
    return name.substr(0, dot + 1) + (weight ? "weight" : "bias");
}

/// Adds a name, with a star for the number of its block, unless the list has it.
void add_once(std::vector<std::string> &list, const std::string &name) {
    if (std::string all = without_numbers(name); std::ranges::count(list, all) == 0) list.push_back(std::move(all));
}

}  // namespace

LineNames::LineNames(Model &net) {
    const TracedModel m = traced(net);
    for (const Graph::Call &call : m.graph.calls()) {
        if (m.graph.owns(*call.layer)) {
            nameless_.push_back(call.layer->path);
            continue;
        }
        layers_.emplace_back(call.layer->path, call.layer);
        for (const Parameter *w : call.layer->parameters()) parameters_.emplace_back(w->path(), w);
    }
}

std::vector<LineNames::Found> LineNames::find(const StageText &text) const {
    if (text.kind == StageText::pass) return {{forward, {}}};
    if (text.kind == StageText::gradients) return {{{Stage::gradients, nullptr, nullptr}, {}}};
    std::vector<Found> found;
    auto add = [&](const auto &list, auto stage_of) {
        for (const auto &[name, of] : list)
            if (auto stars = match(text.name, name)) {
                Stage stage = stage_of(of);
                stage.call = stage.layer ? text.call : 0;
                if (std::ranges::find(found, stage, &Found::stage) == found.end()) found.push_back({stage, *stars});
            }
    };
    if (text.kind != StageText::next)
        add(layers_, [&](const Layer *h) { return text.kind == StageText::value ? Stage(*h) : d(*h); });
    if (found.empty() && text.kind != StageText::value)
        add(parameters_, [&](const Parameter *w) { return text.kind == StageText::next ? cryolite::next(*w) : d(*w); });
    return found;
}

int LineNames::calls(const Layer *h) const {
    return int(std::ranges::count(layers_, h, &std::pair<std::string, const Layer *>::second));
}

/// The names that a stage of this kind may have.
std::vector<std::string> LineNames::names(const StageText &text) const {
    std::vector<std::string> names;
    if (text.kind != StageText::next)
        for (const auto &[name, h] : layers_) names.push_back(name);
    if (text.kind != StageText::value)
        for (const auto &[name, w] : parameters_) names.push_back(name);
    return names;
}

/// The names that end in `part`, as those of "up" in blocks do.
std::vector<std::string> LineNames::of_blocks(const StageText &text, const std::string &part) const {
    std::vector<std::string> list;
    for (const std::string &name : names(text))
        if (name.ends_with("." + part)) add_once(list, name);
    return list;
}

/// The layers whose type's name has the name of a C++ member in it: a Gelu, for "gelu".
std::vector<std::string> LineNames::of_kind(const std::string &member) const {
    std::vector<std::string> list;
    for (const auto &[name, h] : layers_)
        if (member.size() >= 3 && in_small_letters(h->kind()).find(in_small_letters(member)) != std::string::npos)
            add_once(list, name);
    return list;
}

std::string LineNames::advice(const StageText &text) const {
    for (const std::string &name : nameless_)
        if (text.kind != StageText::next && match(text.name, name))
            return fmt::format(
                "no line can name '{}', which an operator or a function of tensors makes; a layer that is "
                "a member of the model, as SwiGLU act{{...}} for swiglu(gate, up), can be named",
                name);
    const size_t element = text.name.rfind("].");  // "net.blocks[0].up"
    const size_t dot = element == std::string::npos ? text.name.find('.') : element + 1;
    const bool known = std::ranges::any_of(names(text), [&](const std::string &name) {
        return match(text.name.substr(0, dot), name.substr(0, name.find('.'))).has_value();
    });
    if (dot != std::string::npos && !known) return advice_to_cpp(text, dot);
    StageText renamed = text;
    renamed.name = as_in_checkpoint(text.name);
    if (!find(renamed).empty())
        return fmt::format("a line of text takes the names that checkpoints have: '{}'", renamed.name);
    std::vector<std::string> near = of_blocks(text, text.name);
    for (const std::string &name : nearest_names(text.name, names(text)))
        if (near.size() < 3 && std::ranges::count(near, without_numbers(name)) == 0) near.push_back(name);
    if (near.size() > 3) near.resize(3);
    return fmt::format("near it are {}", fmt::join(near, ", "));
}

/// The advice for a name that begins with an object of C++; `dot`: where the object's name ends.
std::string LineNames::advice_to_cpp(const StageText &text, size_t dot) const {
    const std::string why =
        fmt::format("a line of text takes the names that checkpoints have, without the object '{}' of C++: ",
                    text.name.substr(0, dot));
    const std::string rest = text.name.substr(dot + 1), renamed = as_in_checkpoint(rest);
    for (const std::string &name : {rest, renamed}) {
        StageText without = text;
        without.name = name;
        if (!find(without).empty()) return fmt::format("{}'{}'", why, name);
    }
    std::vector<std::string> near = of_blocks(text, rest);
    for (const std::string &name : of_blocks(text, renamed)) add_once(near, name);
    if (near.size() == 1) return fmt::format("{}'{}'", why, near[0]);
    if (text.kind != StageText::next)
        for (const std::string &name : of_kind(rest.substr(rest.rfind('.') + 1))) add_once(near, name);
    if (near.empty())
        for (const std::string &name : nearest_names(renamed, names(text))) add_once(near, name);
    if (near.size() > 3) near.resize(3);
    return fmt::format("{}near '{}' are {}; explain --ir lines prints lines with all names", why, rest,
                       fmt::join(near, ", "));
}

}  // namespace cryolite
