#include "plan/fallback.hpp"

#include <algorithm>
#include <cstring>

#include "interpreter/interpreter.hpp"
#include "ops/common.hpp"

namespace halfeven::plan {

void change_form(const std::byte* from, Form has, std::byte* to, Form wanted, const Shape& shape, DType type) {
  const std::size_t size = storage_size(type);
  const std::size_t count = element_count(shape);
  const bool moves = has.layout != wanted.layout && shape.size() >= 3 && count > 0;
  std::size_t rows = 1;
  std::size_t columns = count;
  if (moves) {
    const auto channels = static_cast<std::size_t>(shape[1]);
    const std::size_t pixels = count / static_cast<std::size_t>(shape[0]) / channels;
    rows = wanted.layout == Layout::channels_last ? pixels : channels;
    columns = wanted.layout == Layout::channels_last ? channels : pixels;
  }
  const std::byte flip{static_cast<unsigned char>(has.biased != wanted.biased ? 0x80 : 0)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t image = i / (rows * columns);
    const std::size_t within = i % (rows * columns);
    const std::size_t source = image * rows * columns + within % columns * rows + within / columns;
    std::memcpy(to + i * size, from + source * size, size);
    to[i * size] ^= flip;
  }
}

Fallback::Fallback(const Site& site) {
  graph_.opsets = site.graph.opsets;
  ir::Node node = site.node;
  std::map<ir::ValueId, ir::ValueId> inner;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    ir::ValueId& id = node.inputs[k];
    if (!id.present()) continue;
    const auto [at, fresh] = inner.try_emplace(id, ir::ValueId{static_cast<std::uint32_t>(graph_.values.size())});
    if (fresh) {
      graph_.values.push_back(site.graph.value(id));
      if (const Tensor* constant = site.constant(id)) {
        graph_.initializers.emplace(at->second, *constant);
      } else {
        graph_.inputs.push_back(at->second);
        inputs_.push_back(k);
      }
    }
    id = at->second;
  }
  for (ir::ValueId& id : node.outputs) {
    if (!id.present()) continue;
    graph_.values.push_back(site.graph.value(id));
    id = {static_cast<std::uint32_t>(graph_.values.size() - 1)};
    graph_.outputs.push_back(id);
  }
  graph_.nodes.push_back(std::move(node));
  facts_ = ops::validate(graph_);
}

void Fallback::run(std::span<const std::byte* const> in, std::span<const std::optional<Form>> forms, std::byte* out,
                   Form out_form) const {
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const ir::Value& v = graph_.value(graph_.inputs[k]);
    std::vector<std::byte> bytes(element_count(*v.shape) * storage_size(v.dtype));
    change_form(in[inputs_[k]], *forms[inputs_[k]], bytes.data(), Form{}, *v.shape, v.dtype);
    inputs.push_back(Tensor::own(v.dtype, *v.shape, std::move(bytes)));
  }
  const std::vector<Tensor> results = interpreter::run(graph_, facts_, inputs, {});
  change_form(results[0].data(), Form{}, out, out_form, results[0].shape(), results[0].dtype());
}

}  // namespace halfeven::plan
