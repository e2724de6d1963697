#include "plan/memory.hpp"

#include <algorithm>
#include <numeric>

#include "plan/plan.hpp"

namespace halfeven::plan {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kAbsent = SIZE_MAX;

std::size_t aligned(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

std::size_t step_count(const std::vector<Block>& blocks) {
  std::size_t n = 0;
  for (const Block& b : blocks) n = std::max(n, b.last + 1);
  return n;
}

// Bytes needed in each step.
std::vector<std::size_t> live_bytes(const std::vector<Block>& blocks) {
  std::vector<std::size_t> live(step_count(blocks), 0);
  for (const Block& b : blocks) {
    for (std::size_t s = b.first; s <= b.last; ++s) live[s] += b.bytes;
  }
  return live;
}

// First fit in the given order.
std::size_t first_fit(const std::vector<Block>& blocks, const std::vector<std::size_t>& order,
                      std::vector<std::size_t>& offsets) {
  std::size_t all = 0;
  std::vector<std::size_t> placed;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (const std::size_t k : order) {
    const Block& block = blocks[k];
    taken.clear();
    for (const std::size_t other : placed) {
      const Block& o = blocks[other];
      if (o.first <= block.last && block.first <= o.last) {
        taken.emplace_back(offsets[other], offsets[other] + o.bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    std::size_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + block.bytes <= begin) break;
      at = std::max(at, end);
    }
    offsets[k] = at;
    all = std::max(all, at + block.bytes);
    placed.push_back(k);
  }
  return all;
}

}  // namespace

std::size_t largest_live(const std::vector<Block>& blocks) {
  const auto live = live_bytes(blocks);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

std::size_t place_blocks(std::vector<Block>& blocks) {
  const std::size_t bound = largest_live(blocks);
  const auto live = live_bytes(blocks);
  // Crowded steps first: the most that any step of the block needs.
  std::vector<std::size_t> crowd(blocks.size(), 0);
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    for (std::size_t s = blocks[k].first; s <= blocks[k].last; ++s) crowd[k] = std::max(crowd[k], live[s]);
  }
  const auto length = [&](std::size_t k) { return blocks[k].last - blocks[k].first; };
  const auto by_size = [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; };
  const auto by_crowd = [&](std::size_t a, std::size_t b) {
    return crowd[a] != crowd[b] ? crowd[a] > crowd[b] : by_size(a, b);
  };
  const auto by_length = [&](std::size_t a, std::size_t b) {
    return length(a) != length(b) ? length(a) > length(b) : by_size(a, b);
  };
  const auto by_start = [&](std::size_t a, std::size_t b) {
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : by_size(a, b);
  };
  std::size_t best = SIZE_MAX;
  std::vector<std::size_t> order(blocks.size());
  std::vector<std::size_t> offsets(blocks.size(), 0);
  const auto keep_if_better = [&] {
    const std::size_t all = first_fit(blocks, order, offsets);
    if (all < best) {
      best = all;
      for (std::size_t k = 0; k < blocks.size(); ++k) blocks[k].offset = offsets[k];
    }
    return all;
  };
  // A round takes the square of the blocks; thousands of them get few.
  const std::size_t rounds = std::clamp<std::size_t>(3600 / std::max<std::size_t>(1, blocks.size()), 2, 12);
  const auto attempt = [&](const auto& less) {
    if (best == bound) return;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), less);
    // What ends highest comes first the next time.
    for (std::size_t round = 0; round < rounds && best > bound; ++round) {
      const std::size_t all = keep_if_better();
      const auto top =
          std::find_if(order.begin(), order.end(), [&](std::size_t k) { return offsets[k] + blocks[k].bytes == all; });
      std::rotate(order.begin(), top, top + 1);
    }
  };
  if (blocks.empty()) return 0;
  attempt(by_size);
  attempt(by_crowd);
  attempt(by_length);
  attempt(by_start);
  return best;
}

namespace {

class Assignment {
 public:
  explicit Assignment(Plan& plan) : plan_(plan), last_(plan.places.size(), kAbsent), first_(last_) {}

  void run() {
    find_uses();
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) work_in_place(s);
    std::vector<Block> blocks;
    std::vector<std::size_t> owners;
    for (std::size_t p = 0; p < plan_.places.size(); ++p) {
      if (first_[p] == kAbsent || plan_.places[p].alias_of != kAbsent) continue;
      owners.push_back(p);
      // Kernels may read a vector beyond the end.
      blocks.push_back({first_[p], last_[p], aligned(plan_.places[p].bytes + kAlign)});
    }
    plan_.arena_bytes = place_blocks(blocks);
    plan_.largest_live_bytes = largest_live(blocks);
    plan_.tensor_bytes = 0;
    for (std::size_t k = 0; k < owners.size(); ++k) {
      plan_.places[owners[k]].kind = Place::Kind::arena;
      plan_.places[owners[k]].offset = blocks[k].offset;
      plan_.tensor_bytes += blocks[k].bytes;
    }
    for (std::size_t p = 0; p < plan_.places.size(); ++p) {
      Place& place = plan_.places[p];
      if (place.alias_of == kAbsent) continue;
      const Place& owner = plan_.places[root(p)];
      place.kind = owner.kind;
      place.offset = owner.offset;
      place.index = owner.index;
    }
    plan_.scratch_bytes = 0;
    for (const Step& step : plan_.steps) {
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, aligned(step.kernel->scratch));
    }
  }

 private:
  std::size_t root(std::size_t p) const {
    while (plan_.places[p].alias_of != kAbsent) p = plan_.places[p].alias_of;
    return p;
  }

  // First and last step of every memory, views counted with what they show.
  void find_uses() {
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      for (const std::size_t p : plan_.steps[s].inputs) {
        if (p != kAbsent) last_[root(p)] = s;
      }
      for (const std::size_t p : plan_.steps[s].outputs) {
        if (p == kAbsent) continue;
        if (plan_.places[p].alias_of == kAbsent) first_[p] = s;
        last_[root(p)] = s;
      }
    }
    for (const std::size_t p : plan_.output_places) last_[root(p)] = plan_.steps.size();
  }

  void work_in_place(std::size_t s) {
    const Step& step = plan_.steps[s];
    if (!step.kernel->in_place || step.outputs.empty() || step.outputs[0] == kAbsent) return;
    Place& out = plan_.places[step.outputs[0]];
    if (out.alias_of != kAbsent || out.bytes == 0) return;
    for (const std::size_t p : step.inputs) {
      if (p == kAbsent || plan_.places[p].bytes != out.bytes) continue;
      const std::size_t owner = root(p);
      // Not what the caller or the plan owns, and not what is read again.
      if (first_[owner] == kAbsent || last_[owner] != s || owner == step.outputs[0]) continue;
      last_[owner] = std::max(last_[owner], last_[step.outputs[0]]);
      out.alias_of = owner;
      return;
    }
  }

  Plan& plan_;
  std::vector<std::size_t> last_;   // by place that owns memory
  std::vector<std::size_t> first_;  // absent where no step writes it
};

}  // namespace

void assign_memory(Plan& plan) { Assignment(plan).run(); }

}  // namespace halfeven::plan
