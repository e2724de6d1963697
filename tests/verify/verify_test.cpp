// verify: passes are proven on every case and network, wrong ones are caught, float32's flips are certified.
#include <set>

#include "api/model_impl.hpp"
#include "passes/editor.hpp"
#include "support/files.hpp"
#include "verify/contracts_check.hpp"
#include "verify/random_inputs.hpp"

namespace halfeven::test {
namespace {

VerifyReport verify_folder(const Model& model, const std::filesystem::path& inputs, int random) {
  VerifyOptions options;
  options.random = random;
  options.seed = 7;
  return verify(model, {load_inputs(model, inputs)}, options);
}

std::size_t count_flips(const VerifyReport& report) {
  std::size_t n = 0;
  for (const GroupCheck& g : report.groups) {
    EXPECT_EQ(g.note, "") << g.node;
    EXPECT_EQ(g.flipped.size(), g.differing) << g.node;
    n += g.flipped.size();
  }
  return n;
}

class VerifyCase : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(VerifyCase, PassesChangeNoBit) {
  const auto& folder = GetParam();
  const Model model = Model::load(folder / "model.onnx");
  const VerifyReport report = verify_folder(model, folder, 2);
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(report.input_sets, 3U);
  // Where the contracts' results differ, the element that starts it is found.
  bool differs = false;
  for (const OutputDrift& d : report.whole) differs = differs || (d.input_set == 0 && d.differing > 0);
  EXPECT_EQ(differs,
            std::filesystem::exists(folder / "float32_0.npy") || std::filesystem::exists(folder / "float32_1.npy"));
  const std::size_t flips = count_flips(report);
  static const std::set<std::string> flipping{"20", "31", "36", "41", "47", "51", "58", "77", "85"};
  if (flipping.contains(folder.filename().string().substr(0, 2))) {
    EXPECT_GT(flips, 0U);
  }
}

std::vector<std::filesystem::path> value_cases() {
  auto all = folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "cases");
  std::erase_if(all, [](const auto& f) { return std::filesystem::exists(f / "expected_error.txt"); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, VerifyCase, testing::ValuesIn(value_cases()),
                         [](const auto& param) { return test_name(param.param); });

class VerifyNetwork : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(VerifyNetwork, PassesChangeNoBit) {
  const auto own = GetParam() / "model.onnx";
  const Model model = Model::load(std::filesystem::exists(own) ? own : HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
  const VerifyReport report = verify_folder(model, folders_in(GetParam()).at(0), 0);
  EXPECT_TRUE(report.ok()) << report.text();
  count_flips(report);
}

std::vector<std::filesystem::path> networks(const std::filesystem::path& base) { return folders_in(base / "models"); }

INSTANTIATE_TEST_SUITE_P(Networks, VerifyNetwork, testing::ValuesIn(networks(HALFEVEN_TEST_DATA)),
                         [](const auto& param) { return "local_" + test_name(param.param); });
INSTANTIATE_TEST_SUITE_P(SharedNetworks, VerifyNetwork, testing::ValuesIn(networks(HALFEVEN_SHARED)),
                         [](const auto& param) { return "shared_" + test_name(param.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerifyNetwork);

// --- wrong passes ----------------------------------------------------------------------------------------------------

// Doubles the scale of every QuantizeLinear.
passes::Rewrite double_scales(const ir::Graph& graph) {
  passes::Editor e(graph);
  passes::Rewrite out;
  for (std::size_t n = 0; n < e.node_count(); ++n) {
    if (e.node(n).op_type != "QuantizeLinear") continue;
    if (e.graph().value(e.node(n).inputs[1]).name.starts_with("doubled")) continue;
    const Tensor& scale = *e.constant(e.node(n).inputs[1]);
    std::vector<float> values(scale.values<float>().begin(), scale.values<float>().end());
    for (float& v : values) v *= 2;
    e.set_input(n, 1, e.add_constant("doubled", Tensor::of<float>(DType::float32, scale.shape(), values)));
  }
  out.changes = e.changes();
  out.graph = e.finish();
  return out;
}

passes::Rewrite fail(const ir::Graph&) { throw Error(ErrorCode::other, "nothing goes together"); }

verification::PassesReport check_one(const passes::Pass& pass, const std::string& name) {
  const auto folder = std::filesystem::path(HALFEVEN_TEST_DATA) / "cases" / name;
  const Model model = Model::load(folder / "model.onnx");
  const auto run = [&](const ir::Graph& g, passes::Observer observer, void* context) {
    return passes::apply(pass, g, observer, context, std::span(&pass, 1));
  };
  return verification::check_passes(model.impl().graph, model.impl().facts,
                                    {bind_inputs(model, load_inputs(model, folder))}, run, {});
}

TEST(WrongPasses, AreCaughtAndNamed) {
  const auto report = check_one({"double-scales", "", {}, double_scales}, "20-add-different-scales-near-ties");
  ASSERT_EQ(report.steps.size(), 1U);
  EXPECT_EQ(report.steps[0].pass, "double-scales");
  EXPECT_GT(report.steps[0].differing, 0U);
  EXPECT_NE(report.steps[0].difference.find("tensor 'y': 8 of 8 elements, the first is [0]: "), std::string::npos)
      << report.steps[0].difference;
  EXPECT_FALSE(report.steps[0].ok());
}

TEST(WrongPasses, ThatThrowFail) {
  const auto report = check_one({"fail", "", {}, fail}, "20-add-different-scales-near-ties");
  ASSERT_EQ(report.steps.size(), 1U);
  EXPECT_FALSE(report.steps[0].ok());
  EXPECT_NE(report.steps[0].difference.find("nothing goes together"), std::string::npos);
}

// --- certificates ----------------------------------------------------------------------------------------------------

TEST(Certificates, CoverDistancesUpToTheBound) {
  using verification::certify;
  const auto flip = [](double quotient, double other, double bound, bool one_step = true) {
    return verification::Flip{{quotient, 0}, 3, other, one_step, bound};
  };
  const auto exact = [](double v) { return [v] { return numerics::Real::from_double(v); }; };
  EXPECT_TRUE(certify(flip(3.25, 4, 0.25), exact(3.25)).certified);
  EXPECT_EQ(certify(flip(3.25, 4, 0.25), exact(3.25)).distance, 0.25);
  EXPECT_FALSE(certify(flip(3.25, 4, 0.2499), exact(3.25)).certified);
  EXPECT_FALSE(certify(flip(3.25, 2, 0.25), exact(3.25)).certified);  // the tie in question is 2.5
  EXPECT_FALSE(certify(flip(3.25, 5, 1, false), exact(3.25)).certified);
  EXPECT_FALSE(certify(flip(3.25, 4, HUGE_VAL), [] { return numerics::Real::infinity(false); }).certified);
}

TEST(Certificates, AMissingOneFails) {
  VerifyReport report;
  report.input_sets = 1;
  report.groups.push_back({"q", "Conv", 16, 1, {}, ""});
  report.groups[0].flipped.push_back({0, "y", {0, 3}, 3, 4, 3.2, 0.3, 1e-6, false});
  EXPECT_FALSE(report.ok());
  const std::string text = report.text();
  EXPECT_NE(text.find("NOT CERTIFIED"), std::string::npos) << text;
  EXPECT_NE(text.find("NOT verified"), std::string::npos) << text;
}

TEST(Certificates, BoundsAreSmall) {
  const auto folder = std::filesystem::path(HALFEVEN_TEST_DATA) / "cases" / "20-add-different-scales-near-ties";
  const Model model = Model::load(folder / "model.onnx");
  const VerifyReport report = verify_folder(model, folder, 0);
  ASSERT_EQ(report.groups.size(), 1U);
  EXPECT_EQ(report.groups[0].operators, "Add");
  EXPECT_EQ(report.groups[0].flipped.size(), 4U);
  for (const FlippedElement& e : report.groups[0].flipped) {
    EXPECT_LT(e.bound, 1e-5);
    EXPECT_LE(e.distance, e.bound);
  }
}

// --- random inputs ---------------------------------------------------------------------------------------------------

verification::InputSet draw(const Model& model, std::uint64_t seed, std::size_t number,
                            const std::map<std::string, Shape>& shapes = {}) {
  return verification::random_inputs(model.impl().graph, model.impl().facts, shapes, seed, number);
}

TEST(RandomInputs, AreTheSameEverywhere) {
  const Model model = Model::load(HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
  const std::string input = model.inputs()[0].name;
  const std::map<std::string, Shape> shapes{{input, {1, 3, 48, 192}}};
  const auto a = draw(model, 1, 0, shapes);
  EXPECT_EQ(hash(a[0]), hash(draw(model, 1, 0, shapes)[0]));
  EXPECT_NE(hash(a[0]), hash(draw(model, 1, 1, shapes)[0]));
  EXPECT_NE(hash(a[0]), hash(draw(model, 2, 0, shapes)[0]));
  EXPECT_EQ(hash(a[0]), "cf9aa1e11d05d239");
  EXPECT_THROW(draw(model, 1, 0, {{"nobody", {1}}}), Error);
  EXPECT_THROW(draw(model, 1, 0, {{input, {1}}}), Error);
}

TEST(RandomInputs, ReachTiesAndSaturation) {
  const Model model = Model::load(HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
  double scale = 0;
  for (const Quantization& q : model.quantization()) {
    if (q.op_type == "QuantizeLinear" && scale == 0) scale = q.scale.values<float>()[0];  // the input's
  }
  const auto inputs = draw(model, 1, 0, {{model.inputs()[0].name, {1, 3, 48, 192}}});
  std::size_t ties = 0;
  std::size_t beyond = 0;
  for (const float v : inputs[0].values<float>()) {
    const double steps = v / scale;
    ties += std::fabs(std::fabs(steps - std::floor(steps)) - 0.5) < 1e-4 ? 1 : 0;
    beyond += std::fabs(steps) > 256 ? 1 : 0;
  }
  EXPECT_GT(ties, inputs[0].size() / 20);
  EXPECT_GT(beyond, inputs[0].size() / 40);
}

}  // namespace
}  // namespace halfeven::test
