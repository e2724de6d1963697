// The ONNX project's node tests, from folders that make_node_tests.py writes: the current Python package's and those of
// Debian's libonnx-testdata. HALFEVEN_NODE_TESTS (environment; else the list of that name that the build knows) names
// the folders, separated by colons.
#include <fnmatch.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include <fmt/format.h>

#include <halfeven/tensor_io.hpp>

#include "numerics/format.hpp"
#include "onnx/schema.pb.h"
#include "ops/common.hpp"
#include "support/files.hpp"

namespace halfeven::test {
namespace {

namespace fs = std::filesystem;

struct Sources {
  std::vector<fs::path> folders;
  bool complete = true;  ///< false if the first of the build's own folders is missing: the current package's tests
};

Sources sources() {
  const char* given = std::getenv("HALFEVEN_NODE_TESTS");
  std::istringstream list(given != nullptr ? given : HALFEVEN_NODE_TESTS);
  Sources out;
  bool first = true;
  for (std::string path; std::getline(list, path, ':'); first = false) {
    if (path.empty()) continue;
    // A folder that somebody named has to be there.
    if (given != nullptr || fs::is_directory(path)) {
      out.folders.emplace_back(path);
    } else if (first) {
      out.complete = false;
    }
  }
  if (out.folders.empty()) out.complete = false;
  return out;
}

struct Skip {
  std::string pattern;
  std::string reason;
};

// node_tests_skipped.txt: `pattern | reason` a line. A pattern is matched against name@opset, or against the name if it
// has no @.
std::vector<Skip> skips() {
  std::ifstream in(HALFEVEN_TESTS "/conformance/node_tests_skipped.txt");
  std::vector<Skip> out;
  for (std::string line; std::getline(in, line);) {
    const auto bar = line.find(" | ");
    if (line.starts_with("#") || bar == std::string::npos) continue;
    std::string pattern = line.substr(0, bar);
    pattern.erase(pattern.find_last_not_of(' ') + 1);
    out.push_back({pattern, line.substr(bar + 3)});
  }
  return out;
}

// What a test's model asks for, read from the file alone, since the importer refuses what is not served.
struct Needs {
  std::int64_t opset = 0;
  bool served = true;  ///< every operator is in the table
};

Needs needs_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  onnx_schema::ModelProto model;
  if (!model.ParseFromIstream(&in)) throw Error(ErrorCode::other, file.string() + ": not a model");
  Needs needs;
  for (const auto& set : model.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") needs.opset = set.version();
  }
  for (const auto& node : model.graph().node()) {
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    if (ops::find_operator(domain, node.op_type()) == nullptr) needs.served = false;
  }
  return needs;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The place of a value among the values of its type: neighbours differ by 1.
std::int64_t place(const Tensor& t, std::size_t i) {
  std::uint64_t code = 0;
  const std::size_t width = storage_size(t.dtype());
  std::memcpy(&code, t.data() + i * width, width);
  const std::uint64_t sign = std::uint64_t{1} << (8 * width - 1);
  return (code & sign) != 0 ? -static_cast<std::int64_t>(code & (sign - 1)) : static_cast<std::int64_t>(code);
}

// What was seen over a whole source under one contract.
struct Tally {
  std::size_t unserved = 0;
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::size_t float_outputs = 0;
  std::size_t precise_outputs = 0;  ///< of these, with a precise value
  std::size_t off_by_one_ulp = 0;   ///< elements next to the precise value
  std::size_t one_step = 0;         ///< integer elements a step from ONNX's data
  std::vector<std::string> notes;
  std::map<std::string, std::size_t> reasons;
};

// One output of a test against ONNX's data and the precise value. Returns what is wrong, or "".
class Comparison {
 public:
  Comparison(const fs::path& folder, std::size_t k, bool one_node_exact, Tally& tally)
      : folder_(folder), k_(k), exact_(one_node_exact), tally_(tally) {}

  std::string check(const Tensor& got) {
    const Tensor want = load("output");
    if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
      return fmt::format("output {} is {}{} instead of {}{}", k_, to_string(got.dtype()), to_string(got.shape()),
                         to_string(want.dtype()), to_string(want.shape()));
    }
    if (is_float(got.dtype())) return check_floats(got, want);
    if (is_small_float(got.dtype())) return check_near(got, want, 0, 0);
    return check_integers(got, want);
  }

 private:
  bool has(const char* stem) const { return fs::exists(path(stem)); }
  fs::path path(const char* stem) const { return folder_ / fmt::format("{}_{}.pb", stem, k_); }
  Tensor load(const char* stem) const { return load_tensor(path(stem)); }

  std::string check_near(const Tensor& got, const Tensor& want, double rtol, double atol) const {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double a = numerics::decode_float(got.dtype(), got.data(), i);
      const double b = numerics::decode_float(want.dtype(), want.data(), i);
      if (!same_number(a, b) && !(std::fabs(a - b) <= atol + rtol * std::fabs(b))) {
        return fmt::format("output {} element {} is {:.9g}, ONNX's data say {:.9g}", k_, i, a, b);
      }
    }
    return {};
  }

  std::string check_floats(const Tensor& got, const Tensor& want) {
    ++tally_.float_outputs;
    if (has("precise")) {
      ++tally_.precise_outputs;
      const Tensor precise = load("precise");
      if (precise.dtype() != got.dtype() || precise.shape() != got.shape())
        return "precise value of another type or shape";
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double a = numerics::decode_float(got.dtype(), got.data(), i);
        const double b = numerics::decode_float(precise.dtype(), precise.data(), i);
        if (same_number(a, b)) continue;
        if (std::isnan(a) || std::isnan(b) || std::abs(place(got, i) - place(precise, i)) > 1) {
          return fmt::format("output {} element {} is {:.9g}, more than an ulp from the precise {:.9g}", k_, i, a, b);
        }
        ++tally_.off_by_one_ulp;
        tally_.notes.push_back(fmt::format("{} output {} element {}: {:.9g}, an ulp from {:.9g}",
                                           folder_.parent_path().filename().string(), k_, i, a, b));
      }
    }
    return check_near(got, want, 1e-3, 1e-7);  // the suite's own tolerance
  }

  // Equal, or a step apart where the exact quotient is nearer to a tie than float32 arithmetic is to the quotient: a
  // division, and before it at most a subtraction and a division for the scale, each off by 2^-24.
  std::string check_integers(const Tensor& got, const Tensor& want) {
    if (exact_ && has("precise") && !identical(got, load("precise"))) {
      return fmt::format("output {} is not the exact quotient, rounded", k_);
    }
    if (identical(got, want)) return {};
    const auto a = ops::integers(got);
    const auto b = ops::integers(want);
    const std::optional<Tensor> quotient = has("quotient") ? std::optional(load("quotient")) : std::nullopt;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      const std::string where = fmt::format("output {} element {} is {}, ONNX's data say {}", k_, i, a[i], b[i]);
      if (!quotient) return where + " (no quotient_N.pb that would tell the distance to a tie)";
      if (std::abs(a[i] - b[i]) != 1) return where;
      const double q = quotient->values<double>()[i];
      const double distance = std::fabs(q - std::floor(q) - 0.5);
      const double bound = std::ldexp(std::fabs(q), -22);
      if (distance > bound)
        return fmt::format("{}, {:.3g} steps from a tie, further than {:.3g}", where, distance, bound);
      ++tally_.one_step;
      tally_.notes.push_back(fmt::format("{} {}: {:.3g} steps from a tie, within float32's {:.3g}",
                                         folder_.parent_path().filename().string(), where, distance, bound));
    }
    return {};
  }

  fs::path folder_;
  std::size_t k_;
  bool exact_;
  Tally& tally_;
};

// Runs a test. Returns what is wrong, or "".
std::string run(const fs::path& test, Contract contract, Tally& tally) {
  try {
    const Model model = Model::load(test / "model.onnx");
    const auto kinds = model.summary().operators;
    const bool one_node = kinds.size() == 1 && kinds[0].count == 1;
    const auto declared = model.inputs();
    for (const fs::path& folder : folders_in(test)) {
      NamedTensors inputs;
      for (std::size_t i = 0; i < declared.size(); ++i) {
        const fs::path file = folder / fmt::format("input_{}.pb", i);
        if (fs::exists(file)) inputs[declared[i].name] = load_tensor(file);
      }
      InterpretOptions options;
      options.contract = contract;
      options.threads = 1;
      const auto outputs = interpret(model, inputs, options);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        Comparison comparison(folder, k, one_node && contract == Contract::exact, tally);
        if (std::string wrong = comparison.check(outputs[k]); !wrong.empty()) return wrong;
      }
    }
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

void report(const fs::path& source, Contract contract, const Tally& t) {
  std::cout << fmt::format(
      "{}, {}: {} run, {} passed, {} failed, {} skipped; {} use other operators\n"
      "  float outputs {}, with precise values {}; elements an ulp off {}; integers one step off {}\n",
      source.string(), to_string(contract), t.passed + t.failed, t.passed, t.failed, t.skipped, t.unserved,
      t.float_outputs, t.precise_outputs, t.off_by_one_ulp, t.one_step);
  for (const auto& note : t.notes) std::cout << "  " << note << "\n";
  for (const auto& [reason, count] : t.reasons) std::cout << fmt::format("  skipped {}: {}\n", count, reason);
}

void run_all(Contract contract) {
  const Sources all_sources = sources();
  const auto table = skips();
  ASSERT_FALSE(table.empty());
  std::set<std::string> used;
  for (const fs::path& source : all_sources.folders) {
    Tally tally;
    for (const fs::path& test : folders_in(source)) {
      if (!fs::exists(test / "model.onnx")) continue;
      const std::string name = test.filename().string();
      const Needs needs = needs_of(test / "model.onnx");
      if (!needs.served) {
        ++tally.unserved;
        continue;
      }
      const std::string full = fmt::format("{}@{}", name, needs.opset);
      const auto skip = std::find_if(table.begin(), table.end(), [&](const Skip& s) {
        const bool versioned = s.pattern.find('@') != std::string::npos;
        return fnmatch(s.pattern.c_str(), versioned ? full.c_str() : name.c_str(), 0) == 0;
      });
      Tally seen = tally;
      const std::string wrong = run(test, contract, seen);
      if (skip != table.end()) {
        used.insert(skip->pattern);
        ++tally.skipped;
        ++tally.reasons[skip->reason];
        EXPECT_FALSE(wrong.empty()) << full << " passes, but node_tests_skipped.txt skips it";
        if (skip->reason.starts_with("ONNX's data")) {  // then nothing but they may disagree
          EXPECT_NE(wrong.find("ONNX's data"), std::string::npos) << full << ": " << wrong;
        }
        continue;
      }
      tally = std::move(seen);
      ++(wrong.empty() ? tally.passed : tally.failed);
      EXPECT_TRUE(wrong.empty()) << full << ": " << wrong;
    }
    report(source, contract, tally);
    const std::size_t all = tally.passed + tally.failed + tally.skipped;
    EXPECT_GT(all, 0U) << "no tests in " << source;
    EXPECT_LE(10 * tally.skipped, all) << "more than a tenth of the served operators' tests are skipped";
  }
  if (!all_sources.complete) {
    GTEST_SKIP() << "only " << all_sources.folders.size()
                 << " folders of node tests here. The current ONNX package's are made by the target node-tests, or by\n"
                    "  python3 tests/conformance/make_node_tests.py FOLDER  (pip install onnx mpmath)\n"
                    "with HALFEVEN_NODE_TESTS=FOLDER in the environment.";
  }
}

TEST(NodeTests, Exact) { run_all(Contract::exact); }
TEST(NodeTests, OnnxFloat32) { run_all(Contract::onnx_float32); }

}  // namespace
}  // namespace halfeven::test
