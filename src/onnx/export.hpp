// Writing graphs as ONNX files.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.hpp"

namespace halfeven::onnx {

/// The graph as a ModelProto: what import_model() reads back as a graph of the same structural hash, and that one's
/// export has the same bytes. Groups and tables become local functions of domain "halfeven", one for each distinct
/// body. Equal graphs give equal bytes. Throws Error{other} for what a file cannot say: operators of one domain in two
/// versions, a group within a group, more than 2 GiB.
std::vector<std::byte> export_model(const ir::Graph& graph);

}  // namespace halfeven::onnx
