#include "ops/window.hpp"

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

// Sizes beyond this are refused, so that the arithmetic below cannot overflow.
constexpr std::int64_t kLargest = std::int64_t{1} << 31;

Shape read_list(const NodeReader& c, const char* name, std::size_t length, std::int64_t otherwise, std::int64_t least) {
  Shape v = c.get_ints(name, Shape(length, otherwise));
  if (v.size() != length) c.fail(fmt::format("attribute {} has {} entries, {} are needed", name, v.size(), length));
  for (const std::int64_t x : v) {
    if (x < least || x > kLargest) c.fail(fmt::format("attribute {} holds {}, which is out of range", name, x));
  }
  return v;
}

void check_kernel(const NodeReader& c, const Shape& sizes, const Shape& kernel) {
  if (kernel.size() != sizes.size()) {
    c.fail(fmt::format("kernel shape {} does not fit {} spatial dimensions", to_string(kernel), sizes.size()));
  }
  for (const std::int64_t k : kernel) {
    if (k < 1 || k > kLargest) c.fail(fmt::format("kernel shape {} is out of range", to_string(kernel)));
  }
  for (const std::int64_t n : sizes) {
    if (n > kLargest) c.fail(fmt::format("a spatial dimension of {} is too large", n));
  }
}

std::string read_auto_pad(const NodeReader& c) {
  const std::string mode = c.get_string("auto_pad", "NOTSET");
  for (const char* known : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}) {
    if (mode == known) return mode;
  }
  c.fail(fmt::format("auto_pad '{}' is not known", mode));
}

}  // namespace

Shape spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

Window read_window(const NodeReader& c, const Shape& sizes, const Shape& kernel, bool ceil_mode) {
  check_kernel(c, sizes, kernel);
  const std::size_t rank = sizes.size();
  Window w;
  w.kernel = kernel;
  w.strides = read_list(c, "strides", rank, 1, 1);
  w.dilations = read_list(c, "dilations", rank, 1, 1);
  const std::string mode = read_auto_pad(c);
  const Shape pads = mode == "NOTSET" ? read_list(c, "pads", 2 * rank, 0, 0) : Shape(2 * rank, 0);
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t span = (kernel[k] - 1) * w.dilations[k] + 1;
    const std::int64_t n = sizes[k];
    w.begin.push_back(pads[k]);
    w.end.push_back(pads[rank + k]);
    if (n < 0) {
      w.out.push_back(kUnknownDim);
      continue;
    }
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const std::int64_t out = (n + w.strides[k] - 1) / w.strides[k];
      const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.strides[k] + span - n);
      w.begin[k] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[k] = total - w.begin[k];
      w.out.push_back(out);
      continue;
    }
    const std::int64_t room = n + w.begin[k] + w.end[k] - span;
    if (room < 0) {
      if (n == 0) {
        w.out.push_back(0);
        continue;
      }
      c.fail(fmt::format("a kernel of {} (with dilation) does not fit a dimension of {} padded by {} and {}", span, n,
                         w.begin[k], w.end[k]));
    }
    std::int64_t out = room / w.strides[k] + 1;
    if (ceil_mode && room % w.strides[k] != 0 && out * w.strides[k] < n + w.begin[k]) ++out;
    w.out.push_back(out);
  }
  return w;
}

Window read_transposed_window(const NodeReader& c, const Shape& sizes, const Shape& kernel) {
  check_kernel(c, sizes, kernel);
  const std::size_t rank = sizes.size();
  Window w;
  w.kernel = kernel;
  w.strides = read_list(c, "strides", rank, 1, 1);
  w.dilations = read_list(c, "dilations", rank, 1, 1);
  const Shape extra = read_list(c, "output_padding", rank, 0, 0);
  const std::string mode = read_auto_pad(c);
  const Shape pads = mode == "NOTSET" ? read_list(c, "pads", 2 * rank, 0, 0) : Shape(2 * rank, 0);
  Shape wanted = c.get_ints("output_shape", {});
  if (wanted.size() > rank) wanted.erase(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(rank));
  if (!wanted.empty() && wanted.size() != rank) c.fail("output_shape needs an entry for each spatial dimension");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t n = sizes[k];
    const std::int64_t span = (kernel[k] - 1) * w.dilations[k] + 1;
    w.begin.push_back(pads[k]);
    w.end.push_back(pads[rank + k]);
    if (n < 0) {
      w.out.push_back(kUnknownDim);
      continue;
    }
    const std::int64_t full = n == 0 ? extra[k] : (n - 1) * w.strides[k] + span + extra[k];
    if (wanted.empty() && !same) {
      const std::int64_t out = full - pads[k] - pads[rank + k];
      if (out < 0) c.fail(fmt::format("pads {} leave a negative output size", to_string(pads)));
      w.out.push_back(out);
      continue;
    }
    const std::int64_t out = wanted.empty() ? n * w.strides[k] : wanted[k];
    if (out < 0 || out > kLargest) c.fail(fmt::format("output_shape {} is out of range", to_string(wanted)));
    const std::int64_t total = full - out;
    // ONNX: an odd total pads the start more, unless auto_pad is SAME_UPPER; a negative one appends zeros.
    w.begin[k] = std::max<std::int64_t>(0, mode == "SAME_UPPER" ? total / 2 : total - total / 2);
    w.end[k] = total - w.begin[k];
    w.out.push_back(out);
  }
  return w;
}

}  // namespace halfeven::ops
