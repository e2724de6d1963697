#include "cli/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include <halfeven/error.hpp>
#include <halfeven/tensor_io.hpp>

#include "cli/files.hpp"
#include "cli/npy.hpp"
#include "cli/npz.hpp"
#include "cli/output.hpp"

namespace halfeven::cli {
namespace {

struct Argument {
  const ValueInfo* input = nullptr;  // null: not named
  std::string file;
  bool is_image = false;
  Tensor tensor;  // of a .pb that was read for its name
};

std::string list_names(const std::vector<ValueInfo>& inputs) {
  std::string names;
  for (const ValueInfo& input : inputs)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", printable(input.name));
  return names.empty() ? "none" : names;
}

class Binder {
 public:
  Binder(const std::vector<ValueInfo>& inputs, const InputArguments& arguments, const Limits& limits)
      : inputs_(inputs), arguments_(arguments), limits_(limits) {}

  NamedTensors bind() {
    std::vector<Argument> arguments;
    arguments.reserve(arguments_.files.size() + arguments_.images.size());
    for (const std::string& text : arguments_.files) arguments.push_back(parse(text, false));
    for (const std::string& text : arguments_.images) arguments.push_back(parse(text, true));
    // What has a name first: the rest takes what is left.
    std::vector<Argument> unnamed;
    for (Argument& argument : arguments) {
      if (argument.input == nullptr && is_archive(argument)) {
        load_archive(argument.file);
        continue;
      }
      if (argument.input == nullptr && !argument.is_image && argument.file.ends_with(".pb")) {
        std::string name;
        argument.tensor = load_tensor(argument.file, limits_, &name);
        argument.input = find(name);
      }
      if (argument.input == nullptr) {
        unnamed.push_back(argument);
      } else {
        load(argument, *argument.input);
      }
    }
    for (const Argument& argument : unnamed) load(argument, next_free(argument.file));
    return std::move(bound_);
  }

 private:
  static bool is_archive(const Argument& argument) { return !argument.is_image && argument.file.ends_with(".npz"); }

  const ValueInfo* find(std::string_view name) const {
    const auto found =
        std::find_if(inputs_.begin(), inputs_.end(), [&](const ValueInfo& input) { return input.name == name; });
    return found == inputs_.end() ? nullptr : &*found;
  }

  Argument parse(const std::string& text, bool is_image) const {
    for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
      if (const ValueInfo* input = find(text.substr(0, at))) return {input, text.substr(at + 1), is_image, {}};
    }
    const std::size_t at = text.find('=');
    if (at != std::string::npos && !std::filesystem::exists(text)) {
      throw Error(ErrorCode::input, fmt::format("the model has no input '{}' (its inputs: {})",
                                                printable(text.substr(0, at)), list_names(inputs_)));
    }
    return {nullptr, text, is_image, {}};
  }

  const ValueInfo& next_free(const std::string& file) const {
    const auto free = std::find_if(inputs_.begin(), inputs_.end(), [&](const ValueInfo& input) {
      return !input.optional && !bound_.contains(input.name);
    });
    if (free == inputs_.end()) {
      throw Error(ErrorCode::input, fmt::format("{}: the model has no further input to take it (its inputs: {}; name "
                                                "one with NAME=FILE)",
                                                in_quotes(file), list_names(inputs_)));
    }
    return *free;
  }

  void put(const ValueInfo& input, const Tensor& tensor, const std::string& source) {
    if (!bound_.emplace(input.name, adapt(tensor, input, source)).second) {
      throw Error(ErrorCode::input, fmt::format("{}: input '{}' is given twice", source, printable(input.name)));
    }
  }

  void load(const Argument& argument, const ValueInfo& input) {
    put(input, read(argument, input), in_quotes(argument.file));
  }

  Tensor read(const Argument& argument, const ValueInfo& input) const {
    const std::string& file = argument.file;
    if (argument.tensor.dtype() != DType::undefined) return argument.tensor;
    if (argument.is_image) return image_to_tensor(load_image(file), input, arguments_.image_options);
    if (file.ends_with(".npy")) return load_npy(file, limits_);
    if (file.ends_with(".pb")) return load_tensor(file, limits_);
    if (is_archive(argument)) {
      const NpzFile archive = NpzFile::open(file, limits_);
      if (archive.names().size() == 1) return archive.read(archive.names().front());
      throw Error(ErrorCode::input, fmt::format("{}: one array is needed for input '{}', it has {}", in_quotes(file),
                                                printable(input.name), archive.names().size()));
    }
    throw Error(ErrorCode::input,
                fmt::format("{}: inputs are .npy, .npz and .pb files (pictures: --image)", in_quotes(file)));
  }

  void load_archive(const std::string& file) {
    const NpzFile archive = NpzFile::open(file, limits_);
    for (const std::string& name : archive.names()) {
      const ValueInfo* input = find(name);
      if (input == nullptr) {
        throw Error(ErrorCode::input, fmt::format("{}: the model has no input '{}' (its inputs: {})", in_quotes(file),
                                                  printable(name), list_names(inputs_)));
      }
      put(*input, archive.read(name), in_quotes(file));
    }
  }

  const std::vector<ValueInfo>& inputs_;
  const InputArguments& arguments_;
  const Limits& limits_;
  NamedTensors bound_;
};

// Least and greatest code of a type that takes less than the byte it is stored in; nullopt for the others.
struct CodeRange {
  int min;
  int max;
};
std::optional<CodeRange> code_range(DType type) {
  switch (type) {
    case DType::int4: return CodeRange{-8, 7};
    case DType::uint4:
    case DType::float4e2m1: return CodeRange{0, 15};
    case DType::int2: return CodeRange{-2, 1};
    case DType::uint2: return CodeRange{0, 3};
    default: return std::nullopt;
  }
}

}  // namespace

NamedTensors load_inputs(const std::vector<ValueInfo>& inputs, const InputArguments& arguments, const Limits& limits) {
  return Binder(inputs, arguments, limits).bind();
}

Tensor adapt(const Tensor& tensor, const ValueInfo& input, const std::string& source) {
  const DType have = tensor.dtype();
  const DType want = input.dtype;
  if (have == want) return tensor;
  const bool bytes = have == DType::uint8 || have == DType::int8;
  if (const auto range = code_range(want); range && bytes && (want != DType::float4e2m1 || have == DType::uint8)) {
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      const int value = have == DType::int8 ? tensor.values<std::int8_t>()[i] : tensor.values<std::uint8_t>()[i];
      if (value < range->min || value > range->max) {
        throw Error(ErrorCode::input,
                    fmt::format("{}: element {} is {}, beyond the {} of input '{}' ({} to {})", source, i, value,
                                type_name(want), printable(input.name), range->min, range->max));
      }
    }
    return Tensor::copy(want, tensor.shape(), tensor.bytes());
  }
  if ((want == DType::bfloat16 && have == DType::uint16) || (is_small_float(want) && have == DType::uint8)) {
    return Tensor::copy(want, tensor.shape(), tensor.bytes());
  }
  throw Error(ErrorCode::input, fmt::format("{}: it holds {}, but input '{}' takes {}", source, type_name(have),
                                            printable(input.name), type_name(want)));
}

}  // namespace halfeven::cli
