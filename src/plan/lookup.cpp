// Tables: the Table operator, and groups whose result an 8-bit code decides, alone or together with its channel.
#include "cpu/elementwise/lookup.hpp"

#include <algorithm>

#include "ops/common.hpp"
#include "plan/linear_table.hpp"
#include "plan/program.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

// What a code stands for: codes of 1 or 2 bytes, entries of 1, 2 or 4.
class LookupKernel final : public Kernel {
 public:
  std::vector<std::byte> table;
  std::size_t input = 0;
  std::size_t code_bytes = 1;
  std::size_t entry_bytes = 1;
  std::int64_t size = 0;
  kernels::LookupFunction function = nullptr;  // bytes to bytes

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      if (code_bytes == 1 && entry_bytes == 1) {
        function(reinterpret_cast<const std::uint8_t*>(table.data()),
                 reinterpret_cast<const std::uint8_t*>(b.in[input]), reinterpret_cast<std::uint8_t*>(b.out[0]),
                 static_cast<std::size_t>(first), static_cast<std::size_t>(last));
      } else if (code_bytes == 1) {
        from_codes<std::uint8_t>(b, first, last);
      } else {
        from_codes<std::uint16_t>(b, first, last);
      }
    });
  }

 private:
  template <class C>
  void from_codes(const Buffers& b, std::int64_t first, std::int64_t last) const {
    switch (entry_bytes) {
      case 1: return pick<C, std::uint8_t>(b, first, last);
      case 2: return pick<C, std::uint16_t>(b, first, last);
      default: return pick<C, std::uint32_t>(b, first, last);
    }
  }
  template <class C, class T>
  void pick(const Buffers& b, std::int64_t first, std::int64_t last) const {
    const C* in = reinterpret_cast<const C*>(b.in[input]);
    const T* from = reinterpret_cast<const T*>(table.data());
    T* to = reinterpret_cast<T*>(b.out[0]);
    for (std::int64_t i = first; i < last; ++i) to[i] = from[in[i]];
  }
};

// A table of 16-bit codes that is computed.
class LinearKernel final : public Kernel {
 public:
  kernels::LinearWords line;
  std::int64_t size = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      kernels::linear_words_avx512(line, reinterpret_cast<const std::uint16_t*>(b.in[0]),
                                   reinterpret_cast<std::uint16_t*>(b.out[0]), first, last);
    });
  }
};

// A table for each channel.
class ChannelLookupKernel final : public Kernel {
 public:
  std::vector<std::byte> table;  // [channels][256]
  std::size_t input = 0;
  std::int64_t channels = 1;
  std::int64_t pixels = 1;  // that follow each other in one channel: 1 where channels lie last
  std::int64_t size = 0;
  kernels::LookupFunction function = nullptr;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* from = reinterpret_cast<const std::uint8_t*>(table.data());
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[input]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    if (pixels > 1) {
      parallel(size / pixels, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t p = first; p < last; ++p) {
          function(from + p % channels * 256, in, out, static_cast<std::size_t>(p * pixels),
                   static_cast<std::size_t>((p + 1) * pixels));
        }
      });
      return;
    }
    parallel(size / channels, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t p = first; p < last; ++p) {
        const std::uint8_t* codes = in + p * channels;
        std::uint8_t* to = out + p * channels;
        for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c * 256 + codes[c]];
      }
    });
  }
};

// The same, computed.
class ChannelLinesKernel final : public Kernel {
 public:
  kernels::ChannelLines lines;
  std::size_t input = 0;
  std::int64_t size = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    parallel((size + 63) / 64, [&](std::int64_t first, std::int64_t last) {
      kernels::channel_lines_avx512(lines, reinterpret_cast<const std::uint8_t*>(b.in[input]),
                                    reinterpret_cast<std::uint8_t*>(b.out[0]), static_cast<std::size_t>(first * 64),
                                    static_cast<std::size_t>(std::min(last * 64, size)));
    });
  }
};

// The stored zero point of the DequantizeLinear that reads the body's input, where a function of its value may bend.
std::int32_t zero_code(const Site& site, const ir::Graph& body, std::size_t input) {
  const DType type = site.dtype(site.node.inputs[input]);
  const std::int32_t bias = type == DType::int8 ? 128 : 0;
  for (const ir::Node& n : body.nodes) {
    if (n.op_type != "DequantizeLinear" || n.inputs[0] != body.inputs[input]) continue;
    if (n.inputs.size() < 3 || !n.inputs[2].present()) return bias;
    const auto at = std::find(body.inputs.begin(), body.inputs.end(), n.inputs[2]);
    if (at == body.inputs.end()) return bias;
    const Tensor* zero = site.constant(site.node.inputs[static_cast<std::size_t>(at - body.inputs.begin())]);
    return bias + (zero == nullptr ? 0 : static_cast<std::int32_t>(ops::integers(*zero)[0]));
  }
  return bias;
}

kernels::LookupFunction lookup_for(const Site& site) {
  if (site.isa >= Isa::avx512) return kernels::lookup_avx512;
  return site.isa >= Isa::avx2 ? kernels::lookup_avx2 : kernels::lookup_portable;
}

// By the stored byte: signed codes and entries are stored with 128 added.
std::vector<std::byte> stored_entries(const Tensor& table) {
  std::vector<std::byte> bytes(table.bytes().begin(), table.bytes().end());
  if (table.dtype() == DType::int8) {
    for (std::byte& v : bytes) v ^= std::byte{0x80};
  }
  return bytes;
}

}  // namespace

Offer make_lookup(const Site& site) {
  const ir::Node& node = site.node;
  if (node.op_type != "Table" || node.domain != "halfeven") return refuse("is no table");
  const Tensor* table = site.constant(node.inputs[1]);
  const DType type = site.dtype(node.inputs[0]);
  const std::size_t width = storage_size(type);
  if (table == nullptr || !is_integer(type) || (bits(type) != 8 && bits(type) != 16) ||
      table->size() != std::size_t{1} << bits(type)) {
    return refuse("has other than 8- and 16-bit codes");
  }
  const std::size_t entry = storage_size(table->dtype());
  if (entry != 1 && entry != 2 && entry != 4) return refuse("has entries of another size");
  auto kernel = std::make_unique<LookupKernel>();
  kernel->table = stored_entries(*table);
  if (type == DType::int16) {  // entry i belongs to code least + i, but is looked up by the code's bits
    const std::size_t half = kernel->table.size() / 2;
    std::rotate(kernel->table.begin(), kernel->table.begin() + static_cast<std::ptrdiff_t>(half), kernel->table.end());
  }
  if (width == 2 && entry == 2 && is_integer(table->dtype()) && site.isa >= Isa::avx512) {
    const std::span entries(reinterpret_cast<const std::uint16_t*>(kernel->table.data()), kernel->table.size() / 2);
    const auto flip = [](DType t) { return static_cast<std::uint16_t>(t == DType::int16 ? 0x8000 : 0); };
    if (auto line = find_line(entries, flip(type), flip(table->dtype()))) {
      auto linear = std::make_unique<LinearKernel>();
      linear->line = *line;
      linear->in_place = true;
      linear->size = elements(site.shape(node.outputs[0]));
      linear->in_forms = {Form{site.layout(node.inputs[0])}};
      linear->out_form = {site.layout(node.inputs[0])};
      linear->note = std::string("a line between two bounds") + (line->units ? " in units of 2^-32" : "") +
                     "; all 65,536 results compared with the table's";
      return {std::move(linear), ""};
    }
  }
  kernel->in_place = entry == width;
  kernel->code_bytes = width;
  kernel->entry_bytes = entry;
  kernel->size = elements(site.shape(node.outputs[0]));
  kernel->function = lookup_for(site);
  const Layout layout = site.layout(node.inputs[0]);
  kernel->in_forms = {Form{layout, type == DType::int8}};
  kernel->out_form = {layout, table->dtype() == DType::int8};
  return {std::move(kernel), ""};
}

Offer make_codes(const Site& site) {
  const ir::Node& node = site.node;
  if (node.outputs.size() != 1 || (!node.body && !node.domain.empty())) return refuse("is no elementwise operator");
  const ops::BoundBody body = body_at(site);
  const auto code = only_code(site, body);
  if (!code) return refuse("depends on no 8-bit tensor, or on several");
  Tensor table;
  try {
    table = evaluate_codes(site, body, body.graph.outputs[0], code->input, code->channels);
  } catch (const Error& e) {
    return refuse(std::string("some codes have no answer: ") + e.what());
  }
  if (table.size() != 256 * static_cast<std::size_t>(code->channels)) return refuse("adds dimensions");
  const ir::ValueId id = node.inputs[code->input];
  const Layout layout = site.layout(id);
  const std::size_t entry = storage_size(table.dtype());
  std::vector<std::optional<Form>> in_forms(node.inputs.size());
  in_forms[code->input] = byte_form(layout, site.dtype(id));
  std::unique_ptr<Kernel> made;
  if (code->channels > 1) {
    if (entry != 1) return refuse("has tables of more than bytes");
    auto kernel = std::make_unique<ChannelLookupKernel>();
    const auto entries = stored_entries(table);  // [256][channels]
    const auto channels = static_cast<std::size_t>(code->channels);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t q = 0; q < 256; ++q) kernel->table.push_back(entries[q * channels + c]);
    }
    const Shape& shape = site.shape(id);
    std::optional<kernels::ChannelLines> lines;
    if (layout == Layout::channels_last && site.isa >= Isa::avx512) {
      const std::span bytes(reinterpret_cast<const std::uint8_t*>(kernel->table.data()), kernel->table.size());
      lines = find_channel_lines(bytes, zero_code(site, body.graph, code->input));
    }
    if (lines) {
      auto linear = std::make_unique<ChannelLinesKernel>();
      linear->lines = std::move(*lines);
      linear->input = code->input;
      linear->size = elements(shape);
      made = std::move(linear);
      made->in_place = true;
      made->note = "lines for each of " + std::to_string(channels) + " channels, all 256 results compared with a table";
    } else {
      kernel->input = code->input;
      kernel->channels = code->channels;
      kernel->size = elements(shape);
      kernel->function = lookup_for(site);
      if (layout == Layout::plain && kernel->size > 0) kernel->pixels = kernel->size / shape[0] / shape[1];
      made = std::move(kernel);
      made->note = "a table for each of " + std::to_string(channels) + " channels";
    }
  } else {
    if (entry != 1 && entry != 2 && entry != 4) return refuse("has results of another size");
    auto kernel = std::make_unique<LookupKernel>();
    kernel->table = stored_entries(table);
    kernel->input = code->input;
    kernel->entry_bytes = entry;
    kernel->size = elements(site.shape(id));
    kernel->function = lookup_for(site);
    made = std::move(kernel);
    made->note = "a table of " + std::to_string(table.size()) + " results";
  }
  made->in_forms = std::move(in_forms);
  made->out_form = {layout, table.dtype() == DType::int8};
  return {std::move(made), ""};
}

}  // namespace halfeven::plan
