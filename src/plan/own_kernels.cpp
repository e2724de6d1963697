#include "plan/own_kernels.hpp"

#include <algorithm>

#include "interpreter/interpreter.hpp"

namespace halfeven::plan {

void ReferenceKernel::run(const Buffers& b, const ParallelFor&) const {
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const ir::Value& v = graph.value(graph.inputs[k]);
    const std::size_t bytes = element_count(*v.shape) * storage_size(v.dtype);
    inputs.push_back(Tensor::view(v.dtype, *v.shape, {b.in[k], bytes}));
  }
  interpreter::Options options;
  options.threads = threads;
  const auto outputs = interpreter::run(graph, facts, inputs, options);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const auto bytes = outputs[k].bytes();
    std::copy(bytes.begin(), bytes.end(), b.out[k]);
  }
}

template <class T>
void ConvertKernel::move(const Buffers& b, const ParallelFor& parallel) const {
  const T* in = reinterpret_cast<const T*>(b.in[0]);
  T* out = reinterpret_cast<T*>(b.out[0]);
  if (batch == 1 && rows == 1) {
    return parallel(columns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t c = first; c < last; ++c) out[c] = in[c] ^ flip;
    });
  }
  parallel(batch * rows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const T* from = in + r / rows * rows * columns + r % rows;
      T* to = out + r * columns;
      for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c * rows] ^ flip;
    }
  });
}

void ConvertKernel::run(const Buffers& b, const ParallelFor& parallel) const {
  switch (element) {
    case 2: return move<std::uint16_t>(b, parallel);
    case 4: return move<std::uint32_t>(b, parallel);
    case 8: return move<std::uint64_t>(b, parallel);
    default: return move<std::uint8_t>(b, parallel);
  }
}

}  // namespace halfeven::plan
