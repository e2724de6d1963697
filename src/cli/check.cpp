#include "cli/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfeven::cli {
namespace {

// False if a type or shape differs: then there is nothing to count.
bool compare_all(const std::vector<Tensor>& a, const std::vector<Tensor>& b, Difference& sum) {
  const auto same_form = [](const Tensor& left, const Tensor& right) {
    return left.dtype() == right.dtype() && left.shape() == right.shape();
  };
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), same_form)) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Difference difference = compare(a[i], b[i]);
    sum.bits += difference.bits;
    sum.total_bits += difference.total_bits;
    sum.values += difference.values;
    sum.total_values += difference.total_values;
    if (std::isnan(difference.largest) || difference.largest > sum.largest) sum.largest = difference.largest;
  }
  return true;
}

}  // namespace

std::string CheckResult::text() const {
  std::string line = fmt::format("cross-checked: {} run repeated on {} thread{}, ", to_string(contract), repeat_threads,
                                 repeat_threads == 1 ? "" : "s");
  line += repeat_same_form ? fmt::format("{} of {} bits differ; ", repeat.bits, repeat.total_bits)
                           : "types or shapes differ; ";
  line += to_string(other);
  if (!other_error.empty()) return line + fmt::format(" gives no answer ({})", other_error);
  if (!other_same_form) return line + " differs in a type or shape";
  line += fmt::format(" differs in {} of {} values", other_difference.values, other_difference.total_values);
  if (other_difference.values > 0) line += fmt::format(" (largest difference {:.6g})", other_difference.largest);
  return line;
}

CheckResult cross_check(const Model& model, const NamedTensors& inputs, const std::vector<Tensor>& outputs,
                        Contract contract, int threads, const Progress& progress) {
  CheckResult result;
  result.contract = contract;
  result.repeat_threads = threads == 1 ? 2 : 1;
  InterpretOptions options;
  options.contract = contract;
  options.threads = result.repeat_threads;
  options.progress = progress;
  result.repeat_same_form = compare_all(outputs, interpret(model, inputs, options), result.repeat);

  result.other = contract == Contract::exact ? Contract::onnx_float32 : Contract::exact;
  options.contract = result.other;
  options.threads = threads;
  try {
    result.other_same_form = compare_all(outputs, interpret(model, inputs, options), result.other_difference);
  } catch (const Error& error) {
    result.other_error = error.what();
  }
  return result;
}

}  // namespace halfeven::cli
