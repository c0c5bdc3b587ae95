#include "runtime/tokenizer/gpt2_tokenizer.h"

#include "runtime/io/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_map>

namespace cryolite {

namespace {

constexpr std::string_view end_of_text_name = "<|endoftext|>";

/// Calls merge(number, line) for each line that should be a merge; lines are numbered from 1.
template <typename Merge> void for_each_merge(std::string_view merges, Merge merge) {
    size_t number = 0;
    for (size_t begin = 0, end; begin < merges.size(); begin = end + 1) {
        end = std::min(merges.find('\n', begin), merges.size());
        std::string_view line = merges.substr(begin, end - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        ++number;
        if (!line.empty() && !(number == 1 && line.starts_with("#version"))) merge(number, line);
    }
}

}  // namespace

void BpeTokenizer::add_piece(std::string_view bytes) {
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    bytes_ += bytes;
}

std::shared_ptr<const BpeTokenizer> BpeTokenizer::from_merges(std::string_view merges, const std::string &origin) {
    if (merges.size() > (1u << 30)) fail("{}: {} are no merges of a tokenizer", origin, human_bytes(merges.size()));
    const auto lines = static_cast<size_t>(std::count(merges.begin(), merges.end(), '\n')) + 1;
    std::shared_ptr<BpeTokenizer> made(new BpeTokenizer);
    made->bpe_.reserve(lines);
    // Views into bytes_ are the keys, so it must not move. A merge has fewer bytes than its line.
    made->bytes_.reserve(merges.size() + 256 + end_of_text_name.size());
    std::unordered_map<std::string_view, int> token_of;
    token_of.reserve(lines + 256);
    const auto add = [&](std::string_view bytes) {
        made->add_piece(bytes);
        return token_of.emplace(made->piece(made->size() - 1), made->size() - 1).second;
    };
    for (int b : bytes_in_order()) {
        made->bpe_.set_byte(static_cast<unsigned char>(b), made->size());
        add(std::string(1, static_cast<char>(b)));
    }
    for_each_merge(merges, [&](size_t number, std::string_view line) {
        const size_t space = std::min(line.find(' '), line.size() - 1);
        const std::string left = bytes_of_characters(line.substr(0, space));
        const std::string right = bytes_of_characters(line.substr(space + 1));
        const auto a = token_of.find(left), b = token_of.find(right);
        if (a == token_of.end() || b == token_of.end())
            fail("{}: line {}: {} is not a pair of tokens made before it", origin, number, shown(line));
        const int first = a->second, second = b->second, token = made->size();
        if (!add(left + right)) fail("{}: line {}: {} makes a token that exists already", origin, number, shown(line));
        made->bpe_.add({first, second, {token, token}});
    });
    if (made->size() == 256) fail("{}: no merges; expected a file like GPT-2's vocab.bpe", origin);
    made->add_piece(end_of_text_name);
    return made;
}

void BpeTokenizer::encode_to(std::string_view text, const Sink &sink, size_t offset) const {
    if (text.size() > INT32_MAX) fail("a text of {} is too long to encode at once", human_bytes(text.size()));
    PieceEncoder encoder([&](std::string_view piece, std::vector<int> &tokens) { bpe_.encode(piece, tokens); }, sink);
    for_each_pretoken(text, offset, [&](std::string_view piece) { encoder.add(piece); });
    encoder.finish();
}

std::string_view BpeTokenizer::piece(int token) const {
    check_token(token);
    const size_t begin = offsets_[static_cast<size_t>(token)];
    const size_t end = token + 1 < size() ? offsets_[static_cast<size_t>(token) + 1] : bytes_.size();
    return std::string_view(bytes_).substr(begin, end - begin);
}

std::string BpeTokenizer::to_json() const {
    std::vector<std::string> merges(static_cast<size_t>(size()) - 257);
    for (const Bpe::Pair &pair : bpe_.pairs())
        merges[static_cast<size_t>(pair.merge.token) - 256] =
            characters_of_bytes(piece(pair.left)) + " " + characters_of_bytes(piece(pair.right));
    return nlohmann::json{{"type", "gpt2"}, {"merges", merges}}.dump();
}

}  // namespace cryolite
