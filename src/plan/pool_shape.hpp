// The geometry of pools and reductions, as kernels of pool.hpp see it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cpu/pool/pool.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

struct PoolGeometry {
  kernels::PoolShape shape;
  Layout layout = Layout::channels_last;  ///< of the input
  Layout out_layout = Layout::channels_last;
  std::vector<std::int64_t> rows;     ///< what an average divides by, per row of windows ...
  std::vector<std::int64_t> columns;  ///< ... times per column

  bool has_empty_window() const;
};

/// MaxPool, AveragePool (with count_include_pad), GlobalAveragePool over one or two spatial dimensions. `graph` holds
/// the node, which may stand in a body; `shape` is its input's.
std::optional<PoolGeometry> read_window_pool(const Site& site, const ir::Graph& graph, const ir::Node& node,
                                             const Shape& shape, std::string& refusal);

/// ReduceMean, ReduceMax ... over all spatial dimensions or over the last dimensions. `stored` is the input's layout.
std::optional<PoolGeometry> read_reduction(const Site& site, const ir::Graph& graph, const ir::Node& node,
                                           const Shape& shape, Layout stored, std::string& refusal);

}  // namespace halfeven::plan
