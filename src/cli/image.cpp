#include "cli/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <halfeven/error.hpp>

#include "cli/files.hpp"
#include "cli/values.hpp"

namespace halfeven::cli {
namespace {

// Output position d reads `first` and `second` with weights (whole - part) / whole and part / whole.
struct Tap1d {
  std::int64_t first;
  std::int64_t second;
  std::int64_t part;
};

std::vector<Tap1d> taps(std::int64_t in, std::int64_t out) {
  std::vector<Tap1d> result(static_cast<std::size_t>(out));
  for (std::int64_t d = 0; d < out; ++d) {
    const std::int64_t numerator = std::max<std::int64_t>((2 * d + 1) * in - out, 0);  // over 2 out
    const std::int64_t first = numerator / (2 * out);
    result[static_cast<std::size_t>(d)] = {first, std::min(first + 1, in - 1), numerator % (2 * out)};
  }
  return result;
}

std::uint8_t divide_half_even(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t quotient = numerator / denominator;
  const std::int64_t twice = 2 * (numerator % denominator);
  const bool up = twice > denominator || (twice == denominator && quotient % 2 == 1);
  return static_cast<std::uint8_t>(quotient + (up ? 1 : 0));
}

// Height and width of the picture within a frame, the aspect kept.
std::pair<std::int64_t, std::int64_t> fitted(const Image& image, std::int64_t height, std::int64_t width) {
  const auto scaled = [](std::int64_t side, std::int64_t to, std::int64_t from, std::int64_t limit) {
    return std::clamp<std::int64_t>((2 * side * to + from) / (2 * from), 1, limit);
  };
  if (image.width * height <= image.height * width) {
    return {height, scaled(image.width, height, image.height, width)};
  }
  return {scaled(image.height, width, image.width, height), width};
}

struct Frame {
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
};

std::int64_t agree(std::int64_t declared, std::optional<std::int64_t> asked, std::string_view side,
                   const std::string& name) {
  if (declared == kUnknownDim && !asked) {
    throw Error(ErrorCode::usage, fmt::format("input '{}' leaves its {} open: say --size HEIGHTxWIDTH", name, side));
  }
  if (declared != kUnknownDim && asked && declared != *asked) {
    throw Error(ErrorCode::usage,
                fmt::format("input '{}' has a {} of {}, but --size says {}", name, side, declared, *asked));
  }
  return asked ? *asked : declared;
}

Frame frame_of(const ValueInfo& input, const ImageOptions& options) {
  const std::string name = printable(input.name);
  Shape shape = input.shape.value_or(Shape(4, kUnknownDim));
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::input, fmt::format("input '{}' {} cannot take a picture: {}", name, to_string(shape), why));
  };
  if (shape.size() != 4) throw refuse("four dimensions are needed");
  if (shape[0] != 1 && shape[0] != kUnknownDim) throw refuse("its batch size is not 1");
  const bool nchw = options.layout == Layout::nchw;
  const std::int64_t declared = shape[nchw ? 1 : 3];
  if (declared != 1 && declared != 3 && declared != kUnknownDim) {
    throw refuse(fmt::format("in the layout {} it has {} channels, not 1 or 3 (see --layout)", nchw ? "nchw" : "nhwc",
                             declared));
  }
  const Channels channels = options.channels.value_or(declared == 1 ? Channels::gray : Channels::rgb);
  const std::int64_t given = channels == Channels::gray ? 1 : 3;
  if (declared != kUnknownDim && declared != given) {
    throw Error(ErrorCode::usage,
                fmt::format("input '{}' takes {} channels, but --channels gives {}", name, declared, given));
  }
  return {given, agree(shape[nchw ? 2 : 1], options.height, "height", name),
          agree(shape[nchw ? 3 : 2], options.width, "width", name)};
}

std::vector<double> per_channel(std::vector<double> values, double fallback, std::int64_t channels,
                                std::string_view option) {
  const auto count = static_cast<std::size_t>(channels);
  if (values.empty()) values.assign(1, fallback);
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() != count) {
    throw Error(ErrorCode::usage, fmt::format("{} needs one value or {}, not {}", option, count, values.size()));
  }
  for (const double value : values) {
    if (!std::isfinite(value)) throw Error(ErrorCode::usage, fmt::format("{} must be finite", option));
  }
  return values;
}

void store(double value, DType type, std::byte* out) {
  if (type == DType::float32) {
    const auto rounded = static_cast<float>(value);
    std::memcpy(out, &rounded, sizeof rounded);
  } else if (type == DType::float64) {
    std::memcpy(out, &value, sizeof value);
  } else {
    const std::uint16_t code = encode_float(type, value);
    std::memcpy(out, &code, sizeof code);
  }
}

}  // namespace

Image resize(const Image& image, std::int64_t width, std::int64_t height) {
  Image result{width, height, image.channels, {}};
  result.pixels.resize(static_cast<std::size_t>(width * height * image.channels));
  const std::vector<Tap1d> columns = taps(image.width, width);
  const std::vector<Tap1d> rows = taps(image.height, height);
  const std::int64_t whole = 4 * width * height;
  const auto pixel = [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    return static_cast<std::int64_t>(
        image.pixels[static_cast<std::size_t>((y * image.width + x) * image.channels + c)]);
  };
  std::size_t out = 0;
  for (const Tap1d& row : rows) {
    for (const Tap1d& column : columns) {
      for (std::int64_t c = 0; c < image.channels; ++c) {
        const auto mix = [&](std::int64_t y) {
          return pixel(y, column.first, c) * (2 * width - column.part) + pixel(y, column.second, c) * column.part;
        };
        const std::int64_t sum = mix(row.first) * (2 * height - row.part) + mix(row.second) * row.part;
        result.pixels[out++] = divide_half_even(sum, whole);
      }
    }
  }
  return result;
}

Image to_gray(const Image& image) {
  if (image.channels == 1) return image;
  Image result{image.width, image.height, 1, {}};
  result.pixels.reserve(image.pixels.size() / 3);
  for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    const int sum = 299 * image.pixels[i] + 587 * image.pixels[i + 1] + 114 * image.pixels[i + 2];
    result.pixels.push_back(static_cast<std::uint8_t>((sum + 500) / 1000));
  }
  return result;
}

Image to_rgb(const Image& image) {
  if (image.channels == 3) return image;
  Image result{image.width, image.height, 3, {}};
  result.pixels.reserve(image.pixels.size() * 3);
  for (const std::uint8_t value : image.pixels) result.pixels.insert(result.pixels.end(), 3, value);
  return result;
}

Tensor image_to_tensor(const Image& image, const ValueInfo& input, const ImageOptions& options) {
  const DType type = input.dtype;
  if (type != DType::uint8 && !is_float(type)) {
    throw Error(ErrorCode::input, fmt::format("input '{}' is {}: pictures go into uint8 and float inputs only",
                                              printable(input.name), to_string(type)));
  }
  if (type == DType::uint8 && !(options.mean.empty() && options.std.empty())) {
    throw Error(ErrorCode::usage, fmt::format("input '{}' takes the bytes of the picture: leave --mean and --std out",
                                              printable(input.name)));
  }
  const Frame frame = frame_of(input, options);
  constexpr std::int64_t kMaxArea = 1 << 26;
  constexpr std::int64_t kMaxSide = 1 << 15;  // keeps every product below in 64 bits
  if (frame.height < 1 || frame.width < 1 || frame.height > kMaxSide || frame.width > kMaxSide ||
      frame.height * frame.width > kMaxArea) {
    throw Error(ErrorCode::usage, fmt::format("a picture of {} x {} is out of range (1 to {} a side, {} in all)",
                                              frame.height, frame.width, kMaxSide, kMaxArea));
  }
  const std::vector<double> mean = per_channel(options.mean, 0.0, frame.channels, "--mean");
  const std::vector<double> deviation = per_channel(options.std, 1.0, frame.channels, "--std");
  if (std::count(deviation.begin(), deviation.end(), 0.0) != 0) throw Error(ErrorCode::usage, "--std must not be 0");

  const auto [height, width] =
      options.fit == Fit::pad ? fitted(image, frame.height, frame.width) : std::pair(frame.height, frame.width);
  const Image picture = resize(frame.channels == 1 ? to_gray(image) : to_rgb(image), width, height);
  const bool nchw = options.layout == Layout::nchw;
  const bool reversed = options.channels == Channels::bgr;
  const Shape shape =
      nchw ? Shape{1, frame.channels, frame.height, frame.width} : Shape{1, frame.height, frame.width, frame.channels};
  const std::size_t element = storage_size(type);
  // Zero bytes are 0 in every type here: the padding.
  std::vector<std::byte> data(static_cast<std::size_t>(frame.channels * frame.height * frame.width) * element);
  for (std::int64_t c = 0; c < frame.channels; ++c) {
    const std::int64_t source_channel = reversed ? frame.channels - 1 - c : c;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const auto from = static_cast<std::size_t>((y * width + x) * frame.channels + source_channel);
        const auto to = static_cast<std::size_t>(nchw ? (c * frame.height + y) * frame.width + x
                                                      : (y * frame.width + x) * frame.channels + c);
        const std::uint8_t byte = picture.pixels[from];
        if (type == DType::uint8) {
          data[to] = std::byte{byte};
        } else {
          const auto channel = static_cast<std::size_t>(c);
          store((byte / 255.0 - mean[channel]) / deviation[channel], type, data.data() + to * element);
        }
      }
    }
  }
  return Tensor::own(type, shape, std::move(data));
}

}  // namespace halfeven::cli
