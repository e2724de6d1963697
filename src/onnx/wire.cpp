#include "onnx/wire.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

namespace halfeven::onnx {
namespace {

// ModelProto.graph and GraphProto.node.
constexpr std::uint64_t kGraphField = 7;
constexpr std::uint64_t kNodeField = 1;

// One field of a message: its number, where it starts, and its payload if it is a length-delimited one.
struct WireField {
  std::uint64_t number = 0;
  std::size_t start = 0;
  std::optional<std::span<const std::byte>> payload;
  std::size_t payload_start = 0;
};

// Steps through the fields of one message without descending into them. Groups, which ONNX does not use, count as
// broken.
class FieldReader {
 public:
  FieldReader(std::span<const std::byte> bytes, std::size_t start) : bytes_(bytes), start_(start) {}

  bool at_end() const { return position_ == bytes_.size(); }
  std::size_t position() const { return start_ + position_; }

  // The next field; nullopt if it is broken, with the position left at its start.
  std::optional<WireField> next() {
    const std::size_t before = position_;
    auto field = read();
    if (!field) position_ = before;
    return field;
  }

 private:
  std::optional<WireField> read() {
    WireField field;
    field.start = position();
    const auto key = varint();
    if (!key || *key >> 3 == 0 || *key >> 32 != 0) return std::nullopt;
    field.number = *key >> 3;
    switch (*key & 7) {
      case 0: return varint() ? std::optional(field) : std::nullopt;
      case 1: return skip(8) ? std::optional(field) : std::nullopt;
      case 5: return skip(4) ? std::optional(field) : std::nullopt;
      case 2: break;
      default: return std::nullopt;
    }
    const auto length = varint();
    field.payload_start = position();
    const std::size_t payload = position_;
    if (!length || !skip(*length)) return std::nullopt;
    field.payload = bytes_.subspan(payload, static_cast<std::size_t>(*length));
    return field;
  }

  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && position_ < bytes_.size(); shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(bytes_[position_++]);
      if (shift < 64) value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  bool skip(std::uint64_t count) {
    if (count > bytes_.size() - position_) return false;
    position_ += static_cast<std::size_t>(count);
    return true;
  }

  std::span<const std::byte> bytes_;
  std::size_t start_;
  std::size_t position_ = 0;
};

// Where the outermost broken field starts: in the model, or, if all is well there, in its graph.
std::optional<std::size_t> find_break(std::span<const std::byte> bytes) {
  std::optional<std::size_t> inside_graph;
  FieldReader model(bytes, 0);
  while (!model.at_end()) {
    const auto field = model.next();
    if (!field) return model.position();
    if (field->number != kGraphField || !field->payload || inside_graph) continue;
    FieldReader graph(*field->payload, field->payload_start);
    while (!graph.at_end() && graph.next()) {
    }
    if (!graph.at_end()) inside_graph = graph.position();
  }
  return inside_graph;
}

// An empty node takes two bytes of the file and a hundred in memory, so nodes are counted before they are parsed.
void check_node_count(std::span<const std::byte> bytes, const Limits& limits) {
  std::uint64_t nodes = 0;
  FieldReader model(bytes, 0);
  while (!model.at_end()) {
    const auto field = model.next();
    if (!field) return;  // the parser will say so
    if (field->number != kGraphField || !field->payload) continue;
    FieldReader graph(*field->payload, field->payload_start);
    while (!graph.at_end()) {
      const auto inner = graph.next();
      if (!inner) return;
      nodes += inner->number == kNodeField ? 1 : 0;
    }
  }
  if (nodes > limits.nodes) {
    throw Error(ErrorCode::model,
                fmt::format("the model has {} nodes, more than the limit of {}", nodes, limits.nodes));
  }
}

void check_size(std::span<const std::byte> bytes, const Limits& limits, ErrorCode code) {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();  // of the format itself
  const std::uint64_t limit = std::min(limits.model_bytes, kMost);
  if (bytes.size() > limit) {
    throw Error(code, fmt::format("the file has {} bytes, more than the limit of {}", bytes.size(), limit));
  }
}

// Bytes in parts of a megabyte; says which of them the parser has left behind.
class Parts final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  Parts(std::span<const std::byte> bytes, void (*passed)(std::span<const std::byte>))
      : bytes_(bytes), passed_(passed) {}

  bool Next(const void** data, int* size) override {
    if (passed_ != nullptr) passed_(bytes_.subspan(start_, position_ - start_));
    start_ = position_;
    position_ = std::min(bytes_.size(), position_ + kPart);
    *data = bytes_.data() + start_;
    *size = static_cast<int>(position_ - start_);
    return *size > 0;
  }
  void BackUp(int count) override { position_ -= static_cast<std::size_t>(count); }
  bool Skip(int count) override {
    const std::size_t left = bytes_.size() - position_;
    position_ += std::min(left, static_cast<std::size_t>(count));
    start_ = position_;
    return static_cast<std::size_t>(count) <= left;
  }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(position_); }

 private:
  static constexpr std::size_t kPart = std::size_t{1} << 20;
  std::span<const std::byte> bytes_;
  void (*passed_)(std::span<const std::byte>);
  std::size_t start_ = 0;  // of the part that the parser has
  std::size_t position_ = 0;
};

template <class Message>
bool parse(std::span<const std::byte> bytes, Message& message, void (*passed)(std::span<const std::byte>) = nullptr) {
  Parts parts(bytes, passed);
  google::protobuf::io::CodedInputStream stream(&parts);
  return message.ParsePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

}  // namespace

onnx_schema::ModelProto parse_model(std::span<const std::byte> bytes, const Limits& limits,
                                    void (*passed)(std::span<const std::byte>)) {
  check_size(bytes, limits, ErrorCode::model);
  check_node_count(bytes, limits);
  onnx_schema::ModelProto model;
  if (!parse(bytes, model, passed)) {
    const auto position = find_break(bytes);
    throw Error(
        ErrorCode::model,
        fmt::format("truncated or invalid protobuf: the file has {} bytes{}", bytes.size(),
                    position ? fmt::format(", and the field that starts at byte {} is broken", *position) : ""));
  }
  return model;
}

onnx_schema::TensorProto parse_tensor(std::span<const std::byte> bytes, const Limits& limits) {
  check_size(bytes, limits, ErrorCode::input);
  onnx_schema::TensorProto tensor;
  if (!parse(bytes, tensor)) {
    throw Error(ErrorCode::input,
                fmt::format("truncated or invalid protobuf: the tensor file has {} bytes", bytes.size()));
  }
  return tensor;
}

}  // namespace halfeven::onnx
