// The structural hash. Each value gets a digest of how it comes about; names and the order of the nodes do not enter.
#include <algorithm>
#include <bit>
#include <map>

#include "ir/digest.hpp"
#include "ir/graph.hpp"
#include "ir/sha256.hpp"

namespace halfeven::ir {
namespace {

// Starts every digest, so that one kind of thing is never taken for another.
enum class Tag : std::uint64_t { absent, input, constant, node, output, graph };

std::uint64_t as_number(Tag tag) { return static_cast<std::uint64_t>(tag); }

void add_shape(Sha256& sha, const Shape& shape) {
  sha.number(shape.size());
  for (const std::int64_t dim : shape) sha.number(static_cast<std::uint64_t>(dim));
}

void add_tensor(Sha256& sha, const Tensor& tensor) {
  sha.number(static_cast<std::uint64_t>(tensor.dtype()));
  add_shape(sha, tensor.shape());
  sha.bytes(tensor.bytes());
}

void add_item(Sha256& sha, std::int64_t value) { sha.number(static_cast<std::uint64_t>(value)); }
void add_item(Sha256& sha, float value) { sha.number(std::bit_cast<std::uint32_t>(value)); }
void add_item(Sha256& sha, const std::string& value) { sha.text(value); }
void add_item(Sha256& sha, const Tensor& value) { add_tensor(sha, value); }
template <class T>
void add_item(Sha256& sha, const std::vector<T>& values) {
  sha.number(values.size());
  for (const T& value : values) add_item(sha, value);
}

void add_attributes(Sha256& sha, const std::map<std::string, Attribute>& attributes) {
  sha.number(attributes.size());
  for (const auto& [name, attribute] : attributes) {
    sha.text(name).number(attribute.index());
    std::visit([&](const auto& value) { add_item(sha, value); }, attribute);
  }
}

void add_operator(Sha256& sha, const Node& node) {
  sha.number(as_number(Tag::node)).text(node.domain).text(node.op_type);
  sha.number(static_cast<std::uint64_t>(node.version)).number(node.outputs.size());
  for (const ValueId id : node.outputs) sha.number(id.present());
  add_attributes(sha, node.attributes);
  if (node.body) sha.text(structural_hash(*node.body));
}

class Hasher {
 public:
  explicit Hasher(const Graph& graph) : graph_(graph), values_(graph.values.size()), known_(graph.values.size()) {}

  std::string hash() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) hash_input(i);
    std::vector<Digest> nodes;
    nodes.reserve(graph_.nodes.size());
    for (const Node& node : graph_.nodes) nodes.push_back(hash_node(node));
    std::sort(nodes.begin(), nodes.end());

    Sha256 sha;
    sha.number(as_number(Tag::graph)).number(graph_.inputs.size());
    for (const ValueId id : graph_.inputs) sha.bytes(value(id));
    sha.number(nodes.size());
    for (const Digest& node : nodes) sha.bytes(node);
    sha.number(graph_.outputs.size());
    for (const ValueId id : graph_.outputs) sha.bytes(value(id));
    return to_hex(sha.digest());
  }

 private:
  // Symbols are numbered as they appear: their identity counts, not their name.
  void hash_input(std::size_t position) {
    const ValueId id = graph_.inputs[position];
    const Value& input = graph_.value(id);
    Sha256 sha;
    sha.number(as_number(Tag::input)).number(position).number(static_cast<std::uint64_t>(input.dtype));
    sha.number(input.shape.has_value());
    if (input.shape) add_shape(sha, *input.shape);
    sha.number(input.dim_names.size());
    for (const std::string& symbol : input.dim_names) {
      sha.number(symbol.empty() ? 0 : symbols_.try_emplace(symbol, symbols_.size() + 1).first->second);
    }
    const auto initial = graph_.initializers.find(id);
    sha.number(initial != graph_.initializers.end());
    if (initial != graph_.initializers.end()) add_tensor(sha, initial->second);
    set(id, sha.digest());
  }

  Digest hash_node(const Node& node) {
    Sha256 sha;
    add_operator(sha, node);
    sha.number(node.inputs.size());
    for (const ValueId id : node.inputs) sha.bytes(value(id));
    const Digest digest = sha.digest();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].present()) continue;
      set(node.outputs[i], Sha256().number(as_number(Tag::output)).number(i).bytes(digest).digest());
    }
    return digest;
  }

  const Digest& value(ValueId id) {
    static const Digest absent = Sha256().number(as_number(Tag::absent)).digest();
    if (!id.present()) return absent;
    if (!known_[id.index]) {
      Sha256 sha;
      sha.number(as_number(Tag::constant));
      const auto constant = graph_.initializers.find(id);
      if (constant != graph_.initializers.end()) add_tensor(sha, constant->second);
      set(id, sha.digest());
    }
    return values_[id.index];
  }

  void set(ValueId id, const Digest& digest) {
    values_[id.index] = digest;
    known_[id.index] = true;
  }

  const Graph& graph_;
  std::vector<Digest> values_;
  std::vector<bool> known_;
  std::map<std::string, std::uint64_t> symbols_;
};

}  // namespace

std::string digest(const Node& node) {
  Sha256 sha;
  add_operator(sha, node);
  return to_hex(sha.digest());
}

std::string structural_hash(const Graph& graph) { return Hasher(graph).hash(); }

}  // namespace halfeven::ir
