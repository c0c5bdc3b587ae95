#pragma once
// How a setting is declared: a row has its name, its range, and what depends on it. All code that reads, writes,
// compares or passes on settings goes through the rows.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bundle/range.h"

namespace cryolite {

/// The place of a setting's value.
using ValueRef = std::variant<bool *, int *, uint64_t *, double *, std::string *, std::filesystem::path *>;

/// Whether a resumed run has to keep the value that it began with.
enum class OnResume {
    fixed,
    free,
    by_content,  ///< the file's content has to be the same, not its name: its digest is compared
};

/// Whether a bundle depends on a setting: the generator program gets it, and the key of the bundle has it.
enum class InBundle {
    no,
    value,
    where_given,  ///< its value, where that is not the default: a new setting changes no older key
    whether,      ///< only whether it is the default: gradients are clipped, or are not
    where_on,     ///< the same, where it is not the default
};

struct Setting {
    struct Words {};  ///< nothing but `words`
    struct Switch {};
    struct Bytes {
    };  ///< from 1 on, with a unit if need be: 2350000000, 40MB, 1.5 GiB. A string keeps it as it was given
    struct Seconds {};  ///< with a unit if need be: 90s, 1.5m
    struct Text {};     ///< not empty
    struct Groups {};   ///< of parameters (param_group.h)
    struct Targets {};  ///< of kernels (target.h)
    struct File {};     ///< a path
    using Range =
        std::variant<Words, Switch, WholeRange, RealRange, PowerOfTwo, Bytes, Seconds, Text, Groups, Targets, File>;
    /// A word that may be given in place of a value.
    struct Word {
        std::string text;
        int value = 0;            ///< where the value is no string
        std::string bundle = "";  ///< the word that a bundle is made with, where that is another one
    };

    std::string name;        ///< of the flag, without its dashes, and of the key of a TOML file
    std::string value = "";  ///< what --help calls its value; empty: a switch
    std::string group = "";  ///< of --help and of config.toml
    std::string help = "";   ///< without the default
    Range range = Words{};
    std::vector<Word> words = {};
    OnResume on_resume = OnResume::fixed;
    InBundle in_bundle = InBundle::no;
    std::string otherwise = "";  ///< words of --help for the default; empty: its text; "-": none
    char list = 0;          ///< between the texts of a list, which may be repeated flags or a TOML list; 0: no list
    bool in_bench = true;   ///< false: `bench` has a default of its own, and takes no preset's value
    std::string flag = "";  ///< the flag that sets it, where it has none of its own

    bool is_switch() const { return std::holds_alternative<Switch>(range); }
    /// Whether a bundle knows only whether its value is the default.
    bool is_known_as_on() const { return in_bundle == InBundle::whether || in_bundle == InBundle::where_on; }
    /// "head_rows", in JSON.
    std::string key() const;
};

/// "a whole number from 1 to 1024"
std::string expected(const Setting &setting);

/// Whether the text is a value of the setting; if so, stores it in `into`.
bool read_value(const Setting &setting, const std::string &text, ValueRef into);

/// The value as a flag has it; "nan": not known yet. A path is made absolute; an empty one, or an empty string, is
/// "none".
std::string text_of(const Setting &setting, ValueRef value);

/// The items of a list.
std::vector<std::string> list_items(std::string_view text, char between);

/// The bytes in a text of the range Bytes, "40MB"; nothing: it is not of this form.
std::optional<uint64_t> bytes_of(std::string_view text);

}  // namespace cryolite
