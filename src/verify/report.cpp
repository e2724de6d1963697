// A VerifyReport for people.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <halfeven/halfeven.hpp>

#include "ir/quote.hpp"

namespace halfeven {
namespace {

std::string count(std::size_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string passes_text(const VerifyReport& r) {
  std::string text = fmt::format("Passes: exact interpreter before and after, {}\n", count(r.input_sets, "input set"));
  std::size_t width = 4;
  for (const PassCheck& s : r.steps) width = std::max(width, s.pass.size());
  text += fmt::format("  {:<{}}  {:>7}  {:>8}  {:>6}\n", "pass", width, "changes", "compared", "differ");
  for (const PassCheck& s : r.steps) {
    text += fmt::format("  {:<{}}  {:>7}  {:>8}  {:>6}\n", s.pass, width, s.changes, s.tensors, s.differing);
    if (!s.ok()) text += fmt::format("    WRONG: {}\n", s.difference);
  }
  if (r.steps.empty()) text += "  (none changed anything)\n";
  return text;
}

std::string kernels_text(const VerifyReport& r, std::size_t most) {
  if (r.kernels.empty()) return "";
  struct Sum {
    std::size_t steps = 0, elements = 0, differing = 0;
  };
  std::map<std::string, Sum> sums;
  std::size_t width = 6;
  for (const KernelCheck& k : r.kernels) {
    Sum& sum = sums[k.kernel];
    ++sum.steps;
    sum.elements += k.elements;
    sum.differing += k.differing;
    width = std::max(width, k.kernel.size());
  }
  std::string text = "Kernels: each step from the exact interpreter's tensors, on 1 and on 4 threads\n";
  text += fmt::format("  {:<{}}  {:>6}  {:>11}  {:>6}\n", "kernel", width, "runs", "elements", "differ");
  for (const auto& [name, sum] : sums) {
    text += fmt::format("  {:<{}}  {:>6}  {:>11}  {:>6}\n", name, width, sum.steps, sum.elements, sum.differing);
  }
  std::size_t wrong = 0;
  for (const KernelCheck& k : r.kernels) {
    if (k.ok() || wrong++ >= most) continue;
    text += fmt::format("    WRONG: {} at {} ({}, {}, set {}): {}\n", k.kernel, ir::quote(k.node), k.isa,
                        count(static_cast<std::size_t>(k.threads), "thread"), k.input_set + 1, k.difference);
  }
  if (wrong > most) text += fmt::format("    ... and {} more\n", wrong - most);
  return text;
}

std::string element_text(const FlippedElement& e) {
  return fmt::format("    set {} {} {}: {:.17g} is {} ({} under onnx-float32), {:.3g} from the tie, bound {:.3g}{}\n",
                     e.input_set + 1, ir::quote(e.tensor), to_string(e.position), e.quotient, e.exact_value,
                     e.float32_value, e.distance, e.bound, e.certified ? "" : ": NOT CERTIFIED");
}

std::string groups_text(const VerifyReport& r, std::size_t most) {
  std::size_t elements = 0;
  std::size_t differing = 0;
  std::size_t certified = 0;
  for (const GroupCheck& g : r.groups) {
    elements += g.elements;
    differing += g.differing;
    certified += static_cast<std::size_t>(
        std::count_if(g.flipped.begin(), g.flipped.end(), [](const FlippedElement& e) { return e.certified; }));
  }
  std::string text = fmt::format(
      "Exact against onnx-float32, group by group: {}, {}, {} differ, {} of these certified by their "
      "distance to a tie\n",
      count(r.groups.size(), "group"), count(elements, "element"), differing, certified);
  std::size_t shown = 0;
  // What is wrong comes first, so that it is never among the elements left out.
  for (const bool wrong : {true, false}) {
    for (const GroupCheck& g : r.groups) {
      if ((g.flipped.empty() && g.note.empty()) || g.ok() == wrong) continue;
      if (shown < most) {
        text += fmt::format("  {}{}{}: {} of {} differ{}{}\n", ir::quote(g.node), g.operators.empty() ? "" : " after ",
                            g.operators, g.differing, g.elements, g.note.empty() ? "" : "; ", g.note);
      }
      for (const bool bad : {true, false}) {
        for (const FlippedElement& e : g.flipped) {
          if (e.certified != bad && shown++ < most) text += element_text(e);
        }
      }
    }
  }
  if (shown > most) text += fmt::format("  ... and {} more\n", shown - most);
  return text;
}

std::string drift_text(const char* title, const std::vector<OutputDrift>& outputs) {
  if (outputs.empty()) return "";
  std::string text = fmt::format("{}\n", title);
  for (const OutputDrift& d : outputs) {
    text += fmt::format("  set {} {}: {} of {} differ", d.input_set + 1, ir::quote(d.output), d.differing, d.elements);
    text += d.differing == 0 ? "\n" : fmt::format(", by {} at most\n", d.largest);
  }
  return text;
}

}  // namespace

bool GroupCheck::ok() const {
  return std::all_of(flipped.begin(), flipped.end(), [](const FlippedElement& e) { return e.certified; });
}

bool VerifyReport::ok() const {
  return std::all_of(steps.begin(), steps.end(), [](const PassCheck& s) { return s.ok(); }) &&
         std::all_of(kernels.begin(), kernels.end(), [](const KernelCheck& k) { return k.ok(); }) &&
         std::all_of(groups.begin(), groups.end(), [](const GroupCheck& g) { return g.ok(); });
}

std::string VerifyReport::text(std::size_t most) const {
  std::string out = passes_text(*this) + kernels_text(*this, most);
  if (!groups.empty() || !whole.empty() || !note.empty()) {
    out += groups_text(*this, most);
    out +=
        drift_text("Float outputs, given the exact path's quantized tensors (ulps; reported, not judged):", in_groups);
    out += drift_text("Outputs of both contracts on their own (steps or ulps; reported, not judged):", whole);
    if (!note.empty()) out += note + "\n";
  }
  std::size_t tensors = 0;
  std::size_t wrong_steps = 0;
  std::size_t wrong_groups = 0;
  for (const PassCheck& s : steps) {
    tensors += s.tensors;
    wrong_steps += s.ok() ? 0 : 1;
  }
  for (const GroupCheck& g : groups) wrong_groups += g.ok() ? 0 : 1;
  const auto wrong_kernels = static_cast<std::size_t>(
      std::count_if(kernels.begin(), kernels.end(), [](const KernelCheck& k) { return !k.ok(); }));
  if (ok()) {
    out += fmt::format("verified: {} changed the graph, 0 bits of {} differ; {}, 0 bits differ\n",
                       count(steps.size(), "pass run"), count(tensors, "compared tensor"),
                       count(kernels.size(), "kernel run"));
  } else {
    out += fmt::format(
        "NOT verified: {} of {} differ or fail, {} of {} differ or fail, {} of {} hold elements without a "
        "certificate\n",
        wrong_steps, count(steps.size(), "pass run"), wrong_kernels, count(kernels.size(), "kernel run"), wrong_groups,
        count(groups.size(), "group"));
  }
  return out;
}

}  // namespace halfeven
