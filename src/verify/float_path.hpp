// The onnx-float32 path of contract section 3.3, one node at a time, on the exact path's quantized tensors, with a
// bound on how far each float tensor is from the exact path's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/validate.hpp"

namespace halfeven::verification {

/// Error bounds of a tensor's elements; empty: all zero.
using Errors = std::vector<double>;

inline double error_at(const Errors& errors, std::size_t i) { return errors.empty() ? 0 : errors[i]; }

/// A tensor of the onnx-float32 path. Distances are in the tensor's own unit.
struct Bounded {
  ops::Data value;   ///< rounded to its type
  Errors unrounded;  ///< largest distance of the exact path's unrounded value
  Errors read;       ///< largest distance of what an ordinary reader reads on the exact path
};

/// Half a unit in the last place of the float type at values of up to `magnitude`.
double half_ulp(DType type, double magnitude);

/// Computes nodes with float results under contract section 2. Values that are not floats come from the exact path.
class FloatPath {
 public:
  FloatPath(const ir::Graph& graph, const ops::Facts& facts, int threads)
      : graph_(graph), facts_(facts), threads_(threads) {}

  /// The outputs of one node; absent outputs, and those that are not floats, are null. `inputs` are the node's, null
  /// where absent.
  std::vector<std::shared_ptr<const Bounded>> evaluate(const ir::Node& node,
                                                       const std::vector<std::shared_ptr<const Bounded>>& inputs) const;

  /// The operator applied to the values alone, as section 2 has it.
  std::vector<ops::Data> apply(const ir::Node& node, const std::vector<std::shared_ptr<const Bounded>>& inputs) const;

 private:
  const ir::Graph& graph_;
  const ops::Facts& facts_;
  int threads_;
};

}  // namespace halfeven::verification
