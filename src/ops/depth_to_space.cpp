// DepthToSpace (ai.onnx 1; mode since 11) and SpaceToDepth (ai.onnx 1; mode since 28): pass on (contract section 1,
// rule 4).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

std::int64_t block_of(const NodeReader& node) {
  if (!node.has_attribute("blocksize")) node.fail("attribute 'blocksize' is missing");
  const std::int64_t block = node.get_int("blocksize", 0);
  if (block < 1 || block > (1 << 20)) node.fail(fmt::format("blocksize {} is out of range", block));
  return block;
}

// In DCR mode the depth is (row in block, column in block, channel); in CRD mode (channel, row, column).
bool channels_last(const NodeReader& node, int since) {
  const std::string mode = node.version() < since ? "DCR" : node.get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") node.fail(fmt::format("mode '{}' is not supported", mode));
  return mode == "DCR";
}

std::int64_t divided(const InferContext& c, std::size_t axis, std::int64_t by) {
  const std::int64_t n = (*c.shape(0))[axis];
  if (n < 0) return n;
  if (n % by != 0)
    c.fail(fmt::format("axis {} of the input {} is no multiple of {}", axis, to_string(*c.shape(0)), by));
  return n / by;
}

std::int64_t multiplied(const InferContext& c, std::size_t axis, std::int64_t by) {
  const std::int64_t n = (*c.shape(0))[axis];
  return n < 0 ? n : multiply_sizes(c, n, by);
}

std::vector<TypeShape> infer_depth_to_space(const InferContext& c) {
  c.require_rank(0, 4, 4);
  const std::int64_t b = block_of(c);
  channels_last(c, 11);
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  return {{c.dtype(0), Shape{(*c.shape(0))[0], divided(c, 1, b * b), multiplied(c, 2, b), multiplied(c, 3, b)}}};
}

std::vector<TypeShape> infer_space_to_depth(const InferContext& c) {
  c.require_rank(0, 4, 4);
  const std::int64_t b = block_of(c);
  channels_last(c, 28);
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  return {{c.dtype(0), Shape{(*c.shape(0))[0], multiplied(c, 1, b * b), divided(c, 2, b), divided(c, 3, b)}}};
}

std::vector<Data> depth_to_space(const EvalContext& c) {
  const Shape& out = c.result_shape();
  const std::int64_t b = block_of(c);
  const bool dcr = channels_last(c, 11);
  const std::int64_t channels = out[1];
  const std::vector<std::int64_t> s = signed_strides(c.input(0).shape());
  // The output seen as [N, C, H, row, W, column] walks the input with these steps.
  const std::int64_t channel = dcr ? s[1] : s[1] * b * b;
  const std::int64_t row = dcr ? s[1] * channels * b : s[1] * b;
  const std::int64_t column = dcr ? s[1] * channels : s[1];
  const Shape fine{out[0], channels, out[2] / b, b, out[3] / b, b};
  return {gather(c.input(0), out, strided_indices(fine, 0, {s[0], channel, s[2], row, s[3], column}))};
}

std::vector<Data> space_to_depth(const EvalContext& c) {
  const Shape& out = c.result_shape();
  const Shape& in = c.input(0).shape();
  const std::int64_t b = block_of(c);
  const std::vector<std::int64_t> s = signed_strides(in);
  // The output seen as [N, row, column, C, H, W] (DCR) or [N, C, row, column, H, W].
  const bool dcr = channels_last(c, 28);
  const Shape fine = dcr ? Shape{out[0], b, b, in[1], out[2], out[3]} : Shape{out[0], in[1], b, b, out[2], out[3]};
  const std::vector<std::int64_t> steps = dcr ? std::vector{s[0], s[2], s[3], s[1], s[2] * b, s[3] * b}
                                              : std::vector{s[0], s[1], s[2], s[3], s[2] * b, s[3] * b};
  return {gather(c.input(0), out, strided_indices(fine, 0, steps))};
}

}  // namespace

std::vector<Operator> depth_to_space_operators() {
  return {
      {"", "DepthToSpace", {1, 11, 13, 28}, 1, 1, 1, infer_depth_to_space, depth_to_space, PassOn::first},
      {"", "SpaceToDepth", {1, 13, 28}, 1, 1, 1, infer_space_to_depth, space_to_depth, PassOn::first},
  };
}

}  // namespace halfeven::ops
