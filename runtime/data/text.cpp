#include "runtime/data/text.h"

#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"

namespace cryolite {

std::string read_text(const fs::path &path) {
    std::string text = read_file(path);
    if (text.empty()) fail("{}: the file is empty; a text is needed", path.string());
    if (const size_t zero = text.find('\0'); zero != std::string::npos)
        fail("{}: a binary file (a zero byte at offset {}); expected UTF-8 text or a token shard", path.string(), zero);
    if (const size_t at = first_not_utf8(text); at != std::string::npos)
        fail("{}: not UTF-8 text: byte 0x{:02x} at offset {}; convert it (iconv) or name a text", path.string(),
             static_cast<unsigned char>(text[at]), at);
    return text;
}

size_t split_by_characters(std::string_view text) {
    size_t characters = 0;
    for (char c : text) characters += !is_continuation(c);
    size_t left = static_cast<size_t>(static_cast<double>(characters) * 0.9), position = 0;
    for (; position < text.size(); ++position)
        if (!is_continuation(text[position]) && left-- == 0) break;
    return position;
}

size_t split_by_bytes(std::string_view text) {
    size_t position = static_cast<size_t>(static_cast<double>(text.size()) * 0.9);
    while (position > 0 && position < text.size() && is_continuation(text[position])) --position;
    return position;
}

namespace {

template <typename Token> TokenStream encode_as(const Tokenizer &tokenizer, std::string_view text, size_t offset) {
    std::vector<Token> tokens;
    tokens.reserve(tokenizer.by_character() ? text.size() : text.size() / 3);
    const auto append = [&](std::span<const int> some) {
        for (int token : some) tokens.push_back(static_cast<Token>(token));
    };
    tokenizer.encode_to(text, append, offset);
    tokens.shrink_to_fit();
    return TokenStream(std::move(tokens));
}

/// A part of the file `path`, whose name goes in front of the message.
TokenStream encode_part(const Tokenizer &tokenizer, std::string_view part, size_t offset, const fs::path &path) {
    try {
        return encode_stream(tokenizer, part, offset);
    } catch (const Error &e) {
        fail("{}: {}", path.string(), e.what());
    }
}

}  // namespace

TokenStream encode_stream(const Tokenizer &tokenizer, std::string_view text, size_t offset) {
    return tokenizer.size() <= 65536 ? encode_as<uint16_t>(tokenizer, text, offset)
                                     : encode_as<int32_t>(tokenizer, text, offset);
}

void require_context(const TokenStream &tokens, int context, const std::string &what) {
    if (tokens.size() < static_cast<size_t>(context) + 1)
        fail("{} has {} tokens, but context {} needs at least {}; use more data or a smaller "
             "--context",
             what, tokens.size(), context, static_cast<size_t>(context) + 1);
}

TextCorpus load_text(const TextOptions &options) {
    const std::string name = options.data.string(), text = read_text(options.data);
    TextCorpus corpus;
    corpus.digest = sha256_hex(text);
    corpus.tokenizer = options.tokenizer ? options.tokenizer : CharTokenizer::of(text, name);
    const Tokenizer &tokenizer = *corpus.tokenizer;
    if (options.validation.empty()) {
        const size_t split = tokenizer.by_character() ? split_by_characters(text) : split_by_bytes(text);
        const std::string_view all = text;
        corpus.train = encode_part(tokenizer, all.substr(0, split), 0, options.data);
        corpus.validation = encode_part(tokenizer, all.substr(split), split, options.data);
        require_context(corpus.train, options.context, name + ": its first 90 %, for training,");
        require_context(corpus.validation, options.context, name + ": its last 10 %, for validation,");
    } else {
        corpus.train = encode_part(tokenizer, text, 0, options.data);
        corpus.validation = encode_part(tokenizer, read_text(options.validation), 0, options.validation);
        require_context(corpus.train, options.context, name);
        require_context(corpus.validation, options.context, options.validation.string());
    }
    return corpus;
}

}  // namespace cryolite
