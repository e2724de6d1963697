#include "cpu/onednn/onednn.hpp"

#include <stdexcept>

#ifdef HALFEVEN_ONEDNN
#include <unordered_map>

#ifdef HALFEVEN_ONEDNN_OPENMP
#include <omp.h>
#endif

#include <oneapi/dnnl/dnnl.hpp>

namespace halfeven::kernels::onednn {
namespace {

using dnnl::memory;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN asks OpenMP for as many threads as the calling one may use: when a primitive is made, which then expects them,
// and when it runs. The application's own setting comes back.
class Threads {
 public:
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
#ifdef HALFEVEN_ONEDNN_OPENMP
  explicit Threads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
#else
  explicit Threads(int) {}
  ~Threads() = default;
#endif
};

// oneDNN 2.6 and 3.x differ in how a primitive is described, and in nothing else that is used here.
dnnl::convolution_forward::primitive_desc describe(const memory::desc& in, const memory::desc& weights,
                                                   const memory::desc& out, const memory::dims& strides,
                                                   const memory::dims& dilations, const dnnl::primitive_attr& attr) {
  const memory::dims none{0, 0};
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {cpu(), kKind, kAlgorithm, in, weights, out, strides, dilations, none, none, attr};
#else
  const dnnl::convolution_forward::desc desc(kKind, kAlgorithm, in, weights, out, strides, dilations, none, none);
  return {desc, attr, cpu()};
#endif
}

}  // namespace

std::string why_not_exact() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx: return "";
#if DNNL_VERSION_MAJOR >= 3
    case dnnl::cpu_isa::avx512_core_fp16:
    case dnnl::cpu_isa::avx512_core_amx_fp16: return "";
#endif
    default: return "oneDNN uses no VNNI here, so its sums saturate";
  }
}

struct Convolution::Impl {
  dnnl::convolution_forward::primitive_desc description;
  dnnl::convolution_forward primitive;
  memory weights;
};

Convolution::Convolution(const Shape& s, const std::int8_t* weights, int threads) : impl_(std::make_unique<Impl>()) {
  const Threads limit(threads);
  try {
    const memory::dims in{s.batch, s.groups * s.channels, s.height, s.width};
    const memory::dims out{s.batch, s.groups * s.out_channels, s.out_height, s.out_width};
    memory::dims kernel{s.out_channels, s.channels, s.kernel_h, s.kernel_w};
    memory::format_tag given = memory::format_tag::ohwi;
    if (s.groups > 1) {
      kernel.insert(kernel.begin(), s.groups);
      given = memory::format_tag::gohwi;
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    impl_->description = describe({in, memory::data_type::u8, memory::format_tag::nhwc},
                                  {kernel, memory::data_type::s8, memory::format_tag::any},
                                  {out, memory::data_type::s32, memory::format_tag::nhwc}, {s.stride_h, s.stride_w},
                                  {s.dilation_h - 1, s.dilation_w - 1}, attr);
    impl_->primitive = dnnl::convolution_forward(impl_->description);
    // oneDNN reads, only, through its pointer to what is no const.
    memory plain({kernel, memory::data_type::s8, given}, cpu(), const_cast<std::int8_t*>(weights));
    impl_->weights = memory(impl_->description.weights_desc(), cpu());
    dnnl::stream stream(cpu());
    dnnl::reorder(plain, impl_->weights).execute(stream, plain, impl_->weights);
    stream.wait();
  } catch (const dnnl::error& e) {
    throw std::runtime_error(e.what());
  }
}

std::size_t Convolution::scratch_bytes() const { return impl_->description.scratchpad_desc().get_size(); }
std::size_t Convolution::weight_bytes() const { return impl_->description.weights_desc().get_size(); }
std::string Convolution::implementation() const { return impl_->description.impl_info_str(); }

void Convolution::run(const std::uint8_t* input, std::int32_t* sums, std::byte* scratch, int threads) const {
  const Threads limit(threads);
  dnnl::stream stream(cpu());
  const auto& d = impl_->description;
  impl_->primitive.execute(stream, {{DNNL_ARG_SRC, memory(d.src_desc(), cpu(), const_cast<std::uint8_t*>(input))},
                                    {DNNL_ARG_WEIGHTS, impl_->weights},
                                    {DNNL_ARG_DST, memory(d.dst_desc(), cpu(), sums)},
                                    {DNNL_ARG_SCRATCHPAD, memory(d.scratchpad_desc(), cpu(), scratch)}});
  stream.wait();
}

}  // namespace halfeven::kernels::onednn

#else  // built without oneDNN
namespace halfeven::kernels::onednn {

std::string why_not_exact() { return "oneDNN is not built in"; }

struct Convolution::Impl {};
Convolution::Convolution(const Shape&, const std::int8_t*, int) { throw std::runtime_error(why_not_exact()); }
std::size_t Convolution::scratch_bytes() const { return 0; }
std::size_t Convolution::weight_bytes() const { return 0; }
std::string Convolution::implementation() const { return ""; }
void Convolution::run(const std::uint8_t*, std::int32_t*, std::byte*, int) const {}

}  // namespace halfeven::kernels::onednn
#endif

namespace halfeven::kernels::onednn {
Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;
}  // namespace halfeven::kernels::onednn
