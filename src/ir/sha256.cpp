#include "ir/sha256.hpp"

#include <openssl/evp.h>

#include <halfeven/error.hpp>

namespace halfeven::ir {
namespace {

void require(bool done) {
  if (!done) throw Error(ErrorCode::other, "the crypto library cannot compute SHA-256");
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  require(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

Sha256& Sha256::bytes(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::number(std::uint64_t value) {
  std::array<std::byte, 8> little;
  for (std::size_t i = 0; i < little.size(); ++i) little[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes(little);
}

Sha256& Sha256::text(std::string_view text) {
  number(text.size());
  return bytes(std::as_bytes(std::span(text)));
}

Digest Sha256::digest() {
  Digest result;
  unsigned int length = 0;
  require(EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(result.data()), &length) == 1 &&
          length == result.size());
  return result;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kHex[std::to_integer<std::size_t>(byte >> 4)];
    text += kHex[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace halfeven::ir
