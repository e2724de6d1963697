// Domain "halfeven" in files: groups and tables are local functions there, whose bodies say what they mean to runtimes
// that do not know them.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.hpp"

namespace halfeven::onnx {

inline constexpr const char* kOwnDomain = "halfeven";
inline constexpr int kOwnVersion = 1;
inline constexpr const char* kTable = "Table";

/// A group's function: the operator and the first `digits` digits of the body's hash: "QConv_0123abcd".
std::string group_function(const std::string& op_type, const std::string& hash, std::size_t digits);
/// The operator that a function of that name stands for; a name without digits is one itself.
std::string group_operator(const std::string& function);

/// The function that stands for Table with codes of one type and entries of another: "Table_uint8". Entries of less
/// than 8 bits have functions of their own, since Gather does not take them: "Table_uint8_int4".
std::string table_function(DType codes, DType entries);
/// The body of that function in standard operators of version `opset`: Gather(table, Cast(x) - least code). nullopt if
/// the name is none that table_function gives.
std::optional<ir::Graph> table_body(const std::string& function, int opset);

}  // namespace halfeven::onnx
