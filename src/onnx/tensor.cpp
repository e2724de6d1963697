#include "onnx/tensor.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"

namespace halfeven::onnx {
namespace {

using onnx_schema::TensorProto;

static_assert(std::endian::native == std::endian::little, "tensors are little endian in memory, as in the file");

constexpr std::int32_t kExternal = 1;  // TensorProto.data_location

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::model, message); }

std::string dims_text(const Shape& dims) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (std::size_t i = 0; i < dims.size() && i < kMost; ++i) text += (i > 0 ? " x " : "") + std::to_string(dims[i]);
  return dims.size() > kMost ? text + " x ..." : text;
}

// Number of elements, unless 63 bits cannot count them.
std::optional<std::size_t> count_elements(const Shape& dims) {
  try {
    return element_count(dims);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// How many things each field holds, for messages and to see which one is in use.
struct Field {
  const char* name;
  std::size_t entries;
};

std::vector<Field> fields_in_use(const TensorProto& proto) {
  const auto count = [](int n) { return static_cast<std::size_t>(n); };
  std::vector<Field> fields = {{"float_data", count(proto.float_data_size())},
                               {"int32_data", count(proto.int32_data_size())},
                               {"string_data", count(proto.string_data_size())},
                               {"int64_data", count(proto.int64_data_size())},
                               {"raw_data", proto.raw_data().size()},
                               {"double_data", count(proto.double_data_size())},
                               {"uint64_data", count(proto.uint64_data_size())}};
  std::erase_if(fields, [](const Field& field) { return field.entries == 0; });
  return fields;
}

std::string holdings(const TensorProto& proto) {
  if (proto.data_location() == kExternal) return "its data in an external file";
  const std::vector<Field> fields = fields_in_use(proto);
  if (fields.empty()) return "no data";
  if (std::string(fields[0].name) == "raw_data") return fmt::format("{} bytes of data", fields[0].entries);
  return fmt::format("{} entries of {}", fields[0].entries, fields[0].name);
}

// What a check of dimensions and data needs to know about the tensor.
struct Layout {
  DType type;
  Shape dims;
  std::size_t elements;
  std::size_t packed_bytes;  // as ONNX packs them
};

Layout check_layout(const TensorProto& proto, const std::string& what, const Limits& limits) {
  const DType type = decode_type(proto.data_type(), what);
  if (storage_size(type) == 0) {
    fail(fmt::format("{} has element type {}, which is not supported", what, to_string(type)));
  }
  if (proto.has_segment()) fail(fmt::format("{} is a segment of a larger tensor, which is not supported", what));
  Shape dims(proto.dims().begin(), proto.dims().end());
  for (const std::int64_t dim : dims) {
    if (dim < 0) fail(fmt::format("{} has a negative dimension: {}", what, dims_text(dims)));
  }
  const std::optional<std::size_t> elements = count_elements(dims);
  if (!elements) {
    fail(fmt::format("{} declares {} elements, more than can exist, but holds {}", what, dims_text(dims),
                     holdings(proto)));
  }
  if (*elements > limits.tensor_bytes / storage_size(type)) {
    fail(fmt::format("{} declares {} elements of {}, more than the limit of {} bytes for one tensor; it holds {}", what,
                     dims_text(dims), to_string(type), limits.tensor_bytes, holdings(proto)));
  }
  const auto element_bits = static_cast<std::size_t>(bits(type));
  const std::size_t packed_bytes = element_bits < 8
                                       ? *elements / (8 / element_bits) + (*elements % (8 / element_bits) != 0)
                                       : *elements * (element_bits / 8);
  return {type, std::move(dims), *elements, packed_bytes};
}

[[noreturn]] void fail_on_count(const Layout& layout, const TensorProto& proto, const std::string& what) {
  fail(fmt::format("{} declares {} elements of {} ({}), {} bytes, but holds {}", what, layout.elements,
                   to_string(layout.type), to_string(layout.dims), layout.packed_bytes, holdings(proto)));
}

std::vector<std::byte> unpack(const Layout& layout, std::span<const std::byte> packed) {
  const int width = bits(layout.type);
  const std::size_t per_byte = 8 / static_cast<std::size_t>(width);
  const unsigned mask = (1U << width) - 1;
  const unsigned sign = is_signed_integer(layout.type) ? 1U << (width - 1) : 0;
  std::vector<std::byte> elements(layout.elements);
  for (std::size_t i = 0; i < layout.elements; ++i) {
    const auto shift = static_cast<unsigned>(i % per_byte) * static_cast<unsigned>(width);
    const unsigned code = (std::to_integer<unsigned>(packed[i / per_byte]) >> shift) & mask;
    elements[i] = static_cast<std::byte>((code ^ sign) - sign);
  }
  return elements;
}

void check_booleans(const Layout& layout, std::span<const std::byte> bytes, const std::string& what) {
  if (layout.type != DType::boolean) return;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (std::to_integer<int>(bytes[i]) > 1) {
      fail(fmt::format("element {} of {} is {}, which is not a bool", i, what, std::to_integer<int>(bytes[i])));
    }
  }
}

// `bytes` as a tensor; without a copy where they lie as the tensor needs them.
Tensor from_packed_bytes(const Layout& layout, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                         const std::string& what) {
  check_booleans(layout, bytes, what);
  if (bits(layout.type) < 8) return Tensor::own(layout.type, layout.dims, unpack(layout, bytes));
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % storage_size(layout.type) == 0;
  if (!aligned) return Tensor::copy(layout.type, layout.dims, bytes);
  return Tensor::view(layout.type, layout.dims, bytes, std::move(owner));
}

Tensor from_raw_data(const Layout& layout, TensorProto& proto, const std::string& what) {
  if (proto.raw_data().size() != layout.packed_bytes) fail_on_count(layout, proto, what);
  const auto owner = std::make_shared<const std::string>(std::move(*proto.mutable_raw_data()));
  return from_packed_bytes(layout, std::as_bytes(std::span(*owner)), owner, what);
}

// Entries that are the elements themselves.
template <class Entries>
Tensor from_entries(const Layout& layout, const Entries& entries, const TensorProto& proto, const std::string& what) {
  if (static_cast<std::size_t>(entries.size()) != layout.elements) fail_on_count(layout, proto, what);
  return Tensor::copy(layout.type, layout.dims, std::as_bytes(std::span(entries.data(), layout.elements)));
}

// Entries wider than the element. Integers have to be in the type's range; bit patterns (floats, packed elements) may
// have been written as signed or unsigned ones.
template <class Entries>
std::vector<std::byte> narrow(const Layout& layout, const Entries& entries, std::size_t width,
                              const std::string& what) {
  const bool is_number = is_integer(layout.type) && bits(layout.type) >= 8;
  const std::int64_t pattern_end = std::int64_t{1} << (8 * width);
  const std::int64_t least = is_number ? integer_min(layout.type) : -pattern_end / 2;
  const std::int64_t greatest = is_number ? integer_max(layout.type) : pattern_end - 1;
  std::vector<std::byte> bytes(static_cast<std::size_t>(entries.size()) * width);
  for (int i = 0; i < entries.size(); ++i) {
    const auto entry = entries.Get(i);
    if (std::cmp_less(entry, least) || std::cmp_greater(entry, greatest)) {
      fail(fmt::format("entry {} of {} is {}, which does not fit {}", i, what, entry, to_string(layout.type)));
    }
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, &entry, width);
  }
  return bytes;
}

Tensor from_int32_data(const Layout& layout, const TensorProto& proto, const std::string& what) {
  const std::size_t width = bits(layout.type) < 8 ? 1 : storage_size(layout.type);
  if (static_cast<std::size_t>(proto.int32_data_size()) != layout.packed_bytes / width) {
    fail_on_count(layout, proto, what);
  }
  const auto bytes = std::make_shared<const std::vector<std::byte>>(narrow(layout, proto.int32_data(), width, what));
  return from_packed_bytes(layout, *bytes, bytes, what);
}

Tensor from_typed_data(const Layout& layout, const TensorProto& proto, const std::string& what) {
  switch (layout.type) {
    case DType::float32: return from_entries(layout, proto.float_data(), proto, what);
    case DType::float64: return from_entries(layout, proto.double_data(), proto, what);
    case DType::int32: return from_entries(layout, proto.int32_data(), proto, what);
    case DType::int64: return from_entries(layout, proto.int64_data(), proto, what);
    case DType::uint64: return from_entries(layout, proto.uint64_data(), proto, what);
    case DType::uint32: {
      if (static_cast<std::size_t>(proto.uint64_data_size()) != layout.elements) fail_on_count(layout, proto, what);
      return Tensor::own(layout.type, layout.dims, narrow(layout, proto.uint64_data(), 4, what));
    }
    default: return from_int32_data(layout, proto, what);
  }
}

}  // namespace

DType decode_type(std::int32_t number, const std::string& what) {
  if (number < 0 || number > static_cast<std::int32_t>(DType::int2)) {
    fail(fmt::format("{} has element type number {}, which is not known", what, number));
  }
  return static_cast<DType>(number);
}

Tensor decode_tensor(TensorProto& proto, const std::string& what, const Limits& limits, ExternalData& external) {
  const Layout layout = check_layout(proto, what, limits);
  const std::vector<Field> fields = fields_in_use(proto);
  if (proto.data_location() == kExternal) {
    if (!fields.empty()) fail(fmt::format("{} holds {} besides its external data", what, fields[0].name));
    const ExternalBytes part = external.read(proto, layout.packed_bytes, what);
    return from_packed_bytes(layout, part.bytes, part.owner, what);
  }
  if (proto.data_location() != 0) {
    fail(fmt::format("{} has data location {}, which is not known", what, proto.data_location()));
  }
  if (fields.size() > 1) {
    fail(fmt::format("{} holds data twice: in {} and in {}", what, fields[0].name, fields[1].name));
  }
  return proto.has_raw_data() && (fields.empty() || !proto.raw_data().empty()) ? from_raw_data(layout, proto, what)
                                                                               : from_typed_data(layout, proto, what);
}

}  // namespace halfeven::onnx
