#include "plan/linear_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
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

struct Line {
  double ratio = 0;
  double offset = 0;
};

// ratio * x + offset within half a step of entry x of [first, first + entries.size()), except beyond the bounds: in the
// middle of what room there is. It is for the caller to look whether there is any.
Line fit_line(std::span<const std::uint16_t> entries, double first, std::uint16_t lo, std::uint16_t hi) {
  // Below the points of `above`, above those of `below`. The room between them is a concave function of the ratio.
  std::vector<Point> above;
  std::vector<Point> below;
  for (std::size_t x = 0; x < entries.size(); ++x) {
    const double y = entries[x];
    const double place = first + static_cast<double>(x);
    if (entries[x] < hi) extend(above, {place, y + 0.5}, 1);
    if (entries[x] > lo) extend(below, {place, y - 0.5}, -1);
  }
  if (above.empty()) return {0, static_cast<double>(hi)};
  if (below.empty()) return {0, static_cast<double>(lo)};
  const auto limits = [&](double ratio) {
    double most = HUGE_VAL;
    double least = -HUGE_VAL;
    for (const Point& p : above) most = std::min(most, p.y - ratio * p.x);
    for (const Point& p : below) least = std::max(least, p.y - ratio * p.x);
    return std::pair(least, most);
  };
  double left = -4096;
  double right = 4096;
  for (int step = 0; step < 140; ++step) {
    const double a = left + (right - left) / 3;
    const double b = right - (right - left) / 3;
    const auto [la, ma] = limits(a);
    const auto [lb, mb] = limits(b);
    (ma - la < mb - lb ? left : right) = ma - la < mb - lb ? a : b;
  }
  const double ratio = (left + right) / 2;
  const auto [least, most] = limits(ratio);
  return {ratio, (least + most) / 2};
}

}  // namespace

std::optional<kernels::LinearWords> find_line(std::span<const std::uint16_t> table, std::uint16_t in_flip,
                                              std::uint16_t out_flip) {
  const auto at = [&](std::size_t x) { return static_cast<std::uint16_t>(table[x ^ in_flip] ^ out_flip); };
  kernels::LinearWords f;
  f.in_flip = in_flip;
  f.out_flip = out_flip;
  std::vector<std::uint16_t> entries;
  for (std::size_t x = 0; x < table.size(); ++x) entries.push_back(at(x));
  f.lo = *std::min_element(entries.begin(), entries.end());
  f.hi = *std::max_element(entries.begin(), entries.end());
  const Line line = fit_line(entries, 0, f.lo, f.hi);
  f.ratio = line.ratio;
  f.offset = line.offset;
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

namespace {

// Lines for the codes [first, last) of every channel, by channel: {ratio, offset}, times 2^16, from `split` on.
std::optional<std::vector<std::pair<float, float>>> fit_channels(std::span<const std::uint8_t> tables,
                                                                 std::size_t first, std::size_t last,
                                                                 std::int32_t split, std::uint8_t lo, std::uint8_t hi) {
  std::vector<std::pair<float, float>> out;
  for (std::size_t c = 0; c < tables.size() / 256; ++c) {
    const auto codes = tables.subspan(c * 256 + first, last - first);
    const std::vector<std::uint16_t> entries(codes.begin(), codes.end());
    const Line line = fit_line(entries, static_cast<double>(first) - split, lo, hi);
    if (!(256 * std::fabs(line.ratio) + std::fabs(line.offset) < 32000)) return std::nullopt;
    const auto ratio = static_cast<float>(line.ratio * 65536);
    const auto offset = static_cast<float>((line.offset + 0.5) * 65536);
    for (std::size_t x = 0; x < codes.size(); ++x) {
      const auto code = static_cast<float>(static_cast<std::int32_t>(first + x) - split);
      const auto word = static_cast<std::int32_t>(std::nearbyint(std::fma(code, ratio, offset)));
      if (std::clamp<std::int32_t>(word >> 16, lo, hi) != codes[x]) return std::nullopt;
    }
    out.emplace_back(ratio, offset);
  }
  return out;
}

}  // namespace

std::optional<kernels::ChannelLines> find_channel_lines(std::span<const std::uint8_t> tables, std::int32_t split) {
  constexpr std::size_t kMostPeriod = 4096;
  const std::size_t channels = tables.size() / 256;
  kernels::ChannelLines f;
  f.period = std::lcm(channels, std::size_t{64});
  if (tables.empty() || f.period > kMostPeriod) return std::nullopt;
  f.lo = *std::min_element(tables.begin(), tables.end());
  f.hi = *std::max_element(tables.begin(), tables.end());
  const auto set = [&](kernels::ChannelLines::Piece& piece, const std::vector<std::pair<float, float>>& lines) {
    for (std::size_t block = 0; block < f.period; block += 64) {
      for (std::size_t k = 0; k < 64; ++k) {
        const auto& [ratio, offset] = lines[(block + k % 16 * 4 + k / 16) % channels];
        piece.ratio.push_back(ratio);
        piece.offset.push_back(offset);
      }
    }
  };
  if (const auto lines = fit_channels(tables, 0, 256, 0, f.lo, f.hi)) {
    set(f.above, *lines);
    return f;
  }
  if (split <= 0 || split >= 256) return std::nullopt;
  const auto middle = static_cast<std::size_t>(split);
  const auto below = fit_channels(tables, 0, middle, split, f.lo, f.hi);
  if (!below) return std::nullopt;
  const auto above = fit_channels(tables, middle, 256, split, f.lo, f.hi);
  if (!above) return std::nullopt;
  f.split = split;
  set(f.below, *below);
  set(f.above, *above);
  return f;
}

}  // namespace halfeven::plan
