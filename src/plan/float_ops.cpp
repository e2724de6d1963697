// Single float32 operators between stored floats: Add, Sub, Mul, Relu, ReduceMax, Cast of int32.
#include "cpu/float_ops/float_ops.hpp"

#include <algorithm>

#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class FloatBinaryKernel final : public Kernel {
 public:
  kernels::FloatOperation operation{};
  std::size_t large = 0, small = 1;  // which input is as large as the result
  std::int64_t inner = 1, count = 1, size = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* x = reinterpret_cast<const float*>(b.in[large]);
    const auto* y = reinterpret_cast<const float*>(b.in[small]);
    auto* out = reinterpret_cast<float*>(b.out[0]);
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      kernels::float_binary(operation, x, y, inner, count, out, first, last);
    });
  }
};

class FloatUnaryKernel final : public Kernel {
 public:
  bool from_integers = false;
  std::int64_t size = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    auto* out = reinterpret_cast<float*>(b.out[0]);
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      if (from_integers) {
        kernels::float_of_int32(reinterpret_cast<const std::int32_t*>(b.in[0]), out, first, last);
      } else {
        kernels::float_relu(reinterpret_cast<const float*>(b.in[0]), out, first, last);
      }
    });
  }
};

class ReduceMaxKernel final : public Kernel {
 public:
  std::int64_t rows = 0, length = 1, columns = 1;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const float*>(b.in[0]);
    auto* out = reinterpret_cast<float*>(b.out[0]);
    parallel(rows, [&](std::int64_t first, std::int64_t last) {
      kernels::float_reduce_max(in, out, length, columns, first, last);
    });
  }
};

bool is_plain(const ir::Node& node, std::string_view op_type) {
  return node.op_type == op_type && node.domain.empty() && !node.body;
}

// How b, of shape `small`, repeats over a tensor of shape `large` in the layout: runs of `inner` elements, `count` of
// them; false where it does otherwise.
bool repeats(Shape small, const Shape& large, Layout layout, std::int64_t& inner, std::int64_t& count) {
  inner = 1;
  count = elements(small);
  if (count == 1) return true;
  if (small.size() > large.size()) return false;
  small.insert(small.begin(), large.size() - small.size(), 1);
  std::size_t begin = 0;
  while (small[begin] == 1) ++begin;
  std::size_t end = small.size();
  while (small[end - 1] == 1) --end;
  if (!std::equal(small.begin() + static_cast<std::ptrdiff_t>(begin), small.begin() + static_cast<std::ptrdiff_t>(end),
                  large.begin() + static_cast<std::ptrdiff_t>(begin))) {
    return false;
  }
  if (layout == Layout::channels_last) return begin == 1 && end == 2;  // channels, which lie last
  for (std::size_t k = end; k < large.size(); ++k) inner *= large[k];
  return true;
}

}  // namespace

Offer make_float_binary(const Site& site) {
  const ir::Node& n = site.node;
  const bool sum = is_plain(n, "Add");
  const bool difference = is_plain(n, "Sub");
  if (!sum && !difference && !is_plain(n, "Mul")) return refuse("is no float sum or product");
  if (site.dtype(n.inputs[0]) != DType::float32) return refuse("is not of float32");
  auto kernel = std::make_unique<FloatBinaryKernel>();
  const Shape& out = site.shape(n.outputs[0]);
  if (site.shape(n.inputs[0]) != out) std::swap(kernel->large, kernel->small);
  const ir::ValueId x = n.inputs[kernel->large];
  const ir::ValueId y = n.inputs[kernel->small];
  kernel->size = elements(out);
  if (site.shape(x) != out || kernel->size == 0) return refuse("broadcasts both operands, or is empty");
  Layout layout = site.layout(x);
  Layout small_layout = Layout::plain;
  if (site.shape(y) == out) {
    kernel->count = kernel->size;
    small_layout = layout;
  } else if (!repeats(site.shape(y), out, layout, kernel->inner, kernel->count)) {
    layout = Layout::plain;
    if (!repeats(site.shape(y), out, layout, kernel->inner, kernel->count)) {
      return refuse("broadcasts an operand in a way that no kernel has");
    }
  }
  kernel->operation = sum          ? kernels::FloatOperation::add
                      : difference ? (kernel->large == 0 ? kernels::FloatOperation::subtract
                                                         : kernels::FloatOperation::reverse_subtract)
                                   : kernels::FloatOperation::multiply;
  kernel->in_forms.resize(2);
  kernel->in_forms[kernel->large] = Form{layout, false};
  kernel->in_forms[kernel->small] = Form{small_layout, false};
  kernel->out_form = Form{layout, false};
  return {std::move(kernel), ""};
}

Offer make_float_unary(const Site& site) {
  const ir::Node& n = site.node;
  const bool cast = is_plain(n, "Cast");
  if (!cast && !is_plain(n, "Relu")) return refuse("is no Cast or Relu");
  if (site.dtype(n.inputs[0]) != (cast ? DType::int32 : DType::float32) || site.dtype(n.outputs[0]) != DType::float32) {
    return refuse("is not from int32 or float32 to float32");
  }
  auto kernel = std::make_unique<FloatUnaryKernel>();
  kernel->from_integers = cast;
  kernel->size = elements(site.shape(n.outputs[0]));
  kernel->in_forms = {Form{site.layout(n.inputs[0]), false}};
  kernel->out_form = *kernel->in_forms[0];
  return {std::move(kernel), ""};
}

Offer make_float_reduce_max(const Site& site) {
  const ir::Node& n = site.node;
  if (!is_plain(n, "ReduceMax")) return refuse("is no ReduceMax");
  if (site.dtype(n.inputs[0]) != DType::float32) return refuse("is not of float32");
  std::vector<std::int64_t> axes;
  if (n.inputs.size() > 1 && n.inputs[1].present()) {
    const Tensor* t = site.constant(n.inputs[1]);
    if (t == nullptr) return refuse("its axes are computed");
    axes = ops::integers(*t);
  } else if (const auto at = n.attributes.find("axes"); at != n.attributes.end()) {
    axes = std::get<std::vector<std::int64_t>>(at->second);
  }
  const Shape& shape = site.shape(n.inputs[0]);
  const auto rank = static_cast<std::int64_t>(shape.size());
  for (std::int64_t& a : axes) a = a < 0 ? a + rank : a;
  std::sort(axes.begin(), axes.end());
  for (std::size_t k = 1; k < axes.size(); ++k) {
    if (axes[k] != axes[k - 1] + 1) return refuse("its axes are no neighbours");
  }
  if (axes.empty() || elements(shape) == 0) return refuse("reduces nothing, or is empty");
  auto kernel = std::make_unique<ReduceMaxKernel>();
  kernel->rows = 1;
  Layout layout = Layout::plain;
  for (std::int64_t k = 0; k < rank; ++k) {
    const std::int64_t d = shape[static_cast<std::size_t>(k)];
    (k < axes[0] ? kernel->rows : (k > axes.back() ? kernel->columns : kernel->length)) *= d;
  }
  // All spatial axes: channels that lie last are the columns.
  if (site.layout(n.inputs[0]) == Layout::channels_last && axes[0] == 2 && axes.back() + 1 == rank) {
    layout = Layout::channels_last;
    kernel->rows = shape[0];
    kernel->columns = shape[1];
  }
  kernel->in_forms = {Form{layout, false}};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
