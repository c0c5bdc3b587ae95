#include "runtime/data/shard.h"

#include "runtime/io/error.h"

#include <algorithm>
#include <fstream>
#include <vector>

namespace cryolite {

namespace {

constexpr int32_t magic = 20240520;
constexpr size_t header_bytes = 256 * sizeof(int32_t);

void check_header(const InputFile &file) {
    const std::string path = file.path().string();
    if (file.size() < header_bytes)
        fail("{}: not a token shard: {} bytes, its header alone has {}", path, file.size(), header_bytes);
    int32_t header[3];
    file.read(0, std::as_writable_bytes(std::span(header)));
    if (header[0] != magic) fail("{}: not a token shard: it begins with {}, expected {}", path, header[0], magic);
    if (header[1] != 1) fail("{}: a token shard of version {}, expected 1 (16-bit tokens)", path, header[1]);
    if (header[2] <= 0) fail("{}: a token shard with {} tokens, expected at least 1", path, header[2]);
    const uint64_t expected = header_bytes + 2 * static_cast<uint64_t>(header[2]);
    if (file.size() > expected)
        fail("{}: a token shard of {} tokens has {} bytes, {} more than the {} that its header says; was another file "
             "added to it?",
             path, header[2], file.size(), file.size() - expected, expected);
    if (file.size() != expected)
        fail("{}: a token shard of {} tokens has {} bytes, expected {}; is it truncated?", path, header[2], file.size(),
             expected);
}

class ShardTokens : public TokenFile {
public:
    ShardTokens(const fs::path &path, int vocabulary) : file_(path), vocabulary_(vocabulary) { check_header(file_); }

    size_t size() const override { return (file_.size() - header_bytes) / sizeof(uint16_t); }

    void copy(size_t first, std::span<int32_t> out) const override try {
        while (!out.empty()) {
            uint16_t piece[1 << 12];
            const auto part = std::span(piece).first(std::min(out.size(), std::size(piece)));
            read(first, part);
            std::ranges::copy(part, out.begin());
            first += part.size();
            out = out.subspan(part.size());
        }
    } catch (const Error &e) {
        throw DataError(e.what());
    }

    /// Reads and checks all tokens; returns the digest of the file.
    std::string check() const {
        Sha256 digest;
        std::vector<std::byte> header(header_bytes);
        file_.read(0, header);
        digest.update(header);
        std::vector<uint16_t> piece(1 << 18);
        for (size_t first = 0; first < size(); first += piece.size()) {
            const auto part = std::span(piece).first(std::min(piece.size(), size() - first));
            read(first, part);
            digest.update(std::as_bytes(part));
        }
        return digest.hex();
    }

private:
    InputFile file_;
    int vocabulary_;

    /// Reads tokens from `first` on. Throws where one is not in the vocabulary, or the file has changed since.
    void read(size_t first, std::span<uint16_t> tokens) const {
        const uint64_t offset = header_bytes + sizeof(uint16_t) * first;
        file_.read(offset, std::as_writable_bytes(tokens));
        file_.check_unchanged();
        uint16_t largest = 0;  // the compiler vectorizes this loop; only a bad piece is searched
        for (uint16_t token : tokens) largest = std::max(largest, token);
        if (largest < vocabulary_) return;
        const auto bad = std::ranges::find_if(tokens, [&](int token) { return token >= vocabulary_; });
        fail("{}: token {} at byte {} is not in the vocabulary of {}", file_.path().string(), *bad,
             offset + sizeof(uint16_t) * static_cast<size_t>(bad - tokens.begin()), vocabulary_);
    }
};

}  // namespace

bool is_token_shard(const fs::path &path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return false;
    int32_t first = 0;
    std::ifstream file(path, std::ios::binary);
    return file.read(reinterpret_cast<char *>(&first), sizeof first) && first == magic;
}

TokenShard open_token_shard(const fs::path &path, int vocabulary) {
    auto shard = std::make_shared<const ShardTokens>(path, vocabulary);
    std::string digest = shard->check();
    return {TokenStream(std::move(shard)), std::move(digest)};
}

}  // namespace cryolite
