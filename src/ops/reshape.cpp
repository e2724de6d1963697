// Operators that leave the elements where they are: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout
// (inference). All pass on (contract section 1, rule 4).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

std::vector<Data> reshaped(const EvalContext& c) { return {reshape(c.input(0), c.result_shape())}; }

// --- Reshape ---------------------------------------------------------------------------------------------------------

// The request with 0 replaced by the input's dimension and -1 by what is left over. Dimensions that a 0 copies take no
// part in the division: they cancel, even where they are not known.
Shape resolve(const InferContext& c, const std::vector<std::int64_t>& request, const std::optional<Shape>& input) {
  const bool zero_is_zero = c.get_int("allowzero", 0) != 0;
  Shape out = request;
  Shape remaining = input.value_or(Shape{kUnknownDim});  // what the copied dimensions leave
  std::optional<std::size_t> open;
  std::int64_t divisor = 1;
  bool divisor_known = true;
  for (std::size_t k = 0; k < request.size(); ++k) {
    if (request[k] < -1) c.fail(fmt::format("dimension {} of the shape is {}", k, request[k]));
    if (request[k] == -1) {
      if (open) c.fail(fmt::format("only one dimension can be -1, but the shape holds it at {} and {}", *open, k));
      open = k;
      continue;
    }
    if (request[k] == 0 && !zero_is_zero) {
      if (!input) {
        out[k] = kUnknownDim;
        divisor_known = false;
        continue;
      }
      if (k >= input->size()) {
        c.fail(fmt::format("dimension {} of the shape is 0 (copy), but the input {} has rank {}", k, to_string(*input),
                           input->size()));
      }
      out[k] = (*input)[k];
      remaining[k] = 1;
    } else {
      divisor = multiply_sizes(c, divisor, request[k]);
    }
  }
  const auto misfit = [&] {
    c.fail(fmt::format("the input {} cannot take the shape [{}]", input ? to_string(*input) : "?",
                       fmt::join(request, ", ")));
  };
  if (open && zero_is_zero && divisor == 0) c.fail("a shape with -1 and 0 is ambiguous when allowzero is set");
  const std::int64_t total = dim_product(c, remaining, 0, remaining.size());
  const bool known = total >= 0 && divisor_known;
  if (open) out[*open] = kUnknownDim;
  if (!known) return out;
  if (open) {
    if (divisor == 0 || total % divisor != 0) misfit();
    out[*open] = total / divisor;
  } else if (total != divisor) {
    // A copied zero makes both sides empty, whatever the rest says.
    const bool empty =
        input && dim_product(c, *input, 0, input->size()) == 0 && dim_product(c, out, 0, out.size()) == 0;
    if (!empty) misfit();
  }
  return out;
}

std::vector<TypeShape> infer_reshape(const InferContext& c) {
  const std::int64_t rank = list_length(c, 1);
  if (const auto request = c.constant_ints(1)) return {{c.dtype(0), resolve(c, *request, c.shape(0))}};
  if (rank < 0) return {{c.dtype(0), std::nullopt}};
  if (rank > 64) c.fail(fmt::format("a shape of rank {} is not supported", rank));
  return {{c.dtype(0), Shape(static_cast<std::size_t>(rank), kUnknownDim)}};
}

// --- Flatten, Squeeze, Unsqueeze -------------------------------------------------------------------------------------

std::vector<TypeShape> infer_flatten(const InferContext& c) {
  if (!c.shape(0)) return {{c.dtype(0), Shape{kUnknownDim, kUnknownDim}}};
  const Shape& in = *c.shape(0);
  const auto rank = static_cast<std::int64_t>(in.size());
  const std::int64_t axis = c.get_int("axis", 1);
  if (axis < -rank || axis > rank) {
    c.fail(fmt::format("axis {} is invalid for a rank-{} input (allowed {}..{})", axis, rank, -rank, rank));
  }
  const auto split = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return {{c.dtype(0), Shape{dim_product(c, in, 0, split), dim_product(c, in, split, in.size())}}};
}

struct Axes {
  bool given = false;                               // false: the operator decides
  std::optional<std::vector<std::int64_t>> values;  // nullopt: given, but not known yet
};

// An attribute before version 13, an input since.
Axes read_axes(const InferContext& c) {
  if (c.version() < 13) return {c.has_attribute("axes"), c.get_ints("axes", {})};
  if (!c.has_input(1)) return {};
  c.require_type(1, {DType::int64});
  c.require_rank(1, 0, 1);
  return {true, c.constant_ints(1)};
}

std::vector<TypeShape> infer_squeeze(const InferContext& c) {
  const Axes axes = read_axes(c);
  const auto& in = c.shape(0);
  if (!in || (axes.given && !axes.values)) return {{c.dtype(0), std::nullopt}};
  std::vector<bool> drop(in->size(), false);
  if (axes.given) {
    for (const std::size_t a : normalize_axes(c, *axes.values, in->size())) {
      const std::int64_t n = (*in)[a];
      if (n >= 0 && n != 1) c.fail(fmt::format("axis {} of the input {} is not 1", a, to_string(*in)));
      drop[a] = true;
    }
  } else {
    for (std::size_t k = 0; k < in->size(); ++k) {
      if ((*in)[k] < 0) return {{c.dtype(0), std::nullopt}};
      drop[k] = (*in)[k] == 1;
    }
  }
  Shape out;
  for (std::size_t k = 0; k < in->size(); ++k) {
    if (!drop[k]) out.push_back((*in)[k]);
  }
  return {{c.dtype(0), out}};
}

std::vector<TypeShape> infer_unsqueeze(const InferContext& c) {
  const Axes axes = read_axes(c);
  if (!axes.given) c.fail(c.version() < 13 ? "attribute 'axes' is missing" : "input 1 (axes) is missing");
  const auto& in = c.shape(0);
  if (!in || !axes.values) return {{c.dtype(0), std::nullopt}};
  const std::size_t rank = in->size() + axes.values->size();
  std::vector<bool> fresh(rank, false);
  for (const std::size_t a : normalize_axes(c, *axes.values, rank)) fresh[a] = true;
  Shape out;
  std::size_t next = 0;
  for (std::size_t k = 0; k < rank; ++k) out.push_back(fresh[k] ? 1 : (*in)[next++]);
  return {{c.dtype(0), out}};
}

// --- Identity, Dropout -----------------------------------------------------------------------------------------------

std::vector<Data> identity(const EvalContext& c) { return {c.input(0)}; }

// Outputs: the data; the mask (boolean since version 10, before that of the data's type).
std::vector<TypeShape> infer_dropout(const InferContext& c) {
  c.require_float(0);
  std::vector<TypeShape> out{c.type(0)};
  if (c.outputs() > 1) out.push_back({c.version() < 10 ? c.dtype(0) : DType::boolean, c.shape(0)});
  return out;
}

std::vector<Data> dropout(const EvalContext& c) {
  const bool training = c.version() >= 12 && c.has_input(2) && c.input(2).size() > 0 && c.ints(2)[0] != 0;
  const bool drops = !c.has_input(1) || c.input(1).size() == 0 || numerics::sign(*c.reals(1), 0) != 0;
  if (training && drops) c.fail("training_mode = true is not supported");
  std::vector<Data> out{c.input(0)};
  if (c.outputs() > 1) {
    const std::size_t n = c.input(0).size();
    if (c.result_type(1) == DType::boolean) {
      out.emplace_back(Tensor::own(DType::boolean, c.result_shape(1), std::vector<std::byte>(n, std::byte{1})));
    } else {
      out.emplace_back(numerics::make_elements(
          c.result_type(1), c.result_shape(1), c.threads(),
          []<class N>(std::size_t, std::type_identity<N>) -> N { return numerics::number<N>(1.0); }));
    }
  }
  return out;
}

}  // namespace

std::vector<Operator> reshape_operators() {
  return {
      {"", "Reshape", {5, 13, 14, 19, 21, 23, 24, 25}, 2, 2, 1, infer_reshape, reshaped, PassOn::first},
      {"", "Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, 1, 1, 1, infer_flatten, reshaped, PassOn::first},
      {"", "Squeeze", {1, 11, 13, 21, 23, 24, 25}, 1, 2, 1, infer_squeeze, reshaped, PassOn::first},
      {"", "Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, 1, 2, 1, infer_unsqueeze, reshaped, PassOn::first},
      {"", "Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, 1, 1, 1, infer_same, identity, PassOn::first},
      {"", "Dropout", {7, 10, 12, 13, 22}, 1, 3, 2, infer_dropout, dropout, PassOn::first},
  };
}

}  // namespace halfeven::ops
