#include "ir/quote.hpp"

#include <cstddef>

namespace halfeven::ir {
namespace {

constexpr std::size_t kLongest = 200;

// Bytes of the UTF-8 sequence at the front of `text`, 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (length > 2) {  // overlong forms, surrogates and what lies beyond U+10FFFF
    const unsigned char second = byte(1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F)) {
      return 0;
    }
  }
  return length;
}

}  // namespace

std::string quote(std::string_view name) {
  std::string text = "'";
  text += printable(name);
  text += '\'';
  return text;
}

std::string printable(std::string_view name) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  while (!name.empty()) {
    if (text.size() > kLongest) return text + "...";
    const auto first = static_cast<unsigned char>(name[0]);
    std::size_t length = utf8_length(name);
    if (length == 0 || first < 0x20 || first == 0x7F || first == '\'' || first == '\\') {
      text += "\\x";
      text += kHex[first >> 4];
      text += kHex[first & 15];
      length = 1;
    } else {
      text += name.substr(0, length);
    }
    name.remove_prefix(length);
  }
  return text;
}

}  // namespace halfeven::ir
