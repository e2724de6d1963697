#include "cli/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include <halfeven/error.hpp>

#include "cli/files.hpp"
#include "cli/values.hpp"

namespace halfeven::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 65'536;  // of a plain array it has some hundred bytes at most
constexpr std::size_t kMaxRank = 64;        // NumPy's own bound

struct TypeCode {
  std::string_view code;
  DType type;
};
constexpr std::array kTypeCodes = {
    TypeCode{"b1", DType::boolean}, TypeCode{"i1", DType::int8},    TypeCode{"i2", DType::int16},
    TypeCode{"i4", DType::int32},   TypeCode{"i8", DType::int64},   TypeCode{"u1", DType::uint8},
    TypeCode{"u2", DType::uint16},  TypeCode{"u4", DType::uint32},  TypeCode{"u8", DType::uint64},
    TypeCode{"f2", DType::float16}, TypeCode{"f4", DType::float32}, TypeCode{"f8", DType::float64}};

[[noreturn]] void fail(const std::string& source, const std::string& what) {
  throw Error(ErrorCode::input, fmt::format("{}: {}", source, what));
}

struct Header {
  DType type = DType::undefined;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

// Reads the header's Python dictionary: exactly the three keys, each once, in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& source) : rest_(text), source_(source) {}

  Header parse() {
    Header header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        parse_descr(header);
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = shape();
        has_shape = true;
      } else {
        bad(fmt::format("unexpected or repeated key '{}'", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) bad("something follows the dictionary");
    if (!has_descr || !has_order || !has_shape) bad("it needs the keys descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const { fail(source_, "malformed .npy header: " + what); }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool accept(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) bad(fmt::format("'{}' expected", c));
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view string() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) bad("a string expected");
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) bad("a string without an end");
    const std::string_view value = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    bad("fortran_order must be True or False");
  }

  std::int64_t dimension() {
    skip_space();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      const int digit = rest_[digits] - '0';
      if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10) bad("a dimension beyond 64 bits");
      value = value * 10 + digit;
    }
    if (digits == 0) bad("a dimension must be a number that is not negative");
    rest_.remove_prefix(digits);
    accept_word("L");  // Python 2 wrote long integers so
    return value;
  }

  Shape shape() {
    Shape result;
    bool comma = false;
    expect('(');
    while (!accept(')')) {
      if (result.size() == kMaxRank) bad(fmt::format("more than {} dimensions", kMaxRank));
      result.push_back(dimension());
      if (!accept(',')) {
        expect(')');
        break;
      }
      comma = true;
    }
    if (result.size() == 1 && !comma) bad("shape must be a tuple");
    return result;
  }

  void parse_descr(Header& header) {
    skip_space();
    if (!rest_.empty() && rest_.front() == '[') fail(source_, "a structured array cannot be an input");
    const std::string_view descr = string();
    const std::string_view code = descr.substr(std::min<std::size_t>(1, descr.size()));
    const auto* entry =
        std::find_if(kTypeCodes.begin(), kTypeCodes.end(), [&](const TypeCode& type) { return type.code == code; });
    const char order = descr.empty() ? '?' : descr.front();
    if (entry == kTypeCodes.end() || std::string_view("<>|=").find(order) == std::string_view::npos ||
        (order == '|' && storage_size(entry->type) != 1)) {
      fail(source_, fmt::format("unsupported element type '{}' (booleans, integers and floats of up to 64 bits are "
                                "read; give bfloat16 as its uint16 bits and float8 as its uint8 bits)",
                                printable(descr)));
    }
    header.type = entry->type;
    header.big_endian = order == '>';
  }

  std::string_view rest_;
  const std::string& source_;
};

// Bytes of the data; refuses products that do not fit. Zeros do not excuse the other dimensions.
std::uint64_t data_bytes(const Header& header, const std::string& source) {
  const std::uint64_t width = storage_size(header.type);
  std::uint64_t product = width;
  bool empty = false;
  for (const std::int64_t dimension : header.shape) {
    if (dimension == 0) {
      empty = true;
      continue;
    }
    const auto factor = static_cast<std::uint64_t>(dimension);
    if (product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor) {
      fail(source, fmt::format("the shape {} is too large", to_string(header.shape)));
    }
    product *= factor;
  }
  return empty ? 0 : product;
}

void swap_bytes(std::vector<std::byte>& data, std::size_t width) {
  for (std::size_t i = 0; i < data.size(); i += width) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i), data.begin() + static_cast<std::ptrdiff_t>(i + width));
  }
}

// First dimension fastest -> last dimension fastest.
std::vector<std::byte> to_c_order(std::span<const std::byte> data, const Shape& shape, std::size_t width) {
  std::vector<std::byte> result(data.size());
  std::vector<std::size_t> stride(shape.size());
  std::size_t step = width;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    stride[d] = step;
    step *= static_cast<std::size_t>(shape[d]);
  }
  Shape index(shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t target = 0; target < result.size(); target += width) {
    std::memcpy(result.data() + target, data.data() + source, width);
    for (std::size_t d = shape.size(); d-- > 0;) {
      source += stride[d];
      if (++index[d] < shape[d]) break;
      source -= stride[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return result;
}

std::uint32_t little_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = (value << 8) | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> file, const std::string& source, const Limits& limits) {
  if (file.size() < kMagic.size() + 2 || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    fail(source, "not a .npy file (it does not begin with \\x93NUMPY)");
  }
  const int major = std::to_integer<int>(file[6]);
  const int minor = std::to_integer<int>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(source, fmt::format("unknown .npy version {}.{} (1.0, 2.0 and 3.0 are read)", major, minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::span<const std::byte> rest = file.subspan(8);
  if (rest.size() < length_bytes) fail(source, "the file ends within its .npy header");
  const std::size_t length = little_endian(rest.first(length_bytes));
  rest = rest.subspan(length_bytes);
  if (length > kMaxHeader) fail(source, fmt::format("a .npy header of {} bytes is too long", length));
  if (length > rest.size()) fail(source, "the file ends within its .npy header");
  const Header header = HeaderParser({reinterpret_cast<const char*>(rest.data()), length}, source).parse();
  rest = rest.subspan(length);

  const std::uint64_t size = data_bytes(header, source);
  const std::string kind = fmt::format("{}{}", to_string(header.type), to_string(header.shape));
  if (size > limits.tensor_bytes) {
    fail(source, fmt::format("{} takes {} bytes, more than the limit of {}", kind, size, limits.tensor_bytes));
  }
  if (size != rest.size()) {
    fail(source, fmt::format("{} takes {} bytes of data, but the file has {}", kind, size, rest.size()));
  }
  const std::size_t width = storage_size(header.type);
  std::vector<std::byte> data = header.fortran_order && header.shape.size() > 1
                                    ? to_c_order(rest, header.shape, width)
                                    : std::vector<std::byte>(rest.begin(), rest.end());
  if (header.big_endian) swap_bytes(data, width);
  if (header.type == DType::boolean) {
    const auto bad = std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != data.end()) {
      fail(source, fmt::format("element {} is {}, no boolean", bad - data.begin(), std::to_integer<int>(*bad)));
    }
  }
  return Tensor::own(header.type, header.shape, std::move(data));
}

Tensor load_npy(const std::filesystem::path& path, const Limits& limits) {
  const std::uint64_t allowance = kMaxHeader + 12;
  const std::uint64_t max_bytes =
      limits.tensor_bytes + std::min(allowance, std::numeric_limits<std::uint64_t>::max() - limits.tensor_bytes);
  return parse_npy(read_file(path, max_bytes), in_quotes(path), limits);
}

std::vector<std::byte> format_npy(const Tensor& tensor) {
  DType type = tensor.dtype();
  if (type == DType::int4 || type == DType::int2) type = DType::int8;
  if (type == DType::uint4 || type == DType::uint2) type = DType::uint8;
  if (type == DType::bfloat16 || is_small_float(type)) return format_npy(widen(tensor));
  const auto* entry =
      std::find_if(kTypeCodes.begin(), kTypeCodes.end(), [&](const TypeCode& code) { return code.type == type; });
  if (entry == kTypeCodes.end()) {
    throw Error(ErrorCode::other, fmt::format("a {} tensor cannot be written as .npy", to_string(type)));
  }

  const std::string shape = fmt::format("{}{}", fmt::join(tensor.shape(), ", "), tensor.rank() == 1 ? "," : "");
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   storage_size(type) == 1 ? '|' : '<', entry->code, shape);
  const std::size_t prefix = kMagic.size() + 4;
  header.resize((prefix + header.size() + 1 + 63) / 64 * 64 - prefix - 1, ' ');
  header += '\n';

  std::string file(kMagic);
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  const auto head = std::as_bytes(std::span(file));
  std::vector<std::byte> result;
  result.reserve(head.size() + tensor.bytes().size());
  result.insert(result.end(), head.begin(), head.end());
  result.insert(result.end(), tensor.bytes().begin(), tensor.bytes().end());
  return result;
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) { write_file(path, format_npy(tensor)); }

}  // namespace halfeven::cli
