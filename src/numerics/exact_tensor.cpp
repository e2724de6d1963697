#include "numerics/exact_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <halfeven/error.hpp>

namespace halfeven::numerics {
namespace {

class FloatTensor final : public ExactTensor {
 public:
  FloatTensor(const Tensor& tensor, DType dtype) : ExactTensor(dtype, tensor.shape()), tensor_(tensor) {}
  Approx approx(std::size_t i) const override { return {decode_float(tensor_.dtype(), tensor_.data(), i), 0}; }
  Real exact(std::size_t i) const override {
    return Real::from_double(decode_float(tensor_.dtype(), tensor_.data(), i));
  }
  bool negative_zero(std::size_t i) const override {
    const double v = decode_float(tensor_.dtype(), tensor_.data(), i);
    return v == 0 && std::signbit(v);
  }
  const Tensor* floats() const override { return tensor_.dtype() == dtype() ? &tensor_ : nullptr; }

 private:
  Tensor tensor_;
};

class AffineTensor final : public ExactTensor {
 public:
  AffineTensor(DType dtype, Shape shape, Affine affine)
      : ExactTensor(dtype, std::move(shape)), affine_(std::move(affine)) {}
  Approx approx(std::size_t i) const override {
    // |integers| < 2^53 converts exactly; 4- to 32-bit types are far below.
    const Approx n{static_cast<double>(affine_.integers[i]), 0};
    return n * Approx{affine_.scales[affine_.map(i)], 0};
  }
  Real exact(std::size_t i) const override {
    return Rational(affine_.integers[i]) * Rational::from_double(affine_.scales[affine_.map(i)]);
  }
  const Affine* affine() const override { return &affine_; }

 private:
  Affine affine_;
};

class SelectedTensor final : public ExactTensor {
 public:
  SelectedTensor(DType dtype, Shape shape, std::vector<ExactPtr> sources, std::vector<Ref> refs)
      : ExactTensor(dtype, std::move(shape)), sources_(std::move(sources)), refs_(std::move(refs)) {}
  Approx approx(std::size_t i) const override { return sources_[refs_[i].source]->approx(refs_[i].index); }
  Real exact(std::size_t i) const override { return sources_[refs_[i].source]->exact(refs_[i].index); }
  bool negative_zero(std::size_t i) const override { return sources_[refs_[i].source]->negative_zero(refs_[i].index); }

  const std::vector<ExactPtr>& sources() const { return sources_; }
  const std::vector<Ref>& refs() const { return refs_; }

 private:
  std::vector<ExactPtr> sources_;
  std::vector<Ref> refs_;
};

class ComputedTensor final : public ExactTensor {
 public:
  ComputedTensor(DType dtype, Shape shape, std::vector<Approx> values, std::function<Real(std::size_t)> exact)
      : ExactTensor(dtype, std::move(shape)), values_(std::move(values)), exact_(std::move(exact)) {
    // Processors give NaN either sign; a computed one has none.
    for (Approx& v : values_) v.mid = std::isnan(v.mid) ? std::numeric_limits<double>::quiet_NaN() : v.mid;
  }
  Approx approx(std::size_t i) const override { return values_[i]; }
  Real exact(std::size_t i) const override { return exact_(i); }

 private:
  std::vector<Approx> values_;
  std::function<Real(std::size_t)> exact_;
};

// Refers to the tensors below selections, so that chains of data movement stay one step deep.
void look_through(std::vector<ExactPtr>& sources, std::vector<Ref>& refs) {
  const bool nested = std::any_of(sources.begin(), sources.end(), [](const ExactPtr& s) {
    return dynamic_cast<const SelectedTensor*>(s.get()) != nullptr;
  });
  if (!nested) return;
  std::vector<ExactPtr> flat;
  std::unordered_map<const ExactTensor*, std::uint32_t> place;
  const auto number_of = [&](const ExactPtr& s) {
    const auto [it, fresh] = place.try_emplace(s.get(), static_cast<std::uint32_t>(flat.size()));
    if (fresh) flat.push_back(s);
    return it->second;
  };
  std::vector<std::vector<std::uint32_t>> renumber(sources.size());
  for (std::size_t s = 0; s < sources.size(); ++s) {
    if (const auto* inner = dynamic_cast<const SelectedTensor*>(sources[s].get())) {
      for (const ExactPtr& t : inner->sources()) renumber[s].push_back(number_of(t));
    } else {
      renumber[s].push_back(number_of(sources[s]));
    }
  }
  for (Ref& r : refs) {
    if (const auto* inner = dynamic_cast<const SelectedTensor*>(sources[r.source].get())) {
      const Ref& deep = inner->refs()[r.index];
      r = {renumber[r.source][deep.source], deep.index};
    } else {
      r.source = renumber[r.source][0];
    }
  }
  sources = std::move(flat);
}

ExactPtr select_floats(DType dtype, const Shape& shape, const std::vector<ExactPtr>& sources,
                       const std::vector<Ref>& refs) {
  for (const ExactPtr& s : sources) {
    if (s->floats() == nullptr || s->dtype() != dtype) return nullptr;
  }
  const std::size_t width = storage_size(dtype);
  std::vector<std::byte> bytes(refs.size() * width);
  for (std::size_t k = 0; k < refs.size(); ++k) {
    const std::byte* from = sources[refs[k].source]->floats()->data() + refs[k].index * width;
    std::copy(from, from + width, bytes.data() + k * width);
  }
  return make_floats(Tensor::own(dtype, shape, std::move(bytes)));
}

// Per-tensor affine sources with one scale stay affine; a float source may join with zeros (padding).
ExactPtr select_affine(DType dtype, const Shape& shape, const std::vector<ExactPtr>& sources,
                       const std::vector<Ref>& refs) {
  std::optional<double> scale;
  for (const ExactPtr& s : sources) {
    const Affine* a = s->affine();
    if (a == nullptr) {
      if (s->floats() == nullptr || s->size() != 1 || s->approx(0).mid != 0) return nullptr;
    } else if (!a->per_tensor() || (scale && *scale != a->scales[0])) {
      return nullptr;
    } else {
      scale = a->scales[0];
    }
  }
  if (!scale) return nullptr;
  Affine out{std::vector<std::int64_t>(refs.size()), {*scale}, {}};
  for (std::size_t k = 0; k < refs.size(); ++k) {
    const Affine* a = sources[refs[k].source]->affine();
    out.integers[k] = a == nullptr ? 0 : a->integers[refs[k].index];
  }
  return make_affine(dtype, shape, std::move(out));
}

}  // namespace

ExactTensor::ExactTensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), size_(element_count(shape_)) {}

ExactPtr make_floats(const Tensor& tensor) {
  const DType dtype = is_float(tensor.dtype()) ? tensor.dtype() : DType::float32;
  return std::make_shared<FloatTensor>(tensor, dtype);
}

ExactPtr make_affine(DType dtype, Shape shape, Affine affine) {
  return std::make_shared<AffineTensor>(dtype, std::move(shape), std::move(affine));
}

ExactPtr make_selection(DType dtype, Shape shape, const std::vector<ExactPtr>& sources, std::vector<Ref> refs) {
  std::vector<ExactPtr> flat = sources;
  look_through(flat, refs);
  if (auto floats = select_floats(dtype, shape, flat, refs)) return floats;
  if (auto affine = select_affine(dtype, shape, flat, refs)) return affine;
  return std::make_shared<SelectedTensor>(dtype, std::move(shape), std::move(flat), std::move(refs));
}

ExactPtr make_computed(DType dtype, Shape shape, std::vector<Approx> values, std::function<Real(std::size_t)> exact) {
  return std::make_shared<ComputedTensor>(dtype, std::move(shape), std::move(values), std::move(exact));
}

double round_element(const ExactTensor& x, std::size_t i, DType dtype) {
  const Approx a = x.approx(i);
  if (a.exact()) {
    if (a.special()) return a.mid;
    if (a.mid == 0) return x.negative_zero(i) ? -0.0 : 0.0;
    return round_to(a.mid, format_of(dtype));
  }
  if (std::isfinite(a.err)) {
    const FloatFormat format = format_of(dtype);
    const double infinity = std::numeric_limits<double>::infinity();
    // One step outwards covers the rounding of the two bounds themselves.
    const double low = round_to(std::nextafter(a.mid - a.err, -infinity), format);
    const double high = round_to(std::nextafter(a.mid + a.err, infinity), format);
    if (low == high) return low;
  }
  return round_to(x.exact(i), format_of(dtype));
}

Tensor round_tensor(const ExactTensor& x, DType dtype, int threads) {
  if (const Tensor* t = x.floats(); t != nullptr && t->dtype() == dtype) return *t;
  std::vector<std::byte> bytes(x.size() * storage_size(dtype));
  parallel_for(x.size(), 4096, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) encode_float(dtype, round_element(x, i, dtype), bytes.data(), i);
  });
  return Tensor::own(dtype, x.shape(), std::move(bytes));
}

bool is_nan(const ExactTensor& x, std::size_t i) {
  const Approx a = x.approx(i);
  if (a.exact()) return std::isnan(a.mid);
  return !std::isfinite(a.err) && x.exact(i).is_nan();
}

std::optional<int> sign(const ExactTensor& x, std::size_t i) {
  const Approx a = x.approx(i);
  if (a.exact() && std::isnan(a.mid)) return std::nullopt;
  if (const int s = sign(a); s != 2) return s;
  const Real r = x.exact(i);
  if (r.is_nan()) return std::nullopt;
  return sign(r);
}

std::optional<int> compare(const ExactTensor& x, std::size_t i, const ExactTensor& y, std::size_t j) {
  if (&x == &y && i == j) {
    if (is_nan(x, i)) return std::nullopt;
    return 0;
  }
  const Approx a = x.approx(i);
  const Approx b = y.approx(j);
  if (a.exact() && b.exact()) {
    if (std::isnan(a.mid) || std::isnan(b.mid)) return std::nullopt;
    return a.mid > b.mid ? 1 : (a.mid < b.mid ? -1 : 0);
  }
  if (!a.special() && !b.special()) {
    if (a.mid - a.err > std::nextafter(b.mid + b.err, HUGE_VAL)) return 1;
    if (b.mid - b.err > std::nextafter(a.mid + a.err, HUGE_VAL)) return -1;
  }
  const Real u = x.exact(i);
  const Real v = y.exact(j);
  if (u.is_nan() || v.is_nan()) return std::nullopt;
  return compare(u, v);
}

std::int64_t quantize_element(const ExactTensor& x, std::size_t i, double scale, std::int64_t lo, std::int64_t hi) {
  const Approx q = x.approx(i) / Approx{scale, 0};
  if (q.special() && q.exact()) return q.mid > 0 ? hi : lo;
  if (std::isfinite(q.err)) {
    // Bounds, one step outwards; far outside [lo, hi] both saturate alike.
    const double low = std::nextafter(q.mid - q.err, -HUGE_VAL);
    const double high = std::nextafter(q.mid + q.err, HUGE_VAL);
    const auto limited = [&](double v) {
      return std::clamp(std::nearbyint(v), static_cast<double>(lo), static_cast<double>(hi));
    };
    const double a = limited(q.exact() ? q.mid : low);
    const double b = limited(q.exact() ? q.mid : high);
    if (a == b) return static_cast<std::int64_t>(a);
  }
  return round_half_even(x.exact(i) / Real::from_double(scale), lo, hi);
}

}  // namespace halfeven::numerics
