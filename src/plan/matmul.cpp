// Products of 8-bit matrices: both computed, or a constant right side; results in 8 bits, float32 or int32.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/matmul/matmul.hpp"
#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "plan/product.hpp"
#include "plan/requantization.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

constexpr std::int64_t kRowsAtOnce = 96;   // of a piece of work
constexpr std::int64_t kBlocksAtOnce = 4;  // likewise: its weights stay in the nearest cache

std::size_t aligned(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 63) / 64 * 64); }

// What turns sums into float32, and its exact side.
class FloatResult {
 public:
  FloatResult(std::vector<Rational> ratios, std::vector<Rational> offsets, std::vector<Rational> addends)
      : ratios_(std::move(ratios)), offsets_(std::move(offsets)), addends_(std::move(addends)) {
    const std::size_t lanes = (ratios_.size() + 15) / 16 * 16;
    ratio_.assign(lanes, 0);
    offset_.assign(lanes, 0);
    if (!addends_.empty()) {
      addend_.assign(lanes, 0);
      wide_addend_.assign(lanes, 0);
    }
    for (std::size_t k = 0; k < ratios_.size(); ++k) {
      ratio_[k] = ratios_[k].to_double();
      offset_[k] = offsets_[k].to_double();
      const double r = std::fabs(ratio_[k]);
      if (r != 0 && (r < kernels::kRoundToFloatLeast || r > 0x1p100)) usable_ = false;
      const double o = std::fabs(offset_[k]);
      if ((o != 0 || !offsets_[k].is_zero()) && (o < 0x1p-300 || o > 0x1p300)) usable_ = false;
      if (addends_.empty()) continue;
      wide_addend_[k] = addends_[k].to_double();
      addend_[k] = static_cast<float>(wide_addend_[k]);
      if (Rational::from_double(wide_addend_[k]) != addends_[k]) usable_ = false;
      if (static_cast<double>(addend_[k]) != wide_addend_[k]) floats_ = false;
    }
  }

  bool usable() const { return usable_; }

  kernels::RoundToFloat view() const {
    kernels::RoundToFloat f;
    f.ratio = ratio_.data();
    f.offset = offset_.data();
    if (!addends_.empty() && floats_) f.addend = addend_.data();
    if (!addends_.empty() && !floats_) f.wide_addend = wide_addend_.data();
    f.exact = exact;
    f.context = this;
    return f;
  }

 private:
  static float exact(const void* self, std::size_t column, std::int64_t sum) {
    const auto& r = *static_cast<const FloatResult*>(self);
    const numerics::FloatFormat format = numerics::format_of(DType::float32);
    double y = numerics::round_to(Rational(sum) * r.ratios_[column] + r.offsets_[column], format);
    if (!r.addends_.empty() && std::isfinite(y)) {
      y = numerics::round_to(Rational::from_double(y) + r.addends_[column], format);
    }
    return static_cast<float>(y);
  }

  std::vector<Rational> ratios_, offsets_, addends_;
  std::vector<double> ratio_, offset_, wide_addend_;
  std::vector<float> addend_;
  bool floats_ = true;
  bool usable_ = true;
};

// One side's zero point: known, or read when the plan runs.
struct ZeroPoint {
  std::int32_t value = 0;  // of a stored byte
  std::size_t input = SIZE_MAX;
  bool is_signed = false;

  std::int32_t read(const Buffers& b) const {
    if (input == SIZE_MAX) return value;
    const auto v = std::to_integer<std::uint8_t>(*b.in[input]);
    return is_signed ? static_cast<std::int8_t>(v) + 128 : v;
  }
};

class MatMulKernel final : public Kernel {
 public:
  kernels::MatMulFunctions functions{};
  Product::Result result = Product::Result::bytes;
  std::int64_t batches = 1, rows = 1, depth = 1, columns = 1;
  std::vector<std::int64_t> left_index, right_index;  // by batch: number of the matrix
  std::int64_t left_count = 1, right_count = 1;       // different matrices
  std::size_t left_input = 0, right_input = 0;
  bool copy_left = false, transpose_left = false, transpose_right = false;
  ZeroPoint left_zero, right_zero;
  std::vector<std::int32_t> right_zeros;  // by column, where they differ (constant)
  bool row_sums = false;
  std::vector<std::int32_t> bias;  // by column, padded: what is added to sums
  // A constant right side, packed; 64-byte aligned storage.
  std::vector<std::int32_t> packed_sums;
  std::vector<std::byte> packed_store;
  std::unique_ptr<Requantization> requantization;
  std::unique_ptr<FloatResult> floats;

  std::int64_t blocks() const { return kernels::matmul_blocks(columns); }
  std::int64_t padded() const { return blocks() * kernels::kMatMulBlock; }
  std::int64_t left_stride() const { return copy_left ? kernels::matmul_depth(depth) : depth; }
  std::size_t packed_bytes() const { return aligned(padded() * kernels::matmul_depth(depth) * functions.element); }
  const std::byte* packed() const {
    const auto at = reinterpret_cast<std::uintptr_t>(packed_store.data());
    return packed_store.data() + ((at + 63) / 64 * 64 - at);
  }
  bool constant_right() const { return !packed_store.empty(); }

  void lay_out_scratch() {
    std::size_t at = 0;
    const auto take = [&](std::int64_t bytes) {
      const std::size_t here = at;
      at += aligned(bytes);
      return here;
    };
    left_at_ = take(copy_left ? left_count * rows * left_stride() + 64 : 0);
    row_sums_at_ = take(row_sums ? left_count * rows * 4 : 0);
    factor_at_ = take(row_sums ? padded() * 4 : 0);
    start_at_ = take(right_count * padded() * 4);
    right_at_ = take(constant_right() ? 0 : right_count * static_cast<std::int64_t>(packed_bytes()));
    scratch = at;
  }

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* left = reinterpret_cast<const std::uint8_t*>(b.in[left_input]);
    if (copy_left) {
      auto* copy = reinterpret_cast<std::uint8_t*>(b.scratch + left_at_);
      parallel(left_count * rows, [&](std::int64_t first, std::int64_t last) { copy_rows(left, copy, first, last); });
      left = copy;
    }
    const std::int32_t za = left_zero.read(b);
    const std::int32_t zb = right_zero.read(b) - 128;
    auto* sums = reinterpret_cast<std::int32_t*>(b.scratch + row_sums_at_);
    auto* factor = reinterpret_cast<std::int32_t*>(b.scratch + factor_at_);
    const bool use_rows = row_sums && (zb != 0 || !right_zeros.empty());
    if (use_rows) {
      parallel(left_count * rows, [&](std::int64_t first, std::int64_t last) {
        kernels::matmul_row_sums(left, left_stride(), depth, first, last, sums);
      });
      for (std::int64_t n = 0; n < padded(); ++n) {
        factor[n] = -(right_zeros.empty() ? zb : right_zeros[static_cast<std::size_t>(n)]);
      }
    }
    auto* start = reinterpret_cast<std::int32_t*>(b.scratch + start_at_);
    const std::byte* right = packed();
    if (!constant_right()) {
      right = b.scratch + right_at_;
      pack(b, parallel, za, zb, start);
    } else {
      starts(packed_sums.data(), start, za, zb, 0, padded());
    }

    // Pieces of work: for each batch and each few blocks, some rows.
    const std::int64_t row_parts = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    const std::int64_t block_parts = (blocks() + kBlocksAtOnce - 1) / kBlocksAtOnce;
    parallel(batches * block_parts * row_parts, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t batch = i / (block_parts * row_parts);
        const std::int64_t block = i / row_parts % block_parts;
        const std::int64_t part = i % row_parts;
        const auto at = static_cast<std::size_t>(batch);
        kernels::MatMulTask t;
        t.left = left + left_index[at] * rows * left_stride();
        t.left_stride = left_stride();
        t.depth = depth;
        t.columns = columns;
        t.right = right + right_index[at] * static_cast<std::int64_t>(packed_bytes());
        t.start = start + right_index[at] * padded();
        if (use_rows) {
          t.row_sums = sums + left_index[at] * rows;
          t.row_factor = factor;
        }
        multiply(t, b.out[0], batch,
                 {rows * part / row_parts, rows * (part + 1) / row_parts, blocks() * block / block_parts,
                  blocks() * (block + 1) / block_parts});
      }
    });
  }

  void multiply(const kernels::MatMulTask& t, std::byte* out, std::int64_t batch,
                const kernels::MatMulPart& part) const {
    const std::int64_t at = batch * rows * columns;
    switch (result) {
      case Product::Result::bytes:
        return functions.bytes(t, requantization->view(false), reinterpret_cast<std::uint8_t*>(out) + at, part);
      case Product::Result::floats:
        return functions.floats(t, floats->view(), reinterpret_cast<float*>(out) + at, part);
      case Product::Result::integers: return functions.integers(t, reinterpret_cast<std::int32_t*>(out) + at, part);
    }
  }

  kernels::MatMulRight right_side(const std::uint8_t* data) const {
    kernels::MatMulRight r;
    r.data = data;
    r.depth = depth;
    r.columns = columns;
    r.row = transpose_right ? 1 : columns;
    r.column = transpose_right ? depth : 1;
    return r;
  }

 private:
  void copy_rows(const std::uint8_t* from, std::uint8_t* to, std::int64_t first, std::int64_t last) const {
    for (std::int64_t r = first; r < last; ++r) {
      std::uint8_t* row = to + r * left_stride();
      if (transpose_left) {
        for (std::int64_t k = 0; k < depth; ++k) row[k] = from[k * rows + r];
      } else {
        std::memcpy(row, from + r * depth, static_cast<std::size_t>(depth));
      }
      for (std::int64_t k = depth; k < left_stride(); ++k) row[k] = 0;
    }
  }

  // What sums start from, from the sums of the packed columns [first, last).
  void starts(const std::int32_t* column_sums, std::int32_t* start, std::int32_t za, std::int32_t zb,
              std::int64_t first, std::int64_t last) const {
    for (std::int64_t n = first; n < last; ++n) {
      const auto k = static_cast<std::size_t>(n);
      const std::int32_t zero = right_zeros.empty() ? zb : right_zeros[k];
      const std::uint32_t both = static_cast<std::uint32_t>(za) * static_cast<std::uint32_t>(zero);
      start[n] = static_cast<std::int32_t>(static_cast<std::uint32_t>(bias.empty() ? 0 : bias[k]) -
                                           static_cast<std::uint32_t>(za) * static_cast<std::uint32_t>(column_sums[n]) +
                                           static_cast<std::uint32_t>(depth) * both);
    }
  }

  void pack(const Buffers& b, const ParallelFor& parallel, std::int32_t za, std::int32_t zb,
            std::int32_t* start) const {
    const auto* right = reinterpret_cast<const std::uint8_t*>(b.in[right_input]);
    std::byte* to = b.scratch + right_at_;
    parallel(right_count * blocks(), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last;) {
        const std::int64_t matrix = i / blocks();
        const std::int64_t begin = i % blocks();
        const std::int64_t end = std::min(blocks(), begin + last - i);
        std::int32_t* sums = start + matrix * padded();
        functions.pack(right_side(right + matrix * depth * columns),
                       to + matrix * static_cast<std::int64_t>(packed_bytes()), sums, begin, end);
        starts(sums, sums, za, zb, begin * kernels::kMatMulBlock, end * kernels::kMatMulBlock);
        i += end - begin;
      }
    });
  }

  std::size_t left_at_ = 0, row_sums_at_ = 0, factor_at_ = 0, start_at_ = 0, right_at_ = 0;
};

Shape leading(const Shape& s) { return {s.begin(), s.end() - 2}; }

// Number of the matrix of each batch; nullopt where the shapes do not broadcast to it.
std::optional<std::vector<std::int64_t>> matrices(const Shape& from, const Shape& batch) {
  std::vector<std::int64_t> out;
  for (const std::size_t i : ops::broadcast_indices(from, batch)) out.push_back(static_cast<std::int64_t>(i));
  return out;
}

// Leading dimensions of both, broadcast.
Shape broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const std::int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1;
    const std::int64_t y = k < b.size() ? b[b.size() - 1 - k] : 1;
    out[out.size() - 1 - k] = x == 1 ? y : x;
  }
  return out;
}

std::string read_geometry(const Site& site, const Product& p, MatMulKernel& kernel) {
  Shape a = site.shape(p.op.operands[0]->id);
  Shape b = site.shape(p.op.operands[1]->id);
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  if (p.transpose_left) std::swap(a[0], a[1]);
  if (p.transpose_right) std::swap(b[0], b[1]);
  const Shape batch = broadcast(leading(a), leading(b));
  kernel.batches = elements(batch);
  kernel.rows = a[a.size() - 2];
  kernel.depth = a.back();
  kernel.columns = b.back();
  if (kernel.batches * kernel.rows * kernel.columns == 0 || kernel.depth == 0) return "is empty";
  if (elements(site.shape(site.node.outputs[0])) != kernel.batches * kernel.rows * kernel.columns) {
    return "adds a tensor that is larger than the product";
  }
  kernel.left_index = *matrices(leading(a), batch);
  kernel.right_index = *matrices(leading(b), batch);
  kernel.left_count = elements(leading(a));
  kernel.right_count = elements(leading(b));
  // One right side for all: the batches are rows.
  if (kernel.right_count == 1 && kernel.left_count == kernel.batches && !p.transpose_left) {
    kernel.rows *= kernel.batches;
    kernel.batches = kernel.left_count = 1;
    kernel.left_index = kernel.right_index = {0};
  }
  kernel.transpose_left = p.transpose_left;
  kernel.transpose_right = p.transpose_right;
  kernel.copy_left = p.transpose_left || kernel.depth % 4 != 0;
  return "";
}

// What each column's scale, offset and addend are; false with a reason in `refusal`.
struct Columns {
  std::vector<Rational> ratios;  // of a sum, to the product's own unit
  std::vector<Rational> offsets;
  std::vector<Rational> addends;
};

template <class T>
const T& pick(const std::vector<T>& v, std::size_t n) {
  return v[v.size() == 1 ? 0 : n];
}

}  // namespace

kernels::MatMulFunctions matmul_functions(Isa isa) {
  if (isa >= Isa::vnni) return kernels::matmul_avx512_vnni();
  return isa >= Isa::avx2 ? kernels::matmul_avx2() : kernels::matmul_portable();
}

Offer make_matmul(const Site& site) {
  std::string refusal;
  auto p = read_product(site, refusal);
  if (!p) return refuse(refusal.empty() ? "has attributes that no kernel serves" : refusal);
  p->op.store_biased();
  const Operand& a = *p->op.operands[0];
  const Operand& b = *p->op.operands[1];
  const DType at = site.dtype(a.id);
  const DType bt = site.dtype(b.id);
  const Tensor* weights = site.constant(b.id);
  if (!is_byte(at) || bits(bt) > 8 || (weights == nullptr && !is_byte(bt)) ||
      (p->result == Product::Result::bytes && bits(p->op.out_type) != 8)) {
    return refuse("has other than 8-bit tensors");
  }
  if (!a.per_tensor()) return refuse("its left side is quantized per axis");
  auto kernel = std::make_unique<MatMulKernel>();
  if (const std::string why = read_geometry(site, *p, *kernel); !why.empty()) return refuse(why);
  const auto columns = static_cast<std::size_t>(kernel->columns);
  const auto fits = [&](std::size_t n) { return n <= 1 || n == columns; };
  const bool along_columns =
      p->transpose_right ? b.axis == 0 : b.axis + 1 == static_cast<std::int64_t>(site.shape(b.id).size());
  if (!b.per_tensor() &&
      (!along_columns || site.shape(b.id).size() < 2 || !fits(b.scales.size()) || !fits(b.zeros.size()))) {
    return refuse("its right side's scales do not run along the columns");
  }
  if (!fits(p->bias.size()) || !fits(p->addend.size())) return refuse("its bias is no vector");
  for (const auto& o : {a, b}) {
    for (const double s : o.scales) {
      if (!std::isfinite(s)) return refuse("has a scale without an answer");
    }
  }
  kernel->result = p->result;
  kernel->functions = matmul_functions(site.isa);

  // --- zero points, as stored bytes
  kernel->left_zero.value = byte_zero(site, a);
  kernel->left_zero.is_signed = at == DType::int8;
  if (p->left_zero.present()) kernel->left_zero.input = input_of(site.node, p->left_zero);
  const std::int32_t shift = is_signed_integer(bt) ? 128 : 0;
  kernel->right_zero.value = static_cast<std::int32_t>(b.zeros[0]) + shift;
  kernel->right_zero.is_signed = bt == DType::int8;
  if (p->right_zero.present()) kernel->right_zero.input = input_of(site.node, p->right_zero);
  if (b.zeros.size() > 1) {
    kernel->right_zeros.assign(static_cast<std::size_t>(kernel->padded()), 0);
    for (std::size_t n = 0; n < columns; ++n) {
      kernel->right_zeros[n] = static_cast<std::int32_t>(b.zeros[n]) + shift - 128;
    }
  }
  kernel->row_sums = p->right_zero.present() || b.zeros.size() > 1 || kernel->right_zero.value != 128;

  // --- a constant right side
  double reach = 255.0 * 255.0 * static_cast<double>(kernel->depth);
  if (weights != nullptr) {
    const auto values = ops::integers(*weights);
    std::vector<std::uint8_t> stored(values.size());
    std::transform(values.begin(), values.end(), stored.begin(),
                   [&](std::int64_t v) { return static_cast<std::uint8_t>(v + shift); });
    const auto count = static_cast<std::size_t>(kernel->right_count);
    kernel->packed_store.assign(count * kernel->packed_bytes() + 64, std::byte{0});
    kernel->packed_sums.assign(count * static_cast<std::size_t>(kernel->padded()), 0);
    if (kernel->right_count != 1) return refuse("multiplies by more than one constant matrix");
    auto* packed = const_cast<std::byte*>(kernel->packed());
    kernel->functions.pack(kernel->right_side(stored.data()), packed, kernel->packed_sums.data(), 0, kernel->blocks());
    if (!p->right_zero.present()) {
      std::vector<double> magnitude(columns, 0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t n = p->transpose_right ? i / static_cast<std::size_t>(kernel->depth) : i % columns;
        magnitude[n] += std::fabs(static_cast<double>(values[i] - pick(b.zeros, n)));
      }
      reach = 255.0 * *std::max_element(magnitude.begin(), magnitude.end());
    }
  }
  if (reach >= 0x1p31) return refuse("its sums may exceed int32");

  // --- what becomes of the sums
  if (p->result != Product::Result::integers) {
    const Rational sa = Rational::from_double(a.scales[0]) * p->alpha;
    const bool bytes = p->result == Product::Result::bytes;
    if (bytes && p->op.out_scale == 0) return refuse("its result's scale is 0");
    const Rational unit = bytes ? Rational(1) / Rational::from_double(p->op.out_scale) : Rational(1);
    std::vector<Rational> ratios;
    std::vector<Rational> offsets;
    std::vector<Rational> addends;
    std::vector<std::int32_t> bias(static_cast<std::size_t>(kernel->padded()), 0);
    double bound = reach;
    for (std::size_t n = 0; n < columns; ++n) {
      const Rational scale = sa * Rational::from_double(pick(b.scales, n));
      Rational offset = p->bias.empty() ? Rational() : pick(p->bias, n);
      if (!offset.is_zero() && !scale.is_zero()) {
        // A whole number of steps belongs into the sum, where it is exact.
        const Rational steps = offset / scale;
        const double size = std::fabs(steps.to_double());
        if (size < 0x1p30 && reach + size < 0x1p31 && steps == Rational::ratio(steps.trunc(), 1)) {
          bias[n] = static_cast<std::int32_t>(steps.trunc().get_si());
          bound = std::max(bound, reach + size);
          offset = Rational();
        }
      }
      ratios.push_back(scale * unit);
      offsets.push_back(offset * unit);
      if (!p->addend.empty()) addends.push_back(pick(p->addend, n));
    }
    kernel->bias = std::move(bias);
    if (bytes) {
      kernel->requantization =
          std::make_unique<Requantization>(std::move(ratios), std::move(offsets), Rational(), bound, 0, p->op);
      if (!kernel->requantization->usable()) return refuse("its bias is too large for a requantisation in double");
      kernel->rounding = kernel->requantization->rounding();
      kernel->note = kernel->requantization->describe();
    } else {
      kernel->floats = std::make_unique<FloatResult>(std::move(ratios), std::move(offsets), std::move(addends));
      if (!kernel->floats->usable()) return refuse("its scales or bias leave the range of double arithmetic");
      kernel->note = "double with a check: results that it leaves open are computed exactly";
    }
    reach = bound;
  }
  kernel->note = "|sum| <= " + std::to_string(static_cast<std::int64_t>(reach)) + ", int32" +
                 (kernel->note.empty() ? "" : "; " + kernel->note);
  kernel->lay_out_scratch();
  kernel->left_input = input_of(site.node, a.id);
  kernel->right_input = input_of(site.node, b.id);
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[kernel->left_input] = byte_form(Layout::plain, at);
  if (weights == nullptr) kernel->in_forms[kernel->right_input] = byte_form(Layout::plain, bt);
  for (const ir::ValueId id : {p->left_zero, p->right_zero}) {
    if (id.present()) kernel->in_forms[input_of(site.node, id)] = Form{};
  }
  if (p->result == Product::Result::bytes) kernel->out_form = byte_form(Layout::plain, p->op.out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
