// Reading test data: numbered .npy files and whole cases.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <halfeven/halfeven.hpp>

#include "cli/npy.hpp"

namespace halfeven::test {

/// folder/stem_0.npy, folder/stem_1.npy ... as far as they go.
inline std::vector<Tensor> load_numbered(const std::filesystem::path& folder, const std::string& stem) {
  std::vector<Tensor> out;
  for (int k = 0;; ++k) {
    const auto path = folder / (stem + "_" + std::to_string(k) + ".npy");
    if (!std::filesystem::exists(path)) return out;
    out.push_back(cli::load_npy(path));
  }
}

/// The same tensor under a narrow integer type: .npy files hold 4- and 2-bit values as (u)int8.
inline Tensor as_type(const Tensor& t, DType type) {
  return storage_size(type) == storage_size(t.dtype()) && bits(type) < 8 ? Tensor::copy(type, t.shape(), t.bytes()) : t;
}

/// The inputs of a model in graph order, from input_K.npy files.
inline NamedTensors load_inputs(const Model& model, const std::filesystem::path& folder) {
  const auto tensors = load_numbered(folder, "input");
  NamedTensors inputs;
  std::size_t k = 0;
  for (const ValueInfo& v : model.inputs()) {
    if (!v.optional && k < tensors.size()) inputs[v.name] = as_type(tensors[k++], v.dtype);
  }
  return inputs;
}

/// Expects equal type, shape and bits; says how many elements differ and where the first is.
inline void expect_identical(const Tensor& got, const Tensor& want, const std::string& what) {
  const Tensor expected = as_type(want, got.dtype());
  ASSERT_EQ(to_string(got.dtype()), to_string(expected.dtype())) << what;
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const std::size_t width = storage_size(got.dtype());
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = got.size(); i-- > 0;) {
    if (!std::equal(got.data() + i * width, got.data() + (i + 1) * width, expected.data() + i * width)) {
      ++wrong;
      first = i;
    }
  }
  EXPECT_EQ(wrong, 0U) << what << ": " << wrong << " of " << got.size() << " elements differ, the first at " << first;
}

inline std::vector<std::filesystem::path> folders_in(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> out;
  if (!std::filesystem::exists(path)) return out;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_directory()) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// A folder's name as a test's name: letters, digits and underscores.
inline std::string test_name(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace halfeven::test
