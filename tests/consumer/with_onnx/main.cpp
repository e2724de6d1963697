// Reads a model by libonnx and by halfeven, and compares the number of nodes: with_onnx MODEL
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <halfeven/halfeven.hpp>

#include <cstddef>
#include <fstream>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  onnx::ModelProto proto;
  std::ifstream file(argv[1], std::ios::binary);
  if (!proto.ParseFromIstream(&file)) return 3;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema("Conv");

  std::size_t nodes = 0;
  for (const halfeven::OperatorCount& count : halfeven::Model::load(argv[1]).summary().operators) nodes += count.count;
  std::cout << "libonnx: " << proto.graph().node_size() << " nodes, halfeven: " << nodes << " nodes\n";
  return schema != nullptr && nodes == static_cast<std::size_t>(proto.graph().node_size()) ? 0 : 1;
}
