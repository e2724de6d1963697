// Contract section 3.3: the exact contract against onnx-float32, group by group.
#pragma once

#include "verify/passes_check.hpp"

namespace halfeven::verification {

struct ContractsReport {
  std::vector<GroupCheck> groups;
  std::vector<OutputDrift> in_groups;
  std::vector<OutputDrift> whole;
  std::string note;
};

/// Runs the graph under both contracts on each input set, the second one on the first one's quantized tensors (and,
/// for information, once more on its own). Groups that are nodes with a body are opened up first.
ContractsReport check_contracts(const ir::Graph& graph, const std::vector<InputSet>& inputs,
                                const CheckOptions& options);

/// A quantized element under both contracts.
struct Flip {
  numerics::Approx quotient;  ///< exact path's value / scale, as a double with a bound
  double exact_value = 0;     ///< quantized, without zero point
  double float32_value = 0;
  bool one_step = false;  ///< apart
  double bound = 0;       ///< of the float32 quotient's error
};

/// Distance of the exact quotient from the tie between the two values, and whether the bound reaches it.
/// `exact_quotient` is asked where the doubles do not decide.
struct Certificate {
  double distance = 0;
  bool certified = false;
};
Certificate certify(const Flip& flip, const std::function<numerics::Real()>& exact_quotient);

}  // namespace halfeven::verification
