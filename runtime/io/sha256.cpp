#include "runtime/io/error.h"
#include "runtime/io/files.h"

#include <openssl/evp.h>

#include <algorithm>
#include <vector>

namespace cryolite {

struct Sha256::State {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
    if (!state_->context || EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
        fail("OpenSSL cannot compute SHA-256 here; check its installation (libssl)");
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256 &&) noexcept = default;
Sha256 &Sha256::operator=(Sha256 &&) noexcept = default;

void Sha256::update(Bytes bytes) {
    if (EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1)
        fail("OpenSSL failed in the middle of a SHA-256");
}

std::string Sha256::hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_DigestFinal_ex(state_->context, digest, &length) != 1) fail("OpenSSL failed at the end of a SHA-256");
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
}

std::string sha256_hex(Bytes bytes) {
    Sha256 digest;
    digest.update(bytes);
    return digest.hex();
}

std::string sha256_file(const fs::path &path) {
    const InputFile file(path);
    std::vector<std::byte> piece(std::min<uint64_t>(file.size(), 1 << 20));
    Sha256 digest;
    for (uint64_t at = 0; at < file.size(); at += piece.size()) {
        const auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), file.size() - at));
        file.read(at, part);
        digest.update(part);
    }
    return digest.hex();
}

}  // namespace cryolite
