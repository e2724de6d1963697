// From the files on the command line to the model's inputs.
#pragma once

#include <string>
#include <vector>

#include <halfeven/halfeven.hpp>

#include "cli/image.hpp"

namespace halfeven::cli {

/// What the command line says about inputs. Each argument is FILE or NAME=FILE; it counts as named where the part
/// before a '=' is the name of an input.
struct InputArguments {
  std::vector<std::string> files;   ///< .npy, .npz and .pb
  std::vector<std::string> images;  ///< PNG and JPEG
  ImageOptions image_options;
};

/// Reads every file and binds it: named arguments to their input, arrays of an .npz by their names, a .pb whose tensor
/// bears an input's name to that input, everything else (files, then pictures) to the next input in graph order that is
/// still free and has no default. Throws Error{input} naming the file for whatever fits nowhere.
NamedTensors load_inputs(const std::vector<ValueInfo>& inputs, const InputArguments& arguments,
                         const Limits& limits = {});

/// The tensor as the input's type: 4-bit and 2-bit integers come as int8 or uint8 within their range, bfloat16 as
/// uint16 bits, float8 and float4 as uint8 bits; every other type must already be the input's. `source` names the file
/// in messages. Throws Error{input}.
Tensor adapt(const Tensor& tensor, const ValueInfo& input, const std::string& source);

}  // namespace halfeven::cli
