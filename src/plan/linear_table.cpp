#include "plan/linear_table.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace halfeven::plan {
namespace {

struct Point {
  double x;
  double y;
};

// Points come in the order of x; keeps those of the convex hull below (side 1) or above (side -1) them.
void extend(std::vector<Point>& hull, Point p, double side) {
  while (hull.size() >= 2) {
    const Point& a = hull[hull.size() - 2];
    const Point& b = hull.back();
    if (side * ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)) > 0) break;
    hull.pop_back();
  }
  hull.push_back(p);
}

}  // namespace

std::optional<kernels::LinearWords> find_line(std::span<const std::uint16_t> table, std::uint16_t in_flip,
                                              std::uint16_t out_flip) {
  const auto at = [&](std::size_t x) { return static_cast<std::uint16_t>(table[x ^ in_flip] ^ out_flip); };
  kernels::LinearWords f;
  f.in_flip = in_flip;
  f.out_flip = out_flip;
  f.lo = 0xFFFF;
  for (std::size_t x = 0; x < table.size(); ++x) {
    f.lo = std::min(f.lo, at(x));
    f.hi = std::max(f.hi, at(x));
  }
  // ratio * x + offset must lie within half a step of each entry, except beyond the bounds: below the points of
  // `above`, above those of `below`. The room between them is a concave function of the ratio.
  std::vector<Point> above;
  std::vector<Point> below;
  for (std::size_t x = 0; x < table.size(); ++x) {
    const double y = at(x);
    const auto place = static_cast<double>(x);
    if (at(x) < f.hi) extend(above, {place, y + 0.5}, 1);
    if (at(x) > f.lo) extend(below, {place, y - 0.5}, -1);
  }
  const auto limits = [&](double ratio) {
    double most = HUGE_VAL;
    double least = -HUGE_VAL;
    for (const Point& p : above) most = std::min(most, p.y - ratio * p.x);
    for (const Point& p : below) least = std::max(least, p.y - ratio * p.x);
    return std::pair(least, most);
  };
  if (f.lo == f.hi) {
    f.offset = f.lo;
  } else {
    double left = -4096;
    double right = 4096;
    for (int step = 0; step < 140; ++step) {
      const double a = left + (right - left) / 3;
      const double b = right - (right - left) / 3;
      const auto [la, ma] = limits(a);
      const auto [lb, mb] = limits(b);
      (ma - la < mb - lb ? left : right) = ma - la < mb - lb ? a : b;
    }
    f.ratio = (left + right) / 2;
    const auto [least, most] = limits(f.ratio);
    f.offset = (least + most) / 2;
  }
  if (!(std::fabs(f.offset) + 65536 * std::fabs(f.ratio) < 0x1p30)) return std::nullopt;
  const auto gives = [&](std::uint16_t (*function)(const kernels::LinearWords&, std::uint16_t)) {
    for (std::size_t x = 0; x < table.size(); ++x) {
      if (function(f, static_cast<std::uint16_t>(x)) != table[x]) return false;
    }
    return true;
  };
  // What is below 2^19 steps keeps a double around kLinearWhole in [2^52, 2^53).
  f.units = std::fabs(f.offset) + 65536 * std::fabs(f.ratio) < 0x1p19 - 1 && gives(kernels::linear_word_in_units);
  if (!f.units && !gives(kernels::linear_word)) return std::nullopt;
  return f;
}

}  // namespace halfeven::plan
