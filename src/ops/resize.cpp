// Resize (ai.onnx 10; roi and sizes since 11; axes since 18) and Upsample (7, 9): nearest, linear and cubic, exactly.
// Contract section 8: scales are the exact values of their floats, sizes give exact ratios, so coordinates and weights
// are rational.
#include <cmath>

#include <fmt/format.h>

#include "ops/resize_taps.hpp"
#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::Rational;
using numerics::Real;

const Rational kHalf = Rational::from_double(0.5);

// --- what the node asks for ------------------------------------------------------------------------------------------

ResizeMode mode_of(const NodeReader& node) {
  const bool old = node.version() < 11;  // Upsample and Resize-10
  ResizeMode m{node.get_string("mode", "nearest"),
               old ? "asymmetric" : node.get_string("coordinate_transformation_mode", "half_pixel"),
               old ? "floor" : node.get_string("nearest_mode", "round_prefer_floor")};
  if (m.name == "bilinear" || m.name == "trilinear") m.name = "linear";
  const auto known = [&](const char* what, const std::string& value, std::initializer_list<const char*> allowed) {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      node.fail(fmt::format("{} '{}' is not supported", what, value));
    }
  };
  known("mode", m.name, {"nearest", "linear", "cubic"});
  known("coordinate_transformation_mode", m.coordinates,
        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
         "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  known("nearest_mode", m.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  if (node.get_int("antialias", 0) != 0 && m.name != "nearest") node.fail("antialias is not supported");
  return m;
}

std::vector<std::size_t> axes_of(const NodeReader& node, std::size_t rank) {
  std::vector<std::int64_t> axes(rank);
  for (std::size_t k = 0; k < rank; ++k) axes[k] = static_cast<std::int64_t>(k);
  return normalize_axes(node, node.get_ints("axes", axes), rank);
}

// Inputs by position: scales and sizes; roi.
struct Places {
  std::size_t scales, sizes, roi;
};
Places places(const NodeReader& node) {
  if (node.version() < 11) return {1, SIZE_MAX, SIZE_MAX};
  return {2, 3, 1};
}

std::int64_t to_length(const NodeReader& node, const mpz_class& v) {
  if (sgn(v) < 0 || !v.fits_slong_p()) node.fail(fmt::format("an output length of {} is out of range", v.get_str()));
  return v.get_si();
}

// The plan for each resized axis. Lengths of -1 (not known) stay -1. nullopt: scales or sizes are not known.
std::optional<std::vector<AxisPlan>> plan(const NodeReader& node, const Shape& in,
                                          const std::optional<std::vector<double>>& scales,
                                          const std::optional<std::vector<std::int64_t>>& sizes) {
  if (!scales && !sizes) return std::nullopt;
  const std::vector<std::size_t> axes = axes_of(node, in.size());
  const std::size_t given = scales ? scales->size() : sizes->size();
  if (given != axes.size())
    node.fail(fmt::format("{} {} are given for {} axes", given, scales ? "scales" : "sizes", axes.size()));
  std::vector<AxisPlan> out;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    AxisPlan p;
    p.axis = axes[k];
    p.in = in[p.axis];
    p.out = kUnknownDim;
    if (scales) {
      const double s = (*scales)[k];
      if (!(s > 0) || !std::isfinite(s))
        node.fail_input(fmt::format("scale {} of axis {} is not positive and finite", s, p.axis));
      p.scale = Rational::from_double(s);
      if (p.in >= 0) p.out = to_length(node, (Rational(p.in) * p.scale).floor());
    } else {
      p.out = (*sizes)[k];
      if (p.out < 0) node.fail_input(fmt::format("size {} of axis {} is negative", p.out, p.axis));
      if (p.in > 0) p.scale = Rational(p.out) / Rational(p.in);
    }
    out.push_back(p);
  }
  const std::string policy = node.get_string("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || scales || out.empty()) return out;
  if (policy != "not_larger" && policy != "not_smaller") {
    node.fail(fmt::format("keep_aspect_ratio_policy '{}' is not supported", policy));
  }
  if (std::any_of(out.begin(), out.end(), [](const AxisPlan& p) { return p.in < 0; })) {
    for (AxisPlan& p : out) p.out = kUnknownDim;
    return out;
  }
  const auto less = [](const AxisPlan& a, const AxisPlan& b) { return a.scale < b.scale; };
  const Rational scale = (policy == "not_larger" ? std::min_element(out.begin(), out.end(), less)
                                                 : std::max_element(out.begin(), out.end(), less))
                             ->scale;
  for (AxisPlan& p : out) {
    p.scale = scale;
    p.out = to_length(node, (scale * Rational(p.in) + kHalf).floor());
  }
  return out;
}

std::vector<TypeShape> infer_plan(const InferContext& c, const std::optional<std::vector<double>>& scales,
                                  const std::optional<std::vector<std::int64_t>>& sizes) {
  const ResizeMode mode = mode_of(c);
  if (mode.name != "nearest") c.require_float(0);
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  Shape out = *c.shape(0);
  const auto axes = plan(c, out, scales, sizes);
  for (std::size_t k = 0; k < out.size() && !axes; ++k) out[k] = kUnknownDim;
  if (axes) {
    for (const AxisPlan& p : *axes) {
      out[p.axis] = p.out;
      if (p.in == 0 && p.out != 0) c.fail_input(fmt::format("axis {} is empty and cannot be enlarged", p.axis));
    }
  }
  return {{c.dtype(0), out}};
}

std::vector<double> scales_attribute(const NodeReader& node) {
  const std::vector<float> s = node.get_floats("scales", {});
  return {s.begin(), s.end()};
}

// An empty list of scales or sizes stands for an absent one.
bool listed(const InferContext& c, std::size_t i) {
  return c.has_input(i) && !(c.shape(i) && c.shape(i)->size() == 1 && (*c.shape(i))[0] == 0);
}

std::vector<TypeShape> infer(const InferContext& c) {
  const bool upsample = c.node().op_type == "Upsample";
  if (upsample && c.version() >= 10) c.fail("Upsample ends with opset 9; Resize follows it");
  if (upsample && c.version() < 9) return infer_plan(c, scales_attribute(c), std::nullopt);
  const Places at = places(c);
  const bool scaled = listed(c, at.scales);
  const bool sized = listed(c, at.sizes);
  if (scaled == sized) c.fail("one of scales and sizes must be given, and not both");
  c.require_type(at.scales, {DType::float32});
  c.require_type(at.sizes, {DType::int64});
  if (mode_of(c).coordinates == "tf_crop_and_resize" && !c.has_input(at.roi)) c.fail("input 1 (roi) is missing");
  if (scaled) return infer_plan(c, c.constant_floats(at.scales), std::nullopt);
  return infer_plan(c, std::nullopt, c.constant_ints(at.sizes));
}

std::vector<Rational> rationals(const EvalContext& c, std::size_t i) {
  std::vector<Rational> out;
  for (std::size_t k = 0; k < c.input(i).size(); ++k) {
    const double v = numerics::round_element(*c.reals(i), k, c.input(i).dtype());
    if (!std::isfinite(v)) c.fail_input(fmt::format("element {} of '{}' is {}", k, c.input_name(i), v));
    out.push_back(Rational::from_double(v));
  }
  return out;
}

std::vector<AxisPlan> plan_of(const EvalContext& c, const ResizeMode& mode) {
  const Shape& in = c.input(0).shape();
  if (c.node().op_type == "Upsample" && c.version() < 9) return *plan(c, in, scales_attribute(c), std::nullopt);
  const Places at = places(c);
  std::vector<AxisPlan> out;
  if (c.has_input(at.scales) && c.input(at.scales).size() > 0) {
    std::vector<double> scales;
    for (std::size_t k = 0; k < c.input(at.scales).size(); ++k) {
      scales.push_back(numerics::round_element(*c.reals(at.scales), k, DType::float32));
    }
    out = *plan(c, in, scales, std::nullopt);
  } else {
    out = *plan(c, in, std::nullopt, c.ints(at.sizes));
  }
  if (mode.coordinates == "tf_crop_and_resize") {
    const std::vector<Rational> roi = rationals(c, at.roi);
    if (roi.size() != 2 * out.size())
      c.fail_input(fmt::format("roi holds {} values for {} axes", roi.size(), out.size()));
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k].roi_start = roi[k];
      out[k].roi_end = roi[k + out.size()];
    }
  }
  return out;
}

// --- evaluation ------------------------------------------------------------------------------------------------------

struct Grid {
  numerics::ExactPtr input;
  std::vector<std::vector<Taps>> along;  // per axis and position
  std::vector<std::size_t> strides;
  std::vector<std::size_t> out_strides;
  std::vector<std::size_t> out_shape;
  double extrapolation = 0;

  // Calls f(index, weight) for all combinations of taps of output element i; false if it lies outside.
  template <class N, class F>
  bool visit(std::size_t i, F f) const {
    for (std::size_t k = 0; k < along.size(); ++k) {
      if (taps(k, i).empty()) return false;
    }
    walk<N>(i, 0, 0, numerics::number<N>(1.0), f);
    return true;
  }

  const Taps& taps(std::size_t axis, std::size_t i) const {
    return along[axis][i / out_strides[axis] % out_shape[axis]];
  }

 private:
  static const Approx& weight(const Tap& t, std::type_identity<Approx>) { return t.approx; }
  static Real weight(const Tap& t, std::type_identity<Real>) { return t.weight; }

  template <class N, class F>
  void walk(std::size_t i, std::size_t axis, std::size_t index, const N& factor, F& f) const {
    if (axis == along.size()) {
      f(index, factor);
      return;
    }
    for (const Tap& t : taps(axis, i)) {
      const std::size_t at = index + t.index * strides[axis];
      if (t.approx.exact() && t.approx.mid == 1) {
        walk<N>(i, axis + 1, at, factor, f);
      } else {
        walk<N>(i, axis + 1, at, factor * weight(t, std::type_identity<N>{}), f);
      }
    }
  }
};

Data interpolate(const EvalContext& c, const Shape& out, std::shared_ptr<const Grid> grid) {
  return numerics::make_elements(
      c.result_type(), out, c.threads(), [grid]<class N>(std::size_t i, std::type_identity<N>) -> N {
        bool inside = false;
        N total = numerics::number<N>(0.0);
        if constexpr (std::is_same_v<N, Real>) {
          std::vector<Real> terms;
          inside =
              grid->visit<Real>(i, [&](std::size_t at, const Real& w) { terms.push_back(w * grid->input->exact(at)); });
          total = numerics::sum(std::move(terms));
        } else {
          inside = grid->visit<Approx>(
              i, [&](std::size_t at, const Approx& w) { total = total + w * grid->input->approx(at); });
        }
        return inside ? total : numerics::number<N>(grid->extrapolation);
      });
}

Data pick_nearest(const EvalContext& c, const Shape& out, const Grid& grid) {
  std::vector<numerics::Ref> refs(element_count(out));
  for (std::size_t i = 0; i < refs.size(); ++i) {
    refs[i] = {1, 0};
    for (std::size_t k = 0, at = 0; k < out.size(); ++k) {
      const Taps& taps = grid.taps(k, i);
      if (taps.empty()) break;
      at += taps[0].index * grid.strides[k];
      if (k + 1 == out.size()) refs[i] = {0, at};
    }
  }
  if (out.empty()) refs[0] = {0, 0};
  Data outside = Tensor::own(c.result_type(), {}, std::vector<std::byte>(storage_size(c.result_type())));
  if (grid.extrapolation != 0) {
    const auto value = static_cast<float>(grid.extrapolation);
    if (!is_float(c.result_type())) c.fail("extrapolation_value is not supported for integers");
    outside = Tensor::of<float>(DType::float32, {}, std::span(&value, 1));
  }
  return select(c.result_type(), out, {c.input(0), outside}, std::move(refs));
}

std::vector<Data> resize(const EvalContext& c) {
  const ResizeMode mode = mode_of(c);
  const Shape& in = c.input(0).shape();
  Shape out = in;
  std::vector<AxisPlan> axes = plan_of(c, mode);
  for (const AxisPlan& p : axes) out[p.axis] = p.out;
  auto grid = std::make_shared<Grid>();
  grid->input = c.reals(0);
  grid->strides = strides_of(in);
  grid->out_strides = strides_of(out);
  grid->out_shape.assign(out.begin(), out.end());
  grid->extrapolation = static_cast<double>(c.get_float("extrapolation_value", 0.0F));
  grid->along.resize(in.size());
  if (element_count(out) > 0) {
    for (std::size_t k = 0; k < in.size(); ++k) {
      const auto planned = std::find_if(axes.begin(), axes.end(), [&](const AxisPlan& p) { return p.axis == k; });
      const bool as_is = planned == axes.end() || (planned->out == planned->in && planned->scale == Rational(1) &&
                                                   mode.coordinates != "tf_crop_and_resize");
      for (std::int64_t i = 0; i < out[k]; ++i) {
        grid->along[k].push_back(as_is ? Taps{{static_cast<std::size_t>(i), 1, {1, 0}}}
                                       : taps_at(c, *planned, mode, i));
      }
    }
  }
  if (mode.name == "nearest") return {pick_nearest(c, out, *grid)};
  return {interpolate(c, out, grid)};
}

}  // namespace

std::vector<Operator> resize_operators() {
  return {
      {"", "Resize", {10, 11, 13, 18, 19}, 1, 4, 1, infer, resize},
      {"", "Upsample", {7, 9}, 1, 2, 1, infer, resize},
  };
}

}  // namespace halfeven::ops
