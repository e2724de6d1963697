// Lowering, last step: groups for the kernels. Unlike the passes' groups, these repeat short chains from 8-bit codes
// for every reader (a table is cheaper than a float tensor) and may have float results.
#include <algorithm>
#include <optional>
#include <set>

#include "passes/qdq.hpp"
#include "passes/region.hpp"
#include "plan/lower_steps.hpp"

namespace halfeven::plan {

using passes::Editor;

namespace {

class Regroup {
 public:
  explicit Regroup(const ir::Graph& graph) : e_(graph), code_(graph.values.size()) { find_codes(); }

  ir::Graph run() {
    const std::size_t count = e_.node_count();
    for (std::size_t n = count; n-- > 0;) {
      if (!e_.alive(n)) continue;
      const ir::Node& node = e_.node(n);
      if (node.outputs.size() == 1 && !e_.is_output(node.outputs[0]) && e_.readers(node.outputs[0]).empty()) {
        e_.remove_node(n);  // its readers have copies of it
        continue;
      }
      if (passes::is_quantize(node)) {
        quantized(n);
      } else if (joins_groups(node) && is_float(e_.graph().value(node.outputs[0]).dtype)) {
        group({n}, std::nullopt);
      }
    }
    return e_.changes() > 0 ? e_.finish() : e_.graph();
  }

 private:
  // By value: the 8-bit tensor that it is a function of, element by element, together with single numbers.
  struct Code {
    enum class Kind : std::uint8_t { other, number, code } kind = Kind::other;
    ir::ValueId source;
  };

  void find_codes() {
    for (std::size_t v = 0; v < code_.size(); ++v) {
      const Tensor* t = e_.constant({static_cast<std::uint32_t>(v)});
      if (t != nullptr && t->size() == 1) code_[v].kind = Code::Kind::number;
    }
    for (std::size_t n = 0; n < e_.node_count(); ++n) {
      const ir::Node& node = e_.node(n);
      if (node.outputs.empty() || !node.outputs[0].present()) continue;
      Code& out = code_[node.outputs[0].index];
      if (passes::is_dequantize(node)) {
        const auto p = passes::parameters_of(e_, n);
        if (p && p->per_tensor() && bits(p->type) == 8 && e_.constant(node.inputs[0]) == nullptr) {
          out = {Code::Kind::code, node.inputs[0]};
        }
        continue;
      }
      if (!joins_groups(node)) continue;
      Code joint{Code::Kind::number, {}};
      for (const ir::ValueId id : node.inputs) {
        if (!id.present()) continue;
        const Code& in = code_[id.index];
        if (in.kind == Code::Kind::other ||
            (in.kind == Code::Kind::code && joint.kind == Code::Kind::code && in.source != joint.source)) {
          joint.kind = Code::Kind::other;
          break;
        }
        if (in.kind == Code::Kind::code) joint = in;
      }
      // A chain that changes the shape is no table of its source.
      if (joint.kind == Code::Kind::code &&
          e_.graph().value(joint.source).shape != e_.graph().value(node.outputs[0]).shape) {
        joint.kind = Code::Kind::other;
      }
      if (joint.kind == Code::Kind::code) out = joint;
    }
  }

  void quantized(std::size_t n) {
    const auto p = passes::parameters_of(e_, n);
    if (!p) return;
    std::vector<std::size_t> roots{n};
    const ir::ValueId codes = e_.node(n).outputs[0];
    if (const auto clip = e_.only_reader(codes); clip && is_integer_clip(*clip, codes)) roots.push_back(*clip);
    const auto source = e_.producer(e_.node(n).inputs[0]);
    if (!source) return;
    const ir::Node& before = e_.node(*source);
    const bool softmax = before.domain.empty() && !before.body && before.op_type == "Softmax";
    if ((is_pool(before) || softmax || is_word_maximum(before)) && e_.only_reader(before.outputs[0]) == n) {
      roots.push_back(*source);
      group(roots, *source);
    } else if (joins_groups(before) || passes::is_dequantize(before)) {
      group(roots, std::nullopt);
    }
  }

  // MaxPool of a dequantized 16-bit tensor: ONNX has none of the integers.
  bool is_word_maximum(const ir::Node& node) const {
    if (!node.domain.empty() || node.body || node.op_type != "MaxPool" || node.outputs.size() != 1) return false;
    const auto d = passes::dequantize_at(e_, node.inputs[0]);
    return d && bits(e_.graph().value(e_.node(*d).inputs[0]).dtype) == 16;
  }

  bool is_integer_clip(std::size_t n, ir::ValueId input) const {
    const ir::Node& node = e_.node(n);
    if (!node.domain.empty() || node.op_type != "Clip" || node.inputs[0] != input) return false;
    for (std::size_t k = 1; k < node.inputs.size(); ++k) {
      if (node.inputs[k].present() && e_.constant(node.inputs[k]) == nullptr) return false;
    }
    return true;
  }

  // Grows a region backwards from the roots and makes it one node. With a pool, only chains from codes join.
  void group(const std::vector<std::size_t>& roots, std::optional<std::size_t> heavy) {
    passes::Region r;
    r.nodes.insert(roots.begin(), roots.end());
    r.heavy = heavy;
    std::set<std::size_t> open;
    std::set<std::size_t> outside;
    const auto enlist = [&](std::size_t n) {
      for (const ir::ValueId id : e_.node(n).inputs) {
        const auto p = e_.producer(id);
        if (p && !r.nodes.contains(*p) && !outside.contains(*p)) open.insert(*p);
      }
    };
    for (const std::size_t n : roots) enlist(n);
    while (!open.empty()) {
      const std::size_t n = *open.rbegin();
      open.erase(n);
      const ir::Node& node = e_.node(n);
      const ir::ValueId out = node.outputs[0];
      bool copies = passes::is_dequantize(node) && passes::parameters_of(e_, n).has_value();
      bool takes = copies;
      if (joins_groups(node) && e_.graph().value(out).dtype == DType::float32) {
        const auto& readers = e_.readers(out);
        const bool ours = !e_.is_output(out) && std::all_of(readers.begin(), readers.end(), [&](std::size_t reader) {
          return r.nodes.contains(reader) && !r.dequantizes.contains(reader);
        });
        const bool code = code_[out.index].kind == Code::Kind::code;
        takes = code || (ours && !heavy);
        copies = takes && !ours;
      }
      if (!takes) {
        outside.insert(n);
        continue;
      }
      r.nodes.insert(n);
      if (copies) r.dequantizes.insert(n);
      enlist(n);
    }
    if (r.nodes.size() == 1) return;
    const ir::ValueId result = e_.node(last_root(roots)).outputs[0];
    const ir::Node* named = heavy ? &e_.node(*heavy) : nullptr;
    for (auto n = r.nodes.rbegin(); n != r.nodes.rend() && named == nullptr; ++n) {
      const ir::Node& node = e_.node(*n);
      if (joins_groups(node) && is_float(e_.graph().value(node.outputs[0]).dtype)) named = &node;
    }
    const bool quantizes = !is_float(e_.graph().value(result).dtype);
    std::string type = named == nullptr ? "Requantize" : (quantizes ? "Q" : "") + named->op_type;
    const std::string name = named == nullptr || named->name.empty() ? e_.graph().value(result).name : named->name;
    passes::make_group(e_, r, result, type, name);
  }

  // The root that gives the result: the Clip behind the QuantizeLinear, if there is one.
  std::size_t last_root(const std::vector<std::size_t>& roots) const {
    if (roots.size() > 1 && e_.node(roots[1]).op_type == "Clip") return roots[1];
    return roots[0];
  }

  Editor e_;
  std::vector<Code> code_;
};

}  // namespace

ir::Graph regroup(const ir::Graph& graph) { return Regroup(graph).run(); }

}  // namespace halfeven::plan
