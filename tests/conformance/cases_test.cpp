// The small cases: right answers in every bit under both contracts, and clear errors for malformed models.
#include <chrono>
#include <cstdlib>

#include "support/files.hpp"

namespace halfeven::test {
namespace {

class Case : public testing::TestWithParam<std::filesystem::path> {};

void check(const std::filesystem::path& folder, Contract contract, int threads) {
  const Model model = Model::load(folder / "model.onnx");
  InterpretOptions options;
  options.contract = contract;
  options.threads = threads;
  const auto outputs = interpret(model, load_inputs(model, folder), options);
  auto expected = load_numbered(folder, "expected");
  ASSERT_EQ(outputs.size(), expected.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const auto special = folder / ("float32_" + std::to_string(k) + ".npy");
    if (contract == Contract::onnx_float32 && std::filesystem::exists(special)) expected[k] = cli::load_npy(special);
    expect_identical(outputs[k], expected[k], std::string(to_string(contract)) + ", output " + std::to_string(k));
  }
}

TEST_P(Case, IsExactInEveryBit) {
  const auto& folder = GetParam();
  if (!std::filesystem::exists(folder / "expected_error.txt")) {
    for (const int threads : {1, 3}) {
      check(folder, Contract::exact, threads);
      check(folder, Contract::onnx_float32, threads);
    }
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  try {
    const Model model = Model::load(folder / "model.onnx");
    interpret(model, load_inputs(model, folder));
    FAIL() << "a malformed case was accepted";
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == ErrorCode::model || e.code() == ErrorCode::input) << e.what();
    EXPECT_GT(std::string(e.what()).size(), 20U) << e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

INSTANTIATE_TEST_SUITE_P(Cases, Case,
                         testing::ValuesIn(folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "cases")),
                         [](const auto& param) { return test_name(param.param); });

// What the message of each malformed case has to name.
TEST(MalformedCases, MessagesNameWhatAndWhere) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> wanted{
      {"38-quantize-nan", {"QuantizeLinear_3", "[1]", "NaN", "'x'"}},
      {"60-bad-axis-out-of-range", {"DequantizeLinear_10", "axis 7", "rank-4", "-4..3"}},
      {"62-bad-scale-zero", {"QuantizeLinear_3", "scale", "0"}},
      {"64-bad-zero-point-type-mismatch", {"DequantizeLinear_10", "'wz'", "int8", "uint8"}},
      {"65-bad-missing-input", {"nowhere", "Conv"}},
      {"66-bad-cyclic-graph", {"cycle", "QuantizeLinear", "Conv"}},
      {"67-bad-truncated-protobuf", {"truncated", "376 bytes", "byte 10"}},
      {"69-bad-external-data-path-traversal", {"../secret.bin", "'w'", "folder"}},
      {"70-bad-external-data-out-of-bounds", {"'w'", "2..6", "weights.bin", "4 bytes"}},
      {"71-bad-huge-dims-overflow", {"'w'", "8589934592", "4 bytes"}},
      {"73-bad-negative-dims", {"'w'", "negative", "-2"}},
      {"74-bad-zp-scale-shape-mismatch", {"DequantizeLinear_10", "'wz'", "[1]", "[2]"}},
      {"76-bad-block-size-out-of-range", {"DequantizeLinear_3", "block_size 2", "3..5"}},
  };
  for (const auto& [name, parts] : wanted) {
    const auto folder = std::filesystem::path(HALFEVEN_TEST_DATA) / "cases" / name;
    try {
      const Model model = Model::load(folder / "model.onnx");
      interpret(model, load_inputs(model, folder));
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& e) {
      for (const char* part : parts) {
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
            << name << ": '" << e.what() << "' lacks " << part;
      }
    }
  }
}

}  // namespace
}  // namespace halfeven::test
