// What a step of a plan runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace halfeven::plan {

/// How a rank-4 (rank-3) tensor lies in memory.
enum class Layout : std::uint8_t {
  plain,          ///< as ONNX has it: N, C, H, W
  channels_last,  ///< N, H, W, C
};

/// Runs f(begin, end) on pieces of [0, n).
using ParallelFor = std::function<void(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& f)>;

/// Memory that a step works on. Pointers are as many as the node's inputs and outputs; absent ones are null.
struct Buffers {
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  std::byte* scratch;  ///< Kernel::scratch bytes, 64-byte aligned
};

/// A prepared operation: weights packed, parameters proved. Immutable; several threads may run it at once on different
/// buffers.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const Buffers& buffers, const ParallelFor& parallel) const = 0;

  std::string name;                ///< "conv.avx512_vnni"
  std::string note;                ///< requantise variant, accumulator range ...
  std::size_t scratch = 0;         ///< bytes
  std::vector<Layout> in_layouts;  ///< what each input has to be in
  std::vector<bool> any_layout;    ///< inputs that are taken in both; then in_layouts says in which they come
  Layout out_layout = Layout::plain;
};

/// Instruction sets, each including the ones before it.
enum class Isa : std::uint8_t { portable, avx512_vnni };

/// The best one that this processor has.
Isa detect_isa();

/// What a factory gives: a kernel, or why not.
struct Offer {
  std::unique_ptr<Kernel> kernel;
  std::string refusal;
};

/// What a factory may ask: the graph with concrete types and shapes, and in which layout each value lies.
struct Site {
  const ir::Graph& graph;
  const ir::Node& node;
  Isa isa;
  const std::vector<Layout>& layouts;  ///< by ValueId

  const Tensor* constant(ir::ValueId id) const;
  const Shape& shape(ir::ValueId id) const { return *graph.value(id).shape; }
  Layout layout(ir::ValueId id) const { return layouts[id.index]; }
};

Offer make_conv(const Site& site);      ///< QLinearConv, QConv, QGemm
Offer make_binary(const Site& site);    ///< QAdd, QMul of two tensors
Offer make_pool(const Site& site);      ///< MaxPool, QGlobalAveragePool
Offer make_lookup(const Site& site);    ///< Table
Offer make_quantize(const Site& site);  ///< QuantizeLinear of a float32 input
Offer make_view(const Site& site);      ///< Reshape, Flatten ... of tensors whose elements stay where they are

}  // namespace halfeven::plan
