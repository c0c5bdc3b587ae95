#include "runtime/tokenizer/tokenizer.h"

#include "runtime/tokenizer/gpt2_tokenizer.h"
#include "runtime/tokenizer/tokenizer_file.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"
#include "runtime/io/json_depth.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace cryolite {

std::vector<int> Tokenizer::encode(std::string_view text) const {
    std::vector<int> tokens;
    encode_to(text, [&](std::span<const int> some) { tokens.insert(tokens.end(), some.begin(), some.end()); });
    return tokens;
}

std::string Tokenizer::decode(std::span<const int> tokens) const {
    std::string text;
    for (int token : tokens) text += piece(token);
    return text;
}

void Tokenizer::check_token(int token) const {
    if (token < 0 || token >= size()) fail("token {} is not in the vocabulary of {} ({})", token, size(), name());
}

CharTokenizer::CharTokenizer(std::vector<uint32_t> code_points, std::string origin) : origin_(std::move(origin)) {
    if (code_points.empty()) fail("a character vocabulary needs at least one character");
    for (size_t i = 1; i < code_points.size(); ++i)
        if (code_points[i] <= code_points[i - 1])
            fail("a character vocabulary must be sorted, each character once: U+{:04X} follows "
                 "U+{:04X}",
                 code_points[i], code_points[i - 1]);
    token_of_.assign(size_t{code_points.back()} + 1, -1);
    for (size_t i = 0; i < code_points.size(); ++i) {
        token_of_[code_points[i]] = static_cast<int>(i);
        append_utf8(pieces_.emplace_back(), code_points[i]);
    }
}

std::shared_ptr<const CharTokenizer> CharTokenizer::of(std::string_view text, const std::string &origin) {
    std::vector<bool> present(0x110000);
    uint32_t largest = 0;
    for (size_t i = 0; i < text.size();) {
        const CodePoint c = code_point_at(text, i);
        if (c.length == 0)
            fail("{}: not UTF-8 text: byte 0x{:02x} at offset {}", origin, static_cast<unsigned char>(text[i]), i);
        present[c.value] = true;
        largest = std::max(largest, c.value);
        i += static_cast<size_t>(c.length);
    }
    std::vector<uint32_t> code_points;
    for (uint32_t c = 0; c <= largest; ++c)
        if (present[c]) code_points.push_back(c);
    if (code_points.empty()) fail("{}: no characters; a text is needed", origin);
    return std::make_shared<CharTokenizer>(std::move(code_points), origin);
}

void CharTokenizer::encode_to(std::string_view text, const Sink &sink, size_t offset) const {
    std::vector<int> out;
    out.reserve(4096);
    for (size_t i = 0; i < text.size();) {
        const CodePoint c = code_point_at(text, i);
        if (c.length == 0)
            fail("not UTF-8 text: byte 0x{:02x} at offset {}", static_cast<unsigned char>(text[i]), offset + i);
        const int token = c.value < token_of_.size() ? token_of_[c.value] : -1;
        if (token < 0)
            fail("character U+{:04X} ({}) at offset {} is not one of the {} of the vocabulary{}; take it out of the "
                 "text",
                 c.value, shown(text.substr(i, static_cast<size_t>(c.length))), offset + i, size(),
                 origin_.empty() ? "" : " of " + origin_);
        out.push_back(token);
        if (out.size() == 4096) {
            sink(out);
            out.clear();
        }
        i += static_cast<size_t>(c.length);
    }
    if (!out.empty()) sink(out);
}

std::string_view CharTokenizer::piece(int token) const {
    check_token(token);
    return pieces_[static_cast<size_t>(token)];
}

std::string CharTokenizer::to_json() const { return nlohmann::json{{"type", "char"}, {"characters", pieces_}}.dump(); }

namespace {

std::vector<uint32_t> code_points_of(const std::vector<std::string> &characters) {
    std::vector<uint32_t> code_points;
    for (const std::string &text : characters) {
        const CodePoint c = code_point_at(text, 0);
        if (c.length == 0 || static_cast<size_t>(c.length) != text.size())
            fail("{} in \"characters\" is not one character", shown(text));
        code_points.push_back(c.value);
    }
    return code_points;
}

}  // namespace

std::string vocabulary_type(std::string_view text) {
    return type_of_vocabulary(nlohmann::json::parse(text, nullptr, false));
}

std::string type_of_vocabulary(const nlohmann::json &json) {
    if (!json.is_object() || !json.contains("type") || !json.at("type").is_string()) return "";
    const auto type = json.at("type").get<std::string>();
    return type == "char" || type == "gpt2" || type == "tokenizer.json" ? type : "";
}

std::shared_ptr<const Tokenizer> tokenizer_from_json(std::string_view text, const std::string &origin) {
    check_json_depth(text, origin);
    try {
        const nlohmann::json json = nlohmann::json::parse(text);
        const auto type = json.at("type").get<std::string>();
        if (type == "char")
            return std::make_shared<CharTokenizer>(
                code_points_of(json.at("characters").get<std::vector<std::string>>()), origin);
        if (type == "gpt2") {
            std::string lines;
            for (const nlohmann::json &line : json.at("merges")) lines += line.get_ref<const std::string &>() + "\n";
            return BpeTokenizer::from_merges(lines, "merges");
        }
        if (type == "tokenizer.json") return tokenizer_of_members(json.at("tokenizer"));
        fail("its type is {}, expected \"char\", \"gpt2\" or \"tokenizer.json\"", shown(type));
    } catch (const nlohmann::json::exception &e) {
        fail("{}: not a vocabulary of cryolite: {}", origin, e.what());
    } catch (const Error &e) {
        fail("{}: not a vocabulary of cryolite: {}", origin, e.what());
    }
}

std::shared_ptr<const Tokenizer> load_tokenizer(const fs::path &path) {
    return tokenizer_from_json(read_file(path), path.string());
}

}  // namespace cryolite
