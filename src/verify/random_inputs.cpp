#include "verify/random_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "ir/quote.hpp"
#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "verify/values.hpp"

namespace halfeven::verification {
namespace {

constexpr std::int64_t kUnknownLength = 32;

// A counter through a mixing function: no state but a number, no library's choice of algorithm.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  /// In [0, n).
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  /// In [lo, hi], which is no wider than 2^53.
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(hi - lo) + 1));
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// About normal: a sum of twelve, with no function of a library in it.
  double normal() {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

// How a float input is quantized by its first reader that does so.
struct Grid {
  double scale = 0;
  std::int64_t lo = 0;  // least and greatest code, less the zero point
  std::int64_t hi = 0;
};

struct Role {
  std::optional<Grid> grid;
  std::optional<std::int64_t> limit;  // of an index
};

// Follows an input forward through operators that leave its values as they are.
class Reader {
 public:
  Reader(const ir::Graph& graph, const ops::Facts& facts) : graph_(graph), facts_(facts) {}

  Role role(ir::ValueId input) {
    role_ = {};
    seen_.clear();
    follow(input, 0);
    return role_;
  }

 private:
  void follow(ir::ValueId id, int depth) {
    static const std::set<std::string_view> moves{
        "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split",        "Identity",
        "Cast",    "Concat",  "Expand",  "Tile",      "Where",     "Pad",   "DepthToSpace", "SpaceToDepth"};
    if (depth > 64 || !seen_.insert(id).second) return;
    for (const ir::Node& node : graph_.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != id) continue;
        if (node.op_type == "QuantizeLinear" && i == 0) read_grid(node);
        if (node.op_type.starts_with("Gather") && i == 1) read_limit(node);
        if (node.body && i < node.body->inputs.size()) enter(*node.body, i);
        if (moves.contains(node.op_type) && (i == 0 || node.op_type == "Concat" || node.op_type == "Where")) {
          for (const ir::ValueId out : node.outputs) {
            if (out.present()) follow(out, depth + 1);
          }
        }
      }
    }
  }

  // A group's body: its constants are the graph's, so only its quantization is of use here.
  void enter(const ir::Graph& body, std::size_t input) {
    const ops::Facts facts{{body.initializers.begin(), body.initializers.end()}, {}};
    const Role inner = Reader(body, facts).role(body.inputs[input]);
    if (inner.grid && !role_.grid) role_.grid = inner.grid;
  }

  const Tensor* known(const ir::Node& node, std::size_t i) const {
    if (i >= node.inputs.size()) return nullptr;
    const auto at = facts_.known.find(node.inputs[i]);
    return at == facts_.known.end() || at->second.size() == 0 ? nullptr : &at->second;
  }

  void read_grid(const ir::Node& node) {
    const Tensor* scale = known(node, 1);
    const DType type = graph_.value(node.outputs[0]).dtype;
    if (role_.grid || scale == nullptr || !is_float(scale->dtype()) || !is_integer(type)) return;
    const Tensor* zero = known(node, 2);
    const auto z = zero == nullptr ? 0 : static_cast<std::int64_t>(element(*zero, 0));
    role_.grid = Grid{std::fabs(element(*scale, 0)), integer_min(type) - z, integer_max(type) - z};
  }

  void read_limit(const ir::Node& node) {
    const auto& shape = graph_.value(node.inputs[0]).shape;
    if (!shape || shape->empty()) return;
    std::int64_t axis = 0;
    if (const auto at = node.attributes.find("axis"); at != node.attributes.end()) {
      if (const auto* v = std::get_if<std::int64_t>(&at->second)) axis = *v;
    }
    if (axis < 0) axis += static_cast<std::int64_t>(shape->size());
    std::int64_t length = (*shape)[static_cast<std::size_t>(axis)];
    if (node.op_type == "GatherND") length = *std::min_element(shape->begin(), shape->end());
    if (length < 0) length = kUnknownLength;
    role_.limit = std::min(role_.limit.value_or(length), length);
  }

  const ir::Graph& graph_;
  const ops::Facts& facts_;
  Role role_;
  std::set<ir::ValueId> seen_;
};

Shape shape_of(const ir::Value& value, const std::map<std::string, Shape>& shapes,
               std::map<std::string, std::int64_t>& symbols) {
  const auto given = shapes.find(value.name);
  if (!value.shape) return given == shapes.end() ? Shape{} : given->second;
  Shape out = *value.shape;
  if (given != shapes.end()) {
    const bool fits = given->second.size() == out.size() &&
                      std::equal(out.begin(), out.end(), given->second.begin(),
                                 [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; });
    if (!fits) {
      throw Error(ErrorCode::usage, fmt::format("input {} has shape {}, which {} does not fit", ir::quote(value.name),
                                                to_string(out), to_string(given->second)));
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (out[k] < 0 && k < value.dim_names.size() && !value.dim_names[k].empty()) {
        symbols.try_emplace(value.dim_names[k], given->second[k]);
      }
    }
    return given->second;
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k] >= 0) continue;
    out[k] = k == 0 ? 1 : kUnknownLength;
    // Two inputs of one length; but exporters also call every unknown dimension by one name.
    if (k > 0 && k < value.dim_names.size() && symbols.contains(value.dim_names[k])) {
      out[k] = symbols.at(value.dim_names[k]);
    }
  }
  return out;
}

double neighbour(double value, DType type, int direction) {
  // One unit of the last place up or down, by way of the next double that rounds there.
  const auto format = numerics::format_of(type);
  if (value == 0) return direction * std::ldexp(1.0, format.lowest);
  int exponent = 0;
  std::frexp(value, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - format.precision, format.lowest));
  return numerics::round_to(value + direction * ulp, format);
}

double draw_on_grid(Generator& g, const Grid& grid, DType type) {
  const auto lo = static_cast<double>(grid.lo);
  const auto hi = static_cast<double>(grid.hi);
  const auto rounded = [&](double v) { return numerics::round_to(v, numerics::format_of(type)); };
  const auto tie = [&] { return rounded((static_cast<double>(g.between(grid.lo - 1, grid.hi)) + 0.5) * grid.scale); };
  switch (g.below(16)) {
    case 0:
    case 1: return tie();
    case 2: return neighbour(tie(), type, 1);
    case 3: return neighbour(tie(), type, -1);
    case 4: return rounded((hi + 4 * g.uniform()) * grid.scale);  // about where it saturates
    case 5: return rounded((lo - 4 * g.uniform()) * grid.scale);
    case 6: return rounded((g.below(2) == 0 ? 16 * hi : 16 * lo - 16) * grid.scale * g.uniform());
    case 7: return rounded((g.uniform() - 0.5) * 2 * grid.scale);  // a step around 0
    case 8: return 0;
    case 9: return rounded(static_cast<double>(g.between(grid.lo, grid.hi)) * grid.scale);
    default: return rounded((lo + (hi - lo) * g.uniform()) * grid.scale);
  }
}

double draw_float(Generator& g, DType type) {
  const auto rounded = [&](double v) { return numerics::round_to(v, numerics::format_of(type)); };
  switch (g.below(16)) {
    case 0: return 0;
    case 1: return g.below(2) == 0 ? 1 : -1;
    case 2: return rounded(g.normal() * 0x1p-12);
    case 3: return rounded(g.normal() * 4);
    case 4: return static_cast<double>(g.between(-8, 8)) / 2;
    case 5:
    case 6:
    case 7: return rounded(2 * g.uniform() - 1);
    default: return rounded(g.normal());
  }
}

double draw_tame(Generator& g, DType type, const std::optional<Grid>& grid, int tameness) {
  const double part = tameness == 1 ? 2 * g.uniform() - 1 : 0.25 + 0.75 * g.uniform();
  const double reach = grid ? static_cast<double>(part < 0 ? -grid->lo : grid->hi) * grid->scale : 1;
  return numerics::round_to(part * (reach > 0 ? reach : 1), numerics::format_of(type));
}

Tensor draw_floats(Generator& g, DType type, const Shape& shape, const std::optional<Grid>& grid, int tameness) {
  std::vector<std::byte> bytes(element_count(shape) * storage_size(type));
  for (std::size_t i = 0; i < bytes.size() / storage_size(type); ++i) {
    double v = 0;
    if (tameness > 0) {
      v = draw_tame(g, type, grid, tameness);
    } else {
      v = grid ? draw_on_grid(g, *grid, type) : draw_float(g, type);
    }
    const double most = numerics::format_of(type).max;
    v = std::clamp(v, -most, most);
    numerics::encode_float(type, v, bytes.data(), i);
  }
  return Tensor::own(type, shape, std::move(bytes));
}

Tensor draw_integers(Generator& g, DType type, const Shape& shape, const Role& role) {
  std::vector<std::int64_t> values(element_count(shape));
  const bool codes = bits(type) <= 16 && type != DType::boolean;
  const std::size_t row = shape.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(1, shape.back()));
  // A mask as tokenizers make it, or any.
  const bool prefix = !codes && !role.limit && g.below(2) == 0;
  std::size_t length = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % row == 0) length = 1 + static_cast<std::size_t>(g.below(row));
    std::int64_t lo = 0;
    std::int64_t hi = 1;
    if (role.limit) {
      hi = std::max<std::int64_t>(0, *role.limit - 1);
    } else if (codes) {
      lo = integer_min(type);
      hi = integer_max(type);
    }
    switch (g.below(8)) {
      case 0: values[i] = lo; break;
      case 1: values[i] = hi; break;
      default: values[i] = g.between(lo, hi);
    }
    if (prefix) values[i] = i % row < length ? 1 : 0;
  }
  return ops::make_integers(type, shape, values);
}

}  // namespace

InputSet random_inputs(const ir::Graph& graph, const ops::Facts& facts, const std::map<std::string, Shape>& shapes,
                       std::uint64_t seed, std::size_t number, int tameness) {
  for (const auto& [name, shape] : shapes) {
    if (!graph.is_input(graph.find(name))) {
      throw Error(ErrorCode::usage, fmt::format("the model has no input {} to give a shape", ir::quote(name)));
    }
  }
  InputSet out;
  std::map<std::string, std::int64_t> symbols;
  for (const ir::ValueId id : graph.inputs) {
    if (!graph.initializers.contains(id)) shape_of(graph.value(id), shapes, symbols);  // binds symbols
  }
  Reader reader(graph, facts);
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const ir::ValueId id = graph.inputs[k];
    if (const auto at = graph.initializers.find(id); at != graph.initializers.end()) {
      out.push_back(at->second);
      continue;
    }
    const ir::Value& value = graph.value(id);
    const Shape shape = shape_of(value, shapes, symbols);
    Generator g(seed * 0x2545F4914F6CDD1DU + number * 0x9E3779B1U + k);
    const Role role = reader.role(id);
    if (is_float(value.dtype)) {
      out.push_back(draw_floats(g, value.dtype, shape, role.grid, tameness));
    } else if (is_integer(value.dtype) || value.dtype == DType::boolean) {
      out.push_back(draw_integers(g, value.dtype, shape, role));
    } else {
      throw Error(ErrorCode::usage, fmt::format("there are no random values for input {} of type {}; give it a file",
                                                ir::quote(value.name), to_string(value.dtype)));
    }
  }
  return out;
}

}  // namespace halfeven::verification
