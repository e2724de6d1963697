#include "plan/requantization.hpp"

#include <algorithm>
#include <cmath>

namespace halfeven::plan {
namespace {

// A coarser check would send too many lanes to the slow path.
constexpr double kFloatSlack = 0x1p-9;

// Of the forms that round to 16 bits, in units of 2^-16 of a step.
constexpr double kOne = 65536;
constexpr double kWhole = 0x1.8p52;  // doubles around it are whole
constexpr int kMargin = 2;
constexpr double kRoom = 8;  // from a limit to where results change: errors and the margin are smaller

// Bits of the low word of which one is set unless it is below twice the margin, a power of two.
constexpr std::int32_t safe_bits(int margin) { return 0xFFFF & ~(2 * margin - 1); }

// The least power of two from `least` on that is no less than the error, in units of 2^-16; none where too many lanes
// would be left open.
std::optional<int> margin_for(double error, int least) {
  int margin = least;
  while (margin < error) margin *= 2;
  return margin > 32 ? std::nullopt : std::optional(margin);
}

}  // namespace

Requantization::Requantization(std::vector<numerics::Rational> ratios, std::vector<numerics::Rational> offsets,
                               numerics::Rational second, std::vector<double> a_bounds, double b_bound,
                               const QuantizedOperator& op)
    : ratios_(std::move(ratios)),
      offsets_(std::move(offsets)),
      second_(std::move(second)),
      a_bounds_(std::move(a_bounds)),
      b_bound_(second_.is_zero() ? 0 : b_bound),
      zero_(static_cast<std::int32_t>(op.out_zero)),
      lo_(static_cast<std::int32_t>(op.lo)),
      hi_(static_cast<std::int32_t>(op.hi)) {
  const std::size_t lanes = (ratios_.size() + 15) / 16 * 16 + 48;  // kernels read whole blocks of up to 64 channels
  a_bounds_.resize(ratios_.size(), a_bounds_[0]);
  ratio_.assign(lanes, 0.0);
  offset_.assign(lanes, 0.0);
  double largest = 0;
  double float_largest = 0;
  float_ratio_.assign(lanes, 0.0F);
  float_offset_.assign(lanes, 0.0F);
  second_size_ = b_bound_ * std::fabs(second_.to_double());
  for (std::size_t k = 0; k < ratios_.size(); ++k) {
    ratio_[k] = ratios_[k].to_double();
    offset_[k] = offsets_[k].to_double();
    float_ratio_[k] = static_cast<float>(ratio_[k]);
    float_offset_[k] = static_cast<float>(offset_[k]);
    const double offset_size = std::fabs(offset_[k]);
    largest = std::max(largest, a_bounds_[k] * std::fabs(ratio_[k]) + second_size_ + offset_size);
    slack_ = std::max(slack_, double_error(k));
    // Float kernels clamp to the results that are not saturated.
    float_largest = std::max(float_largest, 3 * largest_first(k) + 4 * second_size_ + 3 * offset_size + 2 * reach());
    // Ratios that are no normal floats would lose their accuracy.
    if (std::fabs(ratio_[k]) < 0x1p-100 || std::fabs(ratio_[k]) > 0x1p100) float_largest = HUGE_VAL;
  }
  fits_ = largest < 0x1p29;
  float_slack_ = float_largest * 0x1.1p-24;
  usable_ = slack_ < 0x1p-8;
  if (!usable_) return;
  exact_ = sums_are_exact(53);
  floats_exact_ = exact_ && sums_are_exact(24);
  prove();
}

// What a double result that does not saturate may be off by. In units of 2^-53 of the terms at their largest: each
// ratio, product and offset is rounded, so are the sums, in whatever order a kernel takes them, with or without fused
// multiply-adds. One unit is for the comparison with 0.5 less the slack.
double Requantization::double_error(std::size_t channel) const {
  const double first = largest_first(channel) * (b_bound_ > 0 ? 3 : 2);
  return (first + 3 * second_size_ + 2 * std::fabs(offset_[channel]) + reach() + 1) * 0x1.001p-53;
}

// How far from zero results in steps are that do not saturate, and one more: whatever lies beyond saturates, however
// it is rounded.
double Requantization::reach() const {
  return std::max(std::fabs(static_cast<double>(lo_ - zero_)), std::fabs(static_cast<double>(hi_ - zero_))) + 1;
}

// The largest |a * ratio| within the bound that does not saturate whatever the other terms are.
double Requantization::largest_first(std::size_t channel) const {
  const double size = a_bounds_[channel] * std::fabs(ratio_[channel]);
  return std::min(size, reach() + std::fabs(offset_[channel]) + second_size_);
}

// Double is right of every number that is further from a tie than double may be off, and takes none for a tie that is
// further away by the slack again.
void Requantization::prove() {
  closest_ = {HUGE_VAL, false};
  bool right = true;
  bool apart = true;
  for (std::size_t k = 0; k < ratios_.size(); ++k) {
    const numerics::ClosestApproach c = approach(k);
    right = right && c.distance > double_error(k);
    apart = apart && c.distance > double_error(k) + slack_;
    closest_ = closest_ & c;
  }
  decided_ = exact_ || (closest_.ties ? apart : right);
  floats_decide_ = floats_exact_ || (!closest_.ties && closest_.distance > 1.001 * float_slack_);
}

// Of the channel's results that do not saturate.
numerics::ClosestApproach Requantization::approach(std::size_t channel) const {
  constexpr double kMostSeconds = 1024;  // of the second term: so many are taken one by one
  constexpr double kMost = 0x1p60;
  const double r = ratio_[channel];
  const double o = offset_[channel];
  const double bound = a_bounds_[channel];
  if ((!ratios_[channel].is_zero() && (std::fabs(r) < 0x1p-500 || std::fabs(r) > 0x1p500)) || bound >= kMost) {
    return {0, true};  // unknown
  }
  const auto whole = [&](double v) { return static_cast<std::int64_t>(std::ceil(std::clamp(v, -kMost, kMost))); };
  numerics::IntegerRange a{-whole(bound), whole(bound)};
  if (r != 0) {
    const double one = (lo_ - zero_ - 1 - second_size_ - o) / r;
    const double other = (hi_ - zero_ + 1 + second_size_ - o) / r;
    const double more = 1e-9 * (1 + std::fabs(one) + std::fabs(other));  // for roundings of these two
    a.first = std::max(a.first, whole(std::min(one, other) - more));
    a.last = std::min(a.last, -whole(-(std::max(one, other) + more)));
  }
  if (b_bound_ > kMostSeconds / 2) return closest_approach(ratios_[channel], second_, offsets_[channel]);
  const std::int64_t b = whole(b_bound_);
  return closest_approach(ratios_[channel], second_, offsets_[channel], a, {-b, b});
}

// Whether a * ratio + b * second + offset is the same in a binary format with so many bits as in the rationals, for all
// a and b that do not saturate: then ties, which powers of two make common, cost nothing. Where the terms beside a are
// not too large, a result that saturates is off by so little that it still does.
bool Requantization::sums_are_exact(int bits) const {
  // The value of the last bit that a number has.
  const auto last_bit = [](double v) {
    int e = 0;
    const double m = std::frexp(v, &e);
    const auto whole = static_cast<std::int64_t>(std::ldexp(std::fabs(m), 53));
    return std::ldexp(1.0, e - 53 + __builtin_ctzll(static_cast<unsigned long long>(whole)));
  };
  const auto normal = [](double v) { return std::fabs(v) >= 0x1p-100 && std::fabs(v) <= 0x1p100; };
  const double most = std::ldexp(1.0, bits);
  const double s = second_.to_double();
  if (b_bound_ > 0 && (numerics::Rational::from_double(s) != second_ || !normal(s) || b_bound_ >= most)) return false;
  for (std::size_t k = 0; k < ratios_.size(); ++k) {
    const double r = ratio_[k];
    const double o = offset_[k];
    if (!normal(r) || numerics::Rational::from_double(r) != ratios_[k] ||
        numerics::Rational::from_double(o) != offsets_[k])
      return false;
    double unit = last_bit(r);
    if (o != 0) unit = std::min(unit, last_bit(o));
    if (b_bound_ > 0) unit = std::min(unit, last_bit(s));
    const double first = largest_first(k);
    const double others = second_size_ + std::fabs(o);
    if ((first + others) / unit >= most || first / std::fabs(r) >= most || others > most / 256) return false;
  }
  return true;
}

PlanRounding Requantization::rounding() const {
  PlanRounding r;
  r.variant = describe();
  r.closest_approach = closest_.distance;
  r.ties = closest_.ties;
  r.double_error = exact_ ? 0 : slack_;
  r.float_error = floats_exact_ ? 0 : float_slack_;
  r.double_decides = decided_;
  r.float_decides = floats_decide_;
  return r;
}

kernels::Requantize Requantization::view(bool per_tensor) const {
  kernels::Requantize q;
  q.ratio = ratio_.data();
  q.offset = offset_.data();
  q.ratio2 = second_.to_double();
  q.per_tensor = per_tensor;
  q.slack = exact_ || (decided_ && !closest_.ties) ? 0 : slack_;
  q.decided = decided_;
  q.fits = fits_;
  q.zero = zero_;
  q.lo = lo_;
  q.hi = hi_;
  q.exact = exact;
  q.context = this;
  if (floats_decide_ || float_slack_ < kFloatSlack) {
    q.float_ratio = float_ratio_.data();
    q.float_offset = float_offset_.data();
    q.float_ratio2 = static_cast<float>(q.ratio2);
    q.float_slack = floats_decide_ ? -1.0F : static_cast<float>(float_slack_ * 1.0001);
  }
  return q;
}

std::optional<kernels::Fixed> Requantization::fixed(const std::vector<std::int64_t>& lanes) const {
  if (floats_exact_ || lo_ < 0 || hi_ > 255 || !second_.is_zero()) return std::nullopt;
  kernels::Fixed f;
  f.ratio.assign(lanes.size(), 0.0F);
  f.offset.assign(lanes.size(), 0.0F);
  f.lo = static_cast<std::uint8_t>(lo_);
  f.hi = static_cast<std::uint8_t>(hi_);
  // In units of 2^-16, where the result does not saturate: the roundings of the ratio, of the sum to float (only large
  // ones are), of the offset (none where it is whole) and, together at most 3/4, of the fused multiply-add, whose
  // result is at most 2^24, and of the conversion. What is off by more saturates all the same.
  double error = 0;
  for (std::size_t k = 0; k < ratios_.size(); ++k) {
    const double r = std::fabs(ratio_[k]);
    if (r < 0x1p-80 || r > 0x1p80) return std::nullopt;
    const double offset = offset_[k] + zero_ + 0.5;
    const double size = a_bounds_[k] * r;
    const double used = std::min(size, std::max(std::fabs(lo_ - offset), std::fabs(hi_ + 1 - offset)) + 0.01);
    const double of_ratio = std::fabs(static_cast<double>(static_cast<float>(r * kOne)) / (r * kOne) - 1) + 0x1p-50;
    const double of_sum = a_bounds_[k] >= 0x1p24 ? 0x1p-24 : 0;
    const double units = std::fabs(offset) * kOne;
    const double of_offset = units < 0x1p23 && units == std::floor(units) ? 0 : (units + 64) * 0x1p-24;
    error = std::max(error, used * kOne * (of_ratio + of_sum) + of_offset + 0.751);
    if ((size + std::fabs(offset) + 0.01) * kOne * 1.001 >= 0x1p31) f.clamp = true;
  }
  const auto margin = margin_for(error, 2);
  if (!margin) return std::nullopt;
  f.safe_bits = safe_bits(*margin);
  f.checked = closest_.ties || closest_.distance * kOne <= 2 * *margin;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l] < 0) {
      f.offset[l] = static_cast<float>(0x8000);  // no tie
      continue;
    }
    const auto k = static_cast<std::size_t>(lanes[l]);
    f.ratio[l] = static_cast<float>(ratio_[k] * kOne);
    f.offset[l] = static_cast<float>((offset_[k] + zero_ + 0.5) * kOne + *margin);
  }
  return f;
}

kernels::FixedSum Requantization::fixed_sum(std::int32_t a_zero, std::int32_t b_zero) const {
  if (exact_ || lo_ < 0 || hi_ > 255) return {};  // ties are common where doubles are exact
  const double a = ratio_[0];
  const double b = second_.to_double();
  const double offset = offset_[0] + zero_ + 0.5 - a_zero * a - b_zero * b;
  const double size = 255 * (std::fabs(a) + std::fabs(b)) + std::fabs(offset) + 0.01;
  const auto normal = [](double r) { return r == 0 || std::fabs(r) > 0x1p-80; };
  if (size > 32000 || !normal(a) || !normal(b)) return {};
  // In units of 2^-16: the roundings of the ratios, of the offset, of both fused multiply-adds, each at most 2^-24 of
  // what it rounds, and of the conversion.
  const double error = 3 * size * kOne * 0x1.01p-24 + 0.501;
  const auto margin = margin_for(error, 4);
  if (!margin) return {};
  kernels::FixedSum f;
  f.ratio = static_cast<float>(a * kOne);
  f.ratio2 = static_cast<float>(b * kOne);
  f.offset = static_cast<float>(offset * kOne + *margin);
  f.safe_bits = safe_bits(*margin);
  return f;
}

std::vector<int> Requantization::word_bits() const {
  std::vector<int> out;
  for (std::size_t k = 0; k < ratios_.size(); ++k) {
    int b = 0;
    while (b < 8 && std::ldexp(ratio_[k], -b) > 0.5) ++b;
    out.push_back(b);
  }
  return out;
}

std::optional<kernels::FixedWords> Requantization::fixed_words(const std::vector<std::int64_t>& lanes,
                                                               const std::vector<std::int64_t>& shifts,
                                                               const std::vector<int>& bits) const {
  if (!second_.is_zero()) return std::nullopt;
  using numerics::Rational;
  constexpr double kLeast = -0x1p31;
  constexpr double kMost = 0x1p31 - 1;
  // The offset and the sum are each rounded to a unit of 2^-16; what the ratio's rounding adds is far smaller, since
  // sums are below 2^31 and ratios at most 1/2. Both errors are less than the margin.
  kernels::FixedWords f;
  const std::size_t count = lanes.size();
  f.ratio.assign(count, 0.0);
  f.offset.assign(count, kWhole + kOne / 2);  // no tie
  f.least.assign(count, INT32_MIN);
  f.most.assign(count, INT32_MAX);
  f.shift.assign(count, 0);
  f.bits.assign(count, 0);
  f.safe_bits = safe_bits(kMargin);
  for (std::size_t l = 0; l < count; ++l) {
    if (lanes[l] < 0) continue;
    const auto k = static_cast<std::size_t>(lanes[l]);
    // Where doubles are exact, so are ties: one sum in 2^m meets one if the ratio is 2^-m.
    const double of_sum = std::ldexp(ratio_[k], -bits[k]);
    if (!(of_sum > 0x1p-80 && of_sum <= 0.5) || (exact_ && ratio_[k] > 0x1p-6)) return std::nullopt;
    f.shift[l] = shifts[k];
    f.bits[l] = bits[k];
    const Rational offset = (offsets_[k] - Rational(shifts[k]) * ratios_[k] + Rational(zero_)) * Rational(65536) +
                            Rational(32768 + kMargin);
    const double ratio = of_sum * kOne;
    const double o = offset.to_double();
    if (!(std::fabs(o) < 0x1p50)) return std::nullopt;
    const double least = std::ceil((lo_ * kOne + kRoom - o) / ratio);
    const double most = std::floor(((hi_ + 1) * kOne - kRoom - o) / ratio);
    if (least > kMost || most < kLeast) {  // the same result for all sums
      f.offset[l] = kWhole + kOne / 2 + kOne * (least > kMost ? lo_ : hi_);
      continue;
    }
    f.ratio[l] = ratio;
    f.offset[l] = (offset + Rational::from_double(kWhole)).to_double();
    f.least[l] = static_cast<std::int32_t>(std::clamp(least, kLeast, kMost));
    f.most[l] = static_cast<std::int32_t>(std::clamp(most, kLeast, kMost));
  }
  return f;
}

std::optional<kernels::FixedWordsSum> Requantization::fixed_words_sum(std::int32_t a_zero, std::int32_t b_zero) const {
  using numerics::Rational;
  if (exact_) return std::nullopt;  // ties are common
  kernels::FixedWordsSum f;
  f.ratio = ratio_[0] * kOne;
  f.ratio2 = second_.to_double() * kOne;
  const Rational offset =
      (offsets_[0] - Rational(a_zero) * ratios_[0] - Rational(b_zero) * second_ + Rational(zero_)) * Rational(65536) +
      Rational(32768 + kMargin);
  // The offset and two sums are rounded to units, less than the margin together with what the ratios' roundings add.
  const double reach = 65536 * (std::fabs(f.ratio) + std::fabs(f.ratio2)) + std::fabs(offset.to_double());
  if (!(reach < 0x1p50)) return std::nullopt;
  f.offset = (offset + Rational::from_double(kWhole)).to_double();
  f.least = kWhole + lo_ * kOne + kRoom;
  f.most = kWhole + (hi_ + 1) * kOne - kRoom;
  f.safe_bits = safe_bits(kMargin);
  return f;
}

std::string Requantization::describe() const {
  const auto power = [](double v) { return std::to_string(static_cast<int>(std::floor(std::log2(v))) + 1); };
  if (floats_exact_) return "float32, exact: every sum times its ratio is a float";
  if (floats_decide_) return "float32, proved: no sum comes within 2^" + power(float_slack_) + " of a tie";
  const bool checked_floats = float_slack_ < kFloatSlack;
  if (exact_) {
    return checked_floats ? "float32 with a check: lanes closer than 2^" + power(float_slack_) +
                                " to a tie go to double, which is exact"
                          : "double, exact: every sum times its ratio is a double";
  }
  if (checked_floats) {
    return "float32 with a check: lanes closer than 2^" + power(float_slack_) + " to a tie go to double, " +
           (decided_ ? "proved for every sum" : "closer than 2^" + power(slack_) + " to the exact ratio");
  }
  if (decided_) return "double, proved for every sum";
  return "double with a check: lanes closer than 2^" + power(slack_) + " to a tie are recomputed exactly";
}

std::int64_t Requantization::exact(const void* self, std::size_t channel, std::int64_t a, std::int64_t b) {
  const auto& r = *static_cast<const Requantization*>(self);
  const numerics::Rational value =
      numerics::Rational(a) * r.ratios_[channel] + numerics::Rational(b) * r.second_ + r.offsets_[channel];
  const mpz_class n = value.round_half_even();
  constexpr long kFar = 1L << 30;
  return n > kFar ? kFar : (n < -kFar ? -kFar : n.get_si());
}

}  // namespace halfeven::plan
