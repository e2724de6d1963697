#include "ops/operator.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/common.hpp"

namespace halfeven::ops {

Data::Data(Tensor t) {
  if (is_float(t.dtype())) {
    reals = numerics::make_floats(t);
  } else {
    tensor = std::move(t);
  }
}

void NodeReader::fail(const std::string& message) const {
  throw Error(ErrorCode::model, ir::describe(graph_, node_) + ": " + message, ir::label(graph_, node_));
}

void NodeReader::fail_input(const std::string& message) const {
  throw Error(ErrorCode::input, ir::describe(graph_, node_) + ": " + message, ir::label(graph_, node_));
}

template <class T>
const T* NodeReader::attribute(const std::string& name, const char* kind) const {
  const auto at = node_.attributes.find(name);
  if (at == node_.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&at->second);
  if (value == nullptr) fail(fmt::format("attribute '{}' must be {}", name, kind));
  return value;
}

std::int64_t NodeReader::get_int(const std::string& name, std::int64_t otherwise) const {
  const auto* v = attribute<std::int64_t>(name, "an integer");
  return v == nullptr ? otherwise : *v;
}

float NodeReader::get_float(const std::string& name, float otherwise) const {
  const auto* v = attribute<float>(name, "a float");
  return v == nullptr ? otherwise : *v;
}

std::string NodeReader::get_string(const std::string& name, const std::string& otherwise) const {
  const auto* v = attribute<std::string>(name, "a string");
  return v == nullptr ? otherwise : *v;
}

std::vector<std::int64_t> NodeReader::get_ints(const std::string& name, std::vector<std::int64_t> otherwise) const {
  const auto* v = attribute<std::vector<std::int64_t>>(name, "a list of integers");
  if (v != nullptr) otherwise = *v;
  return otherwise;
}

std::vector<float> NodeReader::get_floats(const std::string& name, std::vector<float> otherwise) const {
  const auto* v = attribute<std::vector<float>>(name, "a list of floats");
  if (v != nullptr) otherwise = *v;
  return otherwise;
}

std::optional<Tensor> NodeReader::get_tensor(const std::string& name) const {
  const auto* v = attribute<Tensor>(name, "a tensor");
  return v == nullptr ? std::nullopt : std::optional(*v);
}

std::optional<std::vector<std::int64_t>> InferContext::constant_ints(std::size_t i) const {
  if (!has_input(i) || !constants_[i]) return std::nullopt;
  if (!is_integer(constants_[i]->dtype()) && constants_[i]->dtype() != DType::boolean) {
    fail(fmt::format("input {} '{}' must hold integers, not {}", i, input_name(i), to_string(constants_[i]->dtype())));
  }
  return integers(*constants_[i]);
}

std::optional<std::vector<double>> InferContext::constant_floats(std::size_t i) const {
  if (!has_input(i) || !constants_[i]) return std::nullopt;
  const Tensor& t = *constants_[i];
  if (!is_float(t.dtype())) {
    fail(fmt::format("input {} '{}' must hold floats, not {}", i, input_name(i), to_string(t.dtype())));
  }
  std::vector<double> values(t.size());
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = numerics::decode_float(t.dtype(), t.data(), k);
  return values;
}

void InferContext::require_type(std::size_t i, std::initializer_list<DType> allowed) const {
  if (!has_input(i)) return;
  if (std::find(allowed.begin(), allowed.end(), dtype(i)) != allowed.end()) return;
  std::string names;
  for (DType t : allowed) names += (names.empty() ? "" : ", ") + std::string(to_string(t));
  fail(fmt::format("input {} '{}' has type {}; served are {}", i, input_name(i), to_string(dtype(i)), names));
}

void InferContext::require_float(std::size_t i) const {
  require_type(i, {DType::float32, DType::float16, DType::bfloat16, DType::float64});
}

void InferContext::require_same_type(std::size_t i, std::size_t j) const {
  if (!has_input(i) || !has_input(j) || dtype(i) == dtype(j)) return;
  fail(fmt::format("inputs '{}' and '{}' must have the same type ({} and {})", input_name(i), input_name(j),
                   to_string(dtype(i)), to_string(dtype(j))));
}

std::optional<std::size_t> InferContext::require_rank(std::size_t i, std::size_t least, std::size_t most) const {
  if (!has_input(i) || !shape(i)) return std::nullopt;
  const std::size_t rank = shape(i)->size();
  if (rank < least || rank > most) {
    fail(fmt::format("input {} '{}' has shape {}; its rank must be {}", i, input_name(i), to_string(*shape(i)),
                     least == most ? std::to_string(least) : fmt::format("{} or more", least)));
  }
  return rank;
}

Tensor EvalContext::tensor(std::size_t i) const {
  const Data& d = inputs_[i];
  return d.reals ? numerics::round_tensor(*d.reals, d.reals->dtype(), threads_) : d.tensor;
}

std::vector<std::int64_t> EvalContext::ints(std::size_t i) const { return integers(inputs_[i].tensor); }

}  // namespace halfeven::ops
