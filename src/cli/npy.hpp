// NumPy's .npy format, versions 1 to 3.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <halfeven/tensor.hpp>

namespace halfeven::cli {

/// Reads an array: booleans, integers of 8 to 64 bits, float16/32/64, either byte order, C or Fortran order (the tensor
/// is in C order). `source` is what messages call the file. Throws Error{input} saying what is wrong with it; no memory
/// is taken for data that the file does not have.
Tensor parse_npy(std::span<const std::byte> file, const std::string& source, const Limits& limits = {});
Tensor load_npy(const std::filesystem::path& path, const Limits& limits = {});

/// The tensor as a version 1 file. 4-bit and 2-bit integers become int8 or uint8; bfloat16, float8 and float4 are
/// widened to float32. Throws Error{other} for types that NumPy has no counterpart for.
std::vector<std::byte> format_npy(const Tensor& tensor);
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace halfeven::cli
