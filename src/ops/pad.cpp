// Pad (ai.onnx 2: attributes; 11: inputs; 18: axes; 19: wrap): passes on (contract section 1, rule 4). Negative pads
// remove elements; this comes first, then the rest is padded.
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

struct Pads {
  std::vector<std::int64_t> before, after;  // per axis of the data
};

// The pads along each axis; nullopt where they are not known.
template <class Context>
std::optional<Pads> read_pads(const Context& c, std::size_t rank) {
  std::optional<std::vector<std::int64_t>> flat;
  if (c.version() < 11) {
    if (!c.has_attribute("pads")) c.fail("attribute 'pads' is missing");
    flat = c.get_ints("pads", {});
  } else {
    flat = known_ints(c, 1);
  }
  std::vector<std::int64_t> every(rank);
  for (std::size_t k = 0; k < rank; ++k) every[k] = static_cast<std::int64_t>(k);
  std::optional<std::vector<std::int64_t>> axes = every;
  if (c.has_input(3)) axes = known_ints(c, 3);
  if (!flat || !axes) return std::nullopt;
  const std::vector<std::size_t> where = normalize_axes(c, *axes, rank);
  if (flat->size() != 2 * where.size()) {
    c.fail(fmt::format("{} pads are given for {} axes; each axis needs two", flat->size(), where.size()));
  }
  Pads pads{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 0)};
  for (std::size_t k = 0; k < where.size(); ++k) {
    pads.before[where[k]] = (*flat)[k];
    pads.after[where[k]] = (*flat)[k + where.size()];
  }
  return pads;
}

std::vector<TypeShape> infer(const InferContext& c) {
  if (c.version() >= 11) list_length(c, 1);
  if (c.has_input(3)) list_length(c, 3);
  c.require_same_type(0, 2);
  const std::string mode = c.get_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && (mode != "wrap" || c.version() < 19)) {
    c.fail(fmt::format("mode '{}' is not supported", mode));
  }
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  Shape out = *c.shape(0);
  const auto pads = read_pads(c, out.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!pads) {
      out[k] = kUnknownDim;
    } else if (out[k] >= 0) {
      const std::int64_t n = out[k];
      out[k] = add_sizes(c, add_sizes(c, n, pads->before[k]), pads->after[k]);
      if (out[k] < 0) {
        c.fail(fmt::format("pads {} and {} remove more than axis {} of length {} has", pads->before[k], pads->after[k],
                           k, n));
      }
    }
  }
  return {{c.dtype(0), out}};
}

// For each position along one axis of the output the position in the input, -1 for the constant.
std::vector<std::int64_t> sources_along(const NodeReader& node, const std::string& mode, std::int64_t n,
                                        std::int64_t before, std::int64_t after, std::int64_t out) {
  const std::int64_t first = std::clamp<std::int64_t>(before < 0 ? -before : 0, 0, n);
  const std::int64_t kept = std::max<std::int64_t>(n - first - (after < 0 ? -after : 0), 0);
  std::vector<std::int64_t> from(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) {
    std::int64_t at = i - std::max<std::int64_t>(before, 0);  // among the elements kept
    if (at < 0 || at >= kept) {
      if (mode == "constant") {
        from[static_cast<std::size_t>(i)] = -1;
        continue;
      }
      if (kept == 0) node.fail_input(fmt::format("mode '{}' has no elements to repeat", mode));
      if (mode == "edge") {
        at = at < 0 ? 0 : kept - 1;
      } else if (mode == "wrap") {
        at = ((at % kept) + kept) % kept;
      } else if (kept == 1) {
        at = 0;
      } else {  // reflect: to and fro, the border elements once
        const std::int64_t period = 2 * (kept - 1);
        at = ((at % period) + period) % period;
        at = std::min(at, period - at);
      }
    }
    from[static_cast<std::size_t>(i)] = first + at;
  }
  return from;
}

// The constant: zero, an attribute before version 11, an input since.
Data fill(const EvalContext& c) {
  const DType type = c.result_type();
  if (c.version() >= 11 && c.has_input(2)) {
    if (c.input(2).size() != 1) c.fail_input("constant_value must hold one element");
    return c.input(2);
  }
  const float value = c.version() < 11 ? c.get_float("value", 0.0F) : 0.0F;
  if (value != 0) {
    if (!is_float(type)) c.fail("attribute 'value' needs float data");
    return Tensor::of<float>(DType::float32, {}, std::span(&value, 1));
  }
  return Tensor::own(type, {}, std::vector<std::byte>(storage_size(type)));
}

std::vector<Data> pad(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const Shape& out = c.result_shape();
  const std::string mode = c.get_string("mode", "constant");
  const Pads pads = *read_pads(c, in.size());
  const std::vector<std::size_t> strides = strides_of(in);
  std::vector<numerics::Ref> refs;
  const std::size_t count = element_count(out);
  if (count > 0) {
    std::vector<std::vector<std::int64_t>> along;
    for (std::size_t k = 0; k < in.size(); ++k) {
      along.push_back(sources_along(c, mode, in[k], pads.before[k], pads.after[k], out[k]));
    }
    refs.reserve(count);
    for (Odometer p(out); p.more(); p.step()) {
      numerics::Ref ref{0, 0};
      for (std::size_t k = 0; k < in.size(); ++k) {
        const std::int64_t at = along[k][static_cast<std::size_t>(p[k])];
        if (at < 0) {
          ref = {1, 0};
          break;
        }
        ref.index += static_cast<std::size_t>(at) * strides[k];
      }
      refs.push_back(ref);
    }
  }
  return {select(c.result_type(), out, {c.input(0), fill(c)}, std::move(refs))};
}

}  // namespace

std::vector<Operator> pad_operators() {
  return {{"", "Pad", {2, 11, 13, 18, 19, 21, 23, 24, 25}, 1, 4, 1, infer, pad, PassOn::first}};
}

}  // namespace halfeven::ops
