#include "runtime/data/shard.h"

#include "runtime/error.h"

#include <cstring>
#include <fstream>

namespace cryolite {

namespace {

constexpr int32_t magic = 20240520;
constexpr size_t header_bytes = 256 * sizeof(int32_t);

void check_header(const MappedFile &file) {
    const std::string path = file.path().string();
    if (file.size() < header_bytes)
        fail("{}: not a token shard: {} bytes, its header alone has {}", path, file.size(),
             header_bytes);
    int32_t header[3];
    std::memcpy(header, file.bytes().data(), sizeof header);
    if (header[0] != magic)
        fail("{}: not a token shard: it begins with {}, expected {}", path, header[0], magic);
    if (header[1] != 1)
        fail("{}: a token shard of version {}, expected 1 (16-bit tokens)", path, header[1]);
    if (header[2] <= 0) fail("{}: a token shard with {} tokens; it needs some", path, header[2]);
    const uint64_t expected = header_bytes + 2 * static_cast<uint64_t>(header[2]);
    if (file.size() > expected)
        fail("{}: a token shard of {} tokens has {} bytes, {} more than the {} that its header says; was another file "
             "added to it?", path, header[2], file.size(), file.size() - expected, expected);
    if (file.size() != expected)
        fail("{}: a token shard of {} tokens has {} bytes, expected {}; is it truncated?", path,
             header[2], file.size(), expected);
}

}  // namespace

bool is_token_shard(const fs::path &path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return false;
    int32_t first = 0;
    std::ifstream file(path, std::ios::binary);
    return file.read(reinterpret_cast<char *>(&first), sizeof first) && first == magic;
}

TokenStream open_token_shard(const fs::path &path, int vocabulary) {
    auto file = std::make_shared<const MappedFile>(path);
    check_header(*file);
    const auto *first = reinterpret_cast<const uint16_t *>(file->bytes().data() + header_bytes);
    const std::span<const uint16_t> tokens(first, (file->size() - header_bytes) / sizeof(uint16_t));
    // Blocks of a maximum, which the compiler vectorizes; only a bad block is searched.
    for (size_t begin = 0; begin < tokens.size(); begin += 1 << 16) {
        const auto block = tokens.subspan(begin, std::min<size_t>(1 << 16, tokens.size() - begin));
        uint16_t largest = 0;
        for (uint16_t token : block) largest = std::max(largest, token);
        if (largest < vocabulary) continue;
        const auto bad = std::find_if(block.begin(), block.end(),
                                      [&](int token) { return token >= vocabulary; });
        fail("{}: token {} at byte {} is not in the vocabulary of {}", path.string(), *bad,
             header_bytes + 2 * (begin + static_cast<size_t>(bad - block.begin())), vocabulary);
    }
    return TokenStream(std::move(file), tokens);
}

}  // namespace cryolite
