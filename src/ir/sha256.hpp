// SHA-256. The only place that knows which library computes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace halfeven::ir {

using Digest = std::array<std::byte, 32>;

/// Hashes a sequence of fields.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& bytes(std::span<const std::byte> bytes);
  /// Eight bytes, little endian.
  Sha256& number(std::uint64_t value);
  /// The length, then the characters: so two texts in a row cannot be mistaken for another two.
  Sha256& text(std::string_view text);

  /// The digest of all that was given. Call once.
  Digest digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Two lower-case hex digits a byte.
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace halfeven::ir
