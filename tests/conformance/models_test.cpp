// The networks: outputs and every intermediate tensor, bit for bit. The example that the repository holds is always
// tested; the larger set where the folder `shared` lies beside the repository.
#include <map>

#include <nlohmann/json.hpp>

#include "support/files.hpp"

namespace halfeven::test {
namespace {

class Network : public testing::TestWithParam<std::filesystem::path> {};

void check_hashes(const std::filesystem::path& file, const std::map<std::string, std::array<std::string, 3>>& seen) {
  std::ifstream in(file);
  const auto wanted = nlohmann::json::parse(in);
  std::size_t wrong = 0;
  std::string first;
  for (const auto& [name, entry] : wanted.items()) {
    const auto at = seen.find(name);
    const std::array<std::string, 3> want{entry[0].get<std::string>(), to_string(entry[1].get<Shape>()),
                                          entry[2].get<std::string>()};
    if (at == seen.end() || at->second != want) {
      if (wrong++ == 0) first = name;
    }
  }
  EXPECT_EQ(wrong, 0U) << wrong << " of " << wanted.size() << " tensors differ, for instance '" << first << "'";
  std::cout << file.string() << ": " << wanted.size() << " intermediate tensors, " << wrong << " differ\n";
}

TEST_P(Network, IsExactInEveryTensor) {
  const auto own = GetParam() / "model.onnx";
  // The example's model is not kept twice.
  const Model model = Model::load(std::filesystem::exists(own) ? own : HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
  for (const auto& folder : folders_in(GetParam())) {
    std::map<std::string, std::array<std::string, 3>> seen;
    InterpretOptions options;
    const bool hashes = std::filesystem::exists(folder / "tensors.json");
    if (hashes) {
      options.tap = [&](const std::string& name, const Tensor& t) {
        seen[name] = {std::string(to_string(t.dtype())), to_string(t.shape()), hash(t)};
      };
    }
    const auto outputs = interpret(model, load_inputs(model, folder), options);
    const auto expected = load_numbered(folder, "expected");
    ASSERT_EQ(outputs.size(), expected.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      expect_identical(outputs[k], expected[k], folder.string() + ", output " + std::to_string(k));
    }
    if (hashes) check_hashes(folder / "tensors.json", seen);
  }
}

std::vector<std::filesystem::path> networks() {
  auto all = folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "models");
  for (auto& path : folders_in(std::filesystem::path(HALFEVEN_SHARED) / "models")) all.push_back(path);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Networks, Network, testing::ValuesIn(networks()), [](const auto& param) {
  return (param.param.string().starts_with(HALFEVEN_TEST_DATA) ? "local_" : "shared_") + test_name(param.param);
});

}  // namespace
}  // namespace halfeven::test
