#include "plan/pool_shape.hpp"

#include <algorithm>
#include <numeric>

#include "ops/common.hpp"
#include "ops/pool.hpp"

namespace halfeven::plan {

bool PoolGeometry::has_empty_window() const {
  const auto empty = [](std::int64_t n, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                        std::int64_t dilation) {
    for (std::int64_t o = 0; o < n; ++o) {
      bool any = false;
      for (std::int64_t t = 0; t < kernel; ++t) {
        const std::int64_t at = o * stride - pad + t * dilation;
        any = any || (at >= 0 && at < size);
      }
      if (!any) return true;
    }
    return false;
  };
  const auto& s = shape;
  return empty(s.out_height, s.height, s.kernel_h, s.stride_h, s.pad_h, s.dilation_h) ||
         empty(s.out_width, s.width, s.kernel_w, s.stride_w, s.pad_w, s.dilation_w);
}

std::optional<PoolGeometry> read_window_pool(const Site&, const ir::Graph& graph, const ir::Node& node,
                                             const Shape& shape, std::string& refusal) {
  if (shape.size() < 3 || element_count(shape) == 0 || (shape.size() > 4 && node.op_type != "GlobalAveragePool")) {
    refusal = "is not over one or two dimensions";
    return std::nullopt;
  }
  PoolGeometry g;
  kernels::PoolShape& s = g.shape;
  s.batch = shape[0];
  s.channels = shape[1];
  if (node.op_type == "GlobalAveragePool") {
    s.height = shape[2];
    s.width = std::accumulate(shape.begin() + 3, shape.end(), std::int64_t{1}, std::multiplies<>());
    s.kernel_h = s.height;
    s.kernel_w = s.width;
    g.rows = {s.height};
    g.columns = {s.width};
    return g;
  }
  const ops::NodeReader reader(graph, node);
  const ops::Window w = ops::read_pool_window(reader, shape);
  const bool flat = shape.size() == 3;  // one dimension: images of height 1
  const std::size_t last = w.out.size() - 1;
  s.height = flat ? 1 : shape[2];
  s.width = shape.back();
  s.out_height = flat ? 1 : w.out[0];
  s.out_width = w.out[last];
  s.kernel_h = flat ? 1 : w.kernel[0];
  s.kernel_w = w.kernel[last];
  s.stride_h = flat ? 1 : w.strides[0];
  s.stride_w = w.strides[last];
  s.dilation_h = flat ? 1 : w.dilations[0];
  s.dilation_w = w.dilations[last];
  s.pad_h = flat ? 0 : w.begin[0];
  s.pad_w = w.begin[last];
  const bool include_pad = reader.get_int("count_include_pad", 0) != 0;
  // Of start, start + dilation ...: how many lie in [from, to).
  const auto divisors = [&](std::int64_t n, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                            std::int64_t pad, std::int64_t end, std::int64_t dilation) {
    std::vector<std::int64_t> out;
    for (std::int64_t o = 0; o < n; ++o) {
      // From t = 0 (or where the image begins) on, as far as the kernel and the image go.
      const std::int64_t base = o * stride - pad;
      const std::int64_t limit = include_pad ? size + end : size;
      const std::int64_t least = include_pad || base >= 0 ? 0 : (-base + dilation - 1) / dilation;
      const std::int64_t most = base >= limit ? -1 : std::min(kernel - 1, (limit - 1 - base) / dilation);
      out.push_back(std::max<std::int64_t>(0, most - least + 1));
    }
    return out;
  };
  g.rows = flat ? std::vector<std::int64_t>{1}
                : divisors(s.out_height, s.height, s.kernel_h, s.stride_h, s.pad_h, w.end[0], s.dilation_h);
  g.columns = divisors(s.out_width, s.width, s.kernel_w, s.stride_w, s.pad_w, w.end[last], s.dilation_w);
  if (element_count(ops::pooled_shape(shape, w)) == 0) {
    refusal = "has an empty result";
    return std::nullopt;
  }
  return g;
}

std::optional<PoolGeometry> read_reduction(const Site& site, const ir::Graph& graph, const ir::Node& node,
                                           const Shape& shape, Layout stored, std::string& refusal) {
  const ops::NodeReader reader(graph, node);
  std::vector<std::int64_t> axes = reader.get_ints("axes", {});
  if (reader.has_input(1)) {
    // The list is a constant of the graph, or an input of the group that is one.
    const Tensor* t = nullptr;
    if (&graph == &site.graph) {
      t = site.constant(node.inputs[1]);
    } else {
      const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), node.inputs[1]);
      if (at != graph.inputs.end())
        t = site.constant(site.node.inputs[static_cast<std::size_t>(at - graph.inputs.begin())]);
    }
    if (t == nullptr) {
      refusal = "reduces over computed axes";
      return std::nullopt;
    }
    axes = ops::integers(*t);
  }
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axes.empty()) {
    if (reader.get_int("noop_with_empty_axes", 0) != 0) {
      refusal = "reduces nothing";
      return std::nullopt;
    }
    for (std::int64_t k = 0; k < rank; ++k) axes.push_back(k);
  }
  for (std::int64_t& a : axes) a = a < 0 ? a + rank : a;
  std::sort(axes.begin(), axes.end());
  const bool trailing =
      axes.back() == rank - 1 && axes.back() - axes.front() + 1 == static_cast<std::int64_t>(axes.size());
  if (!trailing || element_count(shape) == 0) {
    refusal = "reduces over other than the last dimensions";
    return std::nullopt;
  }
  const auto first = static_cast<std::size_t>(axes.front());
  PoolGeometry g;
  kernels::PoolShape& s = g.shape;
  const auto product = [&](std::size_t from, std::size_t to) {
    std::int64_t n = 1;
    for (std::size_t k = from; k < to; ++k) n *= shape[k];
    return n;
  };
  if (first == 2 && stored == Layout::channels_last) {
    s.batch = shape[0];
    s.channels = shape[1];
    s.width = product(2, shape.size());
    g.out_layout = reader.get_int("keepdims", 1) != 0 ? Layout::channels_last : Layout::plain;
  } else {
    s.batch = product(0, first);
    s.width = product(first, shape.size());
    g.layout = g.out_layout = Layout::plain;
  }
  s.kernel_w = s.width;
  g.rows = {1};
  g.columns = {s.width};
  return g;
}

}  // namespace halfeven::plan
