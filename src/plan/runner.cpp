#include "plan/runner.hpp"

#include <algorithm>
#include <memory>

namespace halfeven::plan {
namespace {
constexpr std::size_t kAlign = 64;
}

Runner::Runner(const Plan& plan, const std::vector<Tensor>& inputs)
    : plan_(plan),
      memory_(plan.arena_bytes + plan.scratch_bytes + 2 * kAlign, std::byte{0xA5}),
      pointers_(plan.places.size(), nullptr) {
  void* start = memory_.data();
  std::size_t space = memory_.size();
  auto* base = static_cast<std::byte*>(std::align(kAlign, plan.arena_bytes + plan.scratch_bytes, start, space));
  scratch_ = base + plan.arena_bytes;
  for (const auto& [place, tensor] : plan.constants) pointers_[place] = const_cast<std::byte*>(tensor.data());
  for (std::size_t p = 0; p < plan.places.size(); ++p) {
    std::size_t root = p;
    while (plan.places[root].alias_of != SIZE_MAX) root = plan.places[root].alias_of;
    const Place& place = plan.places[root];
    if (place.kind == Place::Kind::arena) pointers_[p] = base + place.offset;
    if (place.kind == Place::Kind::input) pointers_[p] = const_cast<std::byte*>(inputs[place.index].data());
    if (place.kind == Place::Kind::constant) pointers_[p] = pointers_[root];
  }
  for (const Step& s : plan.steps) {
    Pointers& at = steps_.emplace_back();
    for (const std::size_t p : s.inputs) at.in.push_back(p == SIZE_MAX ? nullptr : pointers_[p]);
    for (const std::size_t p : s.outputs) at.out.push_back(p == SIZE_MAX ? nullptr : pointers_[p]);
  }
}

void Runner::step(std::size_t k, const ParallelFor& parallel) const {
  plan_.steps[k].kernel->run({steps_[k].in, steps_[k].out, scratch_}, parallel);
}

void Runner::step_in_place(std::size_t k, std::size_t input, const ParallelFor& parallel) const {
  const Pointers& at = steps_[k];
  std::vector<const std::byte*> in = at.in;
  std::copy_n(in[input], plan_.places[plan_.steps[k].outputs[0]].bytes, at.out[0]);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (at.in[i] == at.in[input]) in[i] = at.out[0];
  }
  plan_.steps[k].kernel->run({in, at.out, scratch_}, parallel);
}

ParallelFor Runner::serial() {
  const auto run = [](void*, std::int64_t n, ParallelFor::Piece piece, const void* f) {
    if (n > 0) piece(f, 0, n);
  };
  return {nullptr, run, 1};
}

ParallelFor Runner::halves() {
  const auto run = [](void*, std::int64_t n, ParallelFor::Piece piece, const void* f) {
    if (n / 2 > 0) piece(f, 0, n / 2);
    if (n > 0) piece(f, n / 2, n);
  };
  return {nullptr, run, 2};
}

}  // namespace halfeven::plan
