#include "runtime/tokenizer/tokenizer_file.h"

#include <utf8proc.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <nlohmann/json.hpp>

#include "runtime/tokenizer/bpe.h"
#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"
#include "runtime/io/json_depth.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

using nlohmann::json;

/// GPT-2's pattern, which a ByteLevel pre-tokenizer applies itself.
const std::string byte_level_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr int most_tokens = 1 << 20;

/// A member that has to be there; messages call `j` `of`.
const json &member(const json &j, const std::string &of, const char *name) {
    if (!j.is_object() || !j.contains(name)) fail("{} has no \"{}\"", of, name);
    return j.at(name);
}

std::string brief(const json &j) { return j.dump(-1, ' ', true).substr(0, 80); }

/// Refuses a member that would change the tokens: it may be left out, null, or `neutral`.
void check_neutral(const json &j, const std::string &of, const char *name, const json &neutral) {
    if (j.contains(name) && !j.at(name).is_null() && j.at(name) != neutral)
        fail("{}.{} is {}, which is not supported; expected {}", of, name, brief(j.at(name)), neutral.dump());
}

/// The number of a token. A number that is not whole, or too large for an int, would be read as another one.
int number(const json &id, const std::string &at) {
    if (!id.is_number_integer() || id < 0 || id >= most_tokens)
        fail("{} has the number {}, expected a whole one from 0 to {}", at, brief(id), most_tokens - 1);
    return id.get<int>();
}

std::string text_of(const json &j, const std::string &at) {
    if (!j.is_string()) fail("{} is {}, expected a text", at, brief(j));
    return j.get<std::string>();
}

/// A member that may be left out: then it is `otherwise`.
bool flag_of(const json &j, const std::string &of, const char *name, bool otherwise = false) {
    if (!j.contains(name) || j.at(name).is_null()) return otherwise;
    if (!j.at(name).is_boolean()) fail("{}.{} is {}, expected true or false", of, name, brief(j.at(name)));
    return j.at(name).get<bool>();
}

/// `j`, of which `is` says whether it is what is expected.
const json &checked(const json &j, const std::string &at, bool is, const char *expected) {
    if (!is) fail("{} is {}, expected {}", at, brief(j), expected);
    return j;
}
const json &checked(json &&, const std::string &, bool, const char *) = delete;  // a temporary would be gone
const json &list_of(const json &j, const std::string &at) { return checked(j, at, j.is_array(), "a list"); }

std::string type_of(const json &j, const std::string &of) { return text_of(member(j, of, "type"), of + ".type"); }

/// Normalises to NFC. An ASCII character never composes with what is before it, so each piece from one on is separate.
/// U+11A7 does not either, but utf8proc 2.8 drops it after a syllable.
std::string to_nfc(std::string_view text) {
    constexpr std::string_view before_finals = "\u11a7";
    auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    std::string out;
    out.reserve(text.size());
    for (size_t begin = 0, end; begin < text.size(); begin = end) {
        end = begin + 1;
        while (end < text.size() && !ascii(text[end]) && !text.substr(end).starts_with(before_finals)) end++;
        if (end == begin + 1 && ascii(text[begin])) {
            out += text[begin];
            continue;
        }
        utf8proc_uint8_t *normal = nullptr;
        const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data() + begin),
                                         static_cast<utf8proc_ssize_t>(end - begin), &normal,
                                         static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        if (length < 0) fail("a text cannot be brought to NFC: {}", utf8proc_errmsg(length));
        out.append(reinterpret_cast<const char *>(normal), static_cast<size_t>(length));
        std::free(normal);
    }
    return out;
}

class FileTokenizer : public Tokenizer {
public:
    explicit FileTokenizer(const json &file) {
        const json &model = member(file, "the file", "model");
        read_normalizer(file.value("normalizer", json()), "normalizer");
        read_split(file.value("pre_tokenizer", json()), "pre_tokenizer");
        if (!bytes_)
            fail("pre_tokenizer has no ByteLevel, and other tokenizers than byte-level ones are not supported");
        read_added(file.value("added_tokens", json::array()));
        read_vocabulary(model);
        read_merges(model);
        json kept = json::object();
        for (const char *name : {"added_tokens", "normalizer", "pre_tokenizer", "model"})
            if (file.contains(name)) kept[name] = file.at(name);
        json_ = json{{"type", "tokenizer.json"}, {"tokenizer", kept}}.dump();
    }

    std::string_view name() const override { return "tokenizer.json"; }
    int size() const override { return static_cast<int>(pieces_.size()); }
    std::string to_json() const override { return json_; }
    std::string_view piece(int token) const override {
        check_token(token);
        return pieces_[static_cast<size_t>(token)];
    }

    void encode_to(std::string_view text, const Sink &sink, size_t offset) const override {
        if (text.size() > INT32_MAX) fail("a text of {} is too long to encode at once", human_bytes(text.size()));
        if (const size_t at = first_not_utf8(text); at != std::string_view::npos)
            fail("not UTF-8 text: byte 0x{:02x} at offset {}", static_cast<unsigned char>(text[at]), offset + at);
        PieceEncoder encoder(
            [this](std::string_view piece, std::vector<int> &tokens) {
                const auto whole = whole_.find(piece);
                if (whole != whole_.end())
                    tokens.push_back(whole->second);
                else
                    tell_left_out(piece), bpe_.encode(piece, tokens);
            },
            sink);
        auto between = [&](std::string_view part) {
            if (nfc_)
                split(to_nfc(part), 0, encoder);
            else
                split(part, 0, encoder);
        };
        std::function<void(std::string_view, size_t)> find_added = [&](std::string_view in, size_t level) {
            if (level == added_patterns_.size()) return between(in);
            added_patterns_[level].for_each_part(in, [&](std::string_view part, bool matches) {
                matches ? encoder.add_token(added_.find(part)->second) : find_added(part, level + 1);
            });
        };
        find_added(text, 0);
        encoder.finish();
    }

private:
    bool nfc_ = false, bytes_ = false;
    std::deque<Pattern> patterns_;                   ///< each splits the parts that the one before has made
    std::map<std::string, int, std::less<>> added_;  ///< tokens that are found in a text as they are written
    std::deque<Pattern> added_patterns_;             ///< of those that a normalizer would not change, then of others
    std::vector<std::string> pieces_;                ///< the bytes of each token
    std::map<std::string, int, std::less<>> whole_;  ///< pieces that are tokens as they are, without merging
    Bpe bpe_;
    std::string json_;
    int missing_ = 0;  ///< bytes without a token
    mutable std::atomic<bool> told_{false};

    /// Warns once. PyPI's `tokenizers` leaves such bytes out silently.
    void tell_left_out(std::string_view piece) const {
        if (!missing_ || told_) return;
        const auto at = std::ranges::find_if(piece, [&](char c) { return !bpe_.has(static_cast<unsigned char>(c)); });
        if (at == piece.end() || told_.exchange(true)) return;
        tell("warning: the tokenizer has no token for the byte 0x{:02x}, which is left out of the tokens, as PyPI's "
             "`tokenizers` does; {} of the 256 bytes have none",
             static_cast<unsigned char>(*at), missing_);
    }

    void split(std::string_view piece, size_t level, PieceEncoder &encoder) const {
        if (level == patterns_.size()) return encoder.add(piece);
        patterns_[level].for_each_part(piece, [&](std::string_view part, bool) { split(part, level + 1, encoder); });
    }

    void read_normalizer(const json &n, const std::string &at) {
        if (n.is_null()) return;
        const std::string type = type_of(n, at);
        if (type == "NFC") {
            nfc_ = true;
        } else if (type == "Sequence") {
            for (const json &one : list_of(member(n, at, "normalizers"), at + ".normalizers"))
                read_normalizer(one, at + ".normalizers");
        } else {
            fail("{}.type is {}, expected NFC or none", at, shown(type));
        }
    }

    void read_split(const json &p, const std::string &at) {
        if (p.is_null()) return;
        const std::string type = type_of(p, at);
        if (bytes_) fail("{}.type is {}, and stands behind a ByteLevel, which is supported at the end alone", at, type);
        if (type == "Sequence") {
            for (const json &one : list_of(member(p, at, "pretokenizers"), at + ".pretokenizers"))
                read_split(one, at + ".pretokenizers");
        } else if (type == "ByteLevel") {
            check_neutral(p, at, "add_prefix_space", false);
            if (flag_of(p, at, "use_regex", true)) patterns_.emplace_back(byte_level_pattern);
            bytes_ = true;
        } else if (type == "Digits") {
            patterns_.emplace_back(flag_of(p, at, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)");
        } else if (type == "Split") {
            check_neutral(p, at, "behavior", "Isolated"), check_neutral(p, at, "invert", false);
            const json &pattern = member(p, at, "pattern");
            if (pattern.contains("String"))
                patterns_.emplace_back(Pattern::quoted(text_of(pattern.at("String"), at + ".pattern.String")));
            else
                patterns_.emplace_back(text_of(member(pattern, at + ".pattern", "Regex"), at + ".pattern.Regex"));
        } else {
            fail("{}.type is {}, expected ByteLevel, Digits, Split or a Sequence of them", at, shown(type));
        }
    }

    void add_token(int id, const std::string &bytes, const std::string &at) {
        if (size_t(id) < pieces_.size() && !pieces_[size_t(id)].empty())
            fail("{} has the number {}, which another token has", at, id);
        if (size_t(id) >= pieces_.size()) pieces_.resize(size_t(id) + 1);
        pieces_[size_t(id)] = bytes;
    }

    void read_added(const json &added) {
        std::vector<std::string> contents[2];
        if (added.is_null()) return;
        for (const json &token : list_of(added, "added_tokens")) {
            const std::string content = text_of(member(token, "added_tokens", "content"), "added_tokens: content");
            if (content.empty()) fail("added_tokens has an empty token");
            for (const char *name : {"lstrip", "rstrip", "single_word"})
                check_neutral(token, fmt::format("added_tokens: {}", shown(content)), name, false);
            // It is found in the normalised text, which is the text itself if nothing normalises it.
            if (nfc_) check_neutral(token, fmt::format("added_tokens: {}", shown(content)), "normalized", false);
            const int id = number(member(token, "added_tokens", "id"), "added_tokens: " + shown(content));
            if (added_.contains(content)) fail("added_tokens: {} is listed twice", shown(content));
            added_[content] = id;
            add_token(id, content, "added_tokens: " + shown(content));
            contents[flag_of(token, "added_tokens: " + shown(content), "normalized")].push_back(content);
        }
        for (std::vector<std::string> &some : contents) {
            // Of two tokens that begin at the same place the longer one is taken.
            std::ranges::stable_sort(some, std::greater<>(), &std::string::size);
            for (std::string &content : some) content = Pattern::quoted(content);
            if (!some.empty()) added_patterns_.emplace_back(fmt::format("{}", fmt::join(some, "|")));
        }
    }

    /// Called after `read_added`: added tokens may be in the vocabulary, too, with characters that stand for no byte.
    void read_vocabulary(const json &model) {
        if (const std::string type = type_of(model, "model"); type != "BPE")
            fail("model.type is {}, expected BPE", shown(type));
        check_neutral(model, "model", "dropout", 0.0);
        for (const char *name : {"continuing_subword_prefix", "end_of_word_suffix"})
            check_neutral(model, "model", name, "");
        check_neutral(model, "model", "byte_fallback", false);
        const bool whole = flag_of(model, "model", "ignore_merges");
        const json &vocabulary = member(model, "model", "vocab");
        checked(vocabulary, "model.vocab", vocabulary.is_object(), "an object");
        for (const auto &[characters, id] : vocabulary.items()) {
            const std::string at = "model.vocab: " + shown(characters), bytes = bytes_of_characters(characters);
            const int token = number(id, at);
            if (const auto added = added_.find(characters); added != added_.end()) {
                if (token == added->second) continue;
                fail("{} has the number {}, but {} among added_tokens", at, token, added->second);
            }
            if (bytes.empty()) fail("{} is no token of bytes", at);
            add_token(token, bytes, at);
            if (whole) whole_[bytes] = token;
        }
        for (const int b : bytes_in_order()) {
            const std::string character = characters_of_bytes(std::string(1, static_cast<char>(b)));
            if (vocabulary.contains(character))
                bpe_.set_byte(static_cast<unsigned char>(b), vocabulary.at(character).get<int>());
            else
                missing_++;
        }
        if (missing_) check_neutral(model, "model", "unk_token", nullptr);
        for (size_t id = 0; id < pieces_.size(); id++)
            if (pieces_[id].empty()) fail("no token has the number {}, and there is one with {}", id, size() - 1);
    }

    void read_merges(const json &model) {
        const json &vocabulary = model.at("vocab"), &merges = list_of(member(model, "model", "merges"), "model.merges");
        auto token = [&](const std::string &characters, size_t number) {
            const auto at = vocabulary.find(characters);
            if (at == vocabulary.end()) fail("model.merges[{}]: {} is not in model.vocab", number, shown(characters));
            return at->get<int>();
        };
        bpe_.reserve(merges.size());
        for (size_t i = 0; i < merges.size(); i++) {
            std::string left, right;
            const auto text = [&](const json &part) {
                return part.is_string() ? part.get<std::string>() : text_of(part, fmt::format("model.merges[{}]", i));
            };
            if (merges[i].is_array() && merges[i].size() == 2) {
                left = text(merges[i][0]), right = text(merges[i][1]);
            } else {  // as before tokenizers 0.20
                const std::string line = text(merges[i]);
                const size_t space = std::min(line.find(' '), line.size());
                left = line.substr(0, space), right = line.substr(std::min(space + 1, line.size()));
            }
            bpe_.add({token(left, i), token(right, i), {token(left + right, i), static_cast<int>(i)}});
        }
    }
};

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_of_members(const nlohmann::json &members) {
    return std::make_shared<FileTokenizer>(members);
}

std::shared_ptr<const Tokenizer> tokenizer_of_file(const fs::path &path) {
    const std::string text = read_file(path);
    check_json_depth(text, path.string());
    json file;
    try {
        file = json::parse(text);
        if (type_of_vocabulary(file).empty()) return tokenizer_of_members(file);
    } catch (const json::exception &e) {
        fail("{}: not a tokenizer.json: copy or download it again ({})", path.string(), e.what());
    } catch (const Error &e) {
        fail("{}: not a tokenizer.json that is supported: {}", path.string(), e.what());
    }
    return tokenizer_from_json(text, path.string());
}

}  // namespace cryolite
