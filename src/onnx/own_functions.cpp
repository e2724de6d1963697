#include "onnx/own_functions.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace halfeven::onnx {
namespace {

using ir::ValueId;

constexpr std::size_t kFewestDigits = 8;
constexpr std::size_t kMostDigits = 64;

constexpr std::array kCodes = {DType::uint4, DType::int4, DType::uint8, DType::int8, DType::uint16, DType::int16};
// The first stands for all entries of 8 bits and more, which take the same body.
constexpr std::array kEntries = {DType::int8, DType::uint4, DType::int4, DType::uint2, DType::int2};

class TableBody {
 public:
  explicit TableBody(int opset) : opset_(opset) {}

  ir::Graph make(DType codes, DType entries) {
    body_.name = kTable;
    body_.opsets = {{"", opset_}};
    const ValueId x = value("x");
    ValueId table = value("table");
    body_.inputs = {x, table};
    ValueId index = cast(x, DType::int32, "index");
    if (const std::int64_t least = integer_min(codes); least != 0) {
      const std::array<std::int32_t, 1> number{static_cast<std::int32_t>(least)};
      const ValueId constant = add("Constant", {}, "least");
      body_.nodes.back().attributes.emplace("value", Tensor::of<std::int32_t>(DType::int32, {}, number));
      index = add("Sub", {index, constant}, "position");
    }
    const bool narrow = bits(entries) < 8;
    if (narrow) table = cast(table, is_signed_integer(entries) ? DType::int8 : DType::uint8, "wide_table");
    ValueId y = add("Gather", {table, index}, narrow ? "wide_y" : "y");
    if (narrow) y = cast(y, entries, "y");
    body_.outputs = {y};
    return std::move(body_);
  }

 private:
  ValueId value(const std::string& name) {
    body_.values.push_back({name, DType::undefined, std::nullopt, {}});
    return {static_cast<std::uint32_t>(body_.values.size() - 1)};
  }

  ValueId add(const std::string& op_type, std::vector<ValueId> inputs, const std::string& output) {
    const ValueId id = value(output);
    ir::Node node;
    node.op_type = op_type;
    node.version = opset_;
    node.inputs = std::move(inputs);
    node.outputs = {id};
    body_.nodes.push_back(std::move(node));
    return id;
  }

  ValueId cast(ValueId from, DType to, const std::string& output) {
    const ValueId id = add("Cast", {from}, output);
    body_.nodes.back().attributes.emplace("to", static_cast<std::int64_t>(to));
    return id;
  }

  int opset_;
  ir::Graph body_;
};

}  // namespace

std::string group_function(const std::string& op_type, const std::string& hash, std::size_t digits) {
  return op_type + "_" + hash.substr(0, digits);
}

std::string group_operator(const std::string& function) {
  const std::size_t at = function.rfind('_');
  if (at == std::string::npos || at == 0) return function;
  const std::string_view digits = std::string_view(function).substr(at + 1);
  const bool hash = digits.size() >= kFewestDigits && digits.size() <= kMostDigits &&
                    digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return hash ? function.substr(0, at) : function;
}

std::string table_function(DType codes, DType entries) {
  std::string name = std::string(kTable) + "_" + std::string(to_string(codes));
  if (bits(entries) < 8) name += "_" + std::string(to_string(entries));
  return name;
}

std::optional<ir::Graph> table_body(const std::string& function, int opset) {
  for (const DType codes : kCodes) {
    for (const DType entries : kEntries) {
      if (table_function(codes, entries) == function) return TableBody(opset).make(codes, entries);
    }
  }
  return std::nullopt;
}

}  // namespace halfeven::onnx
