// `halfeven run --check`: the same inputs again, under other circumstances.
#pragma once

#include <string>
#include <vector>

#include <halfeven/halfeven.hpp>

#include "cli/values.hpp"

namespace halfeven::cli {

struct CheckResult {
  Contract contract = Contract::exact;  ///< of the run that was repeated
  int repeat_threads = 1;
  bool repeat_same_form = true;  ///< types and shapes of the repetition agree
  Difference repeat;             ///< must have no bit

  Contract other = Contract::onnx_float32;
  std::string other_error;  ///< why the other contract gives no answer; empty if it does
  bool other_same_form = true;
  Difference other_difference;  ///< reported, not judged

  bool passed() const { return repeat_same_form && repeat.bits == 0; }
  /// "cross-checked: exact run repeated on 1 thread, 0 of 64 bits differ; onnx-float32 differs in 1 of 2 values ..."
  std::string text() const;
};

/// Repeats a run that gave `outputs` on one thread (on two, if `threads` is 1) and under the other contract.
CheckResult cross_check(const Model& model, const NamedTensors& inputs, const std::vector<Tensor>& outputs,
                        Contract contract, int threads, const Progress& progress = {});

}  // namespace halfeven::cli
