// What a step of a plan runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "halfeven/executable.hpp"
#include "ir/graph.hpp"

namespace halfeven::plan {

/// How a tensor of rank 3 or more lies in memory.
enum class Layout : std::uint8_t {
  plain,          ///< as ONNX has it: N, C, H, W
  channels_last,  ///< N, H, W, C
};

/// How a value is stored between two steps.
struct Form {
  Layout layout = Layout::plain;
  bool biased = false;  ///< int8 stored as uint8, 128 added: what kernels for unsigned activations want

  bool operator==(const Form&) const = default;
  bool operator<(const Form& o) const { return layout != o.layout ? layout < o.layout : biased < o.biased; }
};

/// Runs pieces of a range on the threads of a Context. Allocates nothing.
class ParallelFor {
 public:
  using Piece = void (*)(const void* f, std::int64_t begin, std::int64_t end);
  using Run = void (*)(void* pool, std::int64_t n, Piece piece, const void* f);

  ParallelFor(void* pool, Run run, int threads) : pool_(pool), run_(run), threads_(threads) {}

  int threads() const { return threads_; }

  /// f(begin, end) on pieces that cover [0, n), each number once; returns when all are done. Pieces are a fixed
  /// function of n and threads(). What f throws is thrown here, of several the first piece's.
  template <class F>
  void operator()(std::int64_t n, const F& f) const {
    run_(
        pool_, n, [](const void* g, std::int64_t begin, std::int64_t end) { (*static_cast<const F*>(g))(begin, end); },
        &f);
  }

 private:
  void* pool_;
  Run run_;
  int threads_;
};

/// Memory that a step works on. Pointers are as many as the node's inputs and outputs; absent ones are null.
struct Buffers {
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  std::byte* scratch;  ///< Kernel::scratch bytes, 64-byte aligned
};

/// A prepared operation: weights packed, parameters proved. Immutable; several threads may run it at once on different
/// buffers.
class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  /// Throws only for values without an answer (contract section 6).
  virtual void run(const Buffers& buffers, const ParallelFor& parallel) const = 0;

  std::string name;  ///< of the table's entry: "conv.vnni"
  std::string note;  ///< requantise variant, accumulator range ...
  std::optional<PlanRounding> rounding;
  std::size_t scratch = 0;  ///< bytes
  /// What each input has to be in; nullopt (and what lies beyond the end) for inputs that are not read, packed weights
  /// above all.
  std::vector<std::optional<Form>> in_forms;
  Form out_form;       ///< of every output
  bool alias = false;  ///< the output is input 0's memory, unchanged
  /// Reads, and ignores, up to 64 bytes behind its inputs: the plan has them lie in its arena, where there is room.
  bool reads_beyond = false;
  /// Output 0 may take the memory of any input of as many bytes: element i is written after the inputs' element i was
  /// read, and no other element of them is read then.
  bool in_place = false;

  /// Bytes that the kernel holds: packed weights, tables, factors.
  virtual std::size_t weight_bytes() const { return 0; }
};

/// Instruction sets, each including the ones before it.
enum class Isa : std::uint8_t { sse2, avx2, avx512, vnni, amx };

std::string_view to_string(Isa isa);
std::optional<Isa> parse_isa(std::string_view name);
/// The best one that this processor has.
Isa detect_isa();

/// What a factory gives: a kernel, or why not.
struct Offer {
  std::unique_ptr<Kernel> kernel;
  std::string refusal;
};

inline Offer refuse(std::string why) { return {nullptr, std::move(why)}; }

/// What a factory may ask: the graph with concrete types and shapes, and in which form each value is stored.
struct Site {
  const ir::Graph& graph;
  const ir::Node& node;
  Isa isa;                         ///< of the table's entry: the kernel may use this and nothing beyond
  const std::vector<Form>& forms;  ///< by ValueId
  int threads = 1;                 ///< how many share the work; changes no bit
  bool plain_rounding = false;     ///< to measure what exactness costs: leave the checks out where that is easy

  const Tensor* constant(ir::ValueId id) const;
  const Shape& shape(ir::ValueId id) const { return *graph.value(id).shape; }
  DType dtype(ir::ValueId id) const { return graph.value(id).dtype; }
  Form form(ir::ValueId id) const { return forms[id.index]; }
  Layout layout(ir::ValueId id) const { return forms[id.index].layout; }
};

using Factory = Offer (*)(const Site& site);

/// A line of the kernel table (table.inc). Float inputs and outputs of a kernel are rounded to their type; the planner
/// offers it only nodes where that is all that anybody reads (contract section 1).
struct Entry {
  std::string_view name;   ///< "conv.vnni"
  Isa isa;                 ///< what it needs
  Factory make;            ///< accepts or refuses a node
  std::string_view takes;  ///< operators and types, for people; self-tests and benchmarks look for operators in it
};

/// The kernel table, the one to be preferred first. What none takes, the interpreter runs.
std::span<const Entry> kernel_table();

/// Whether `takes` of the entry has the word.
bool names_operator(const Entry& entry, std::string_view word);

}  // namespace halfeven::plan
