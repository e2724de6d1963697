// Pictures as model inputs: PNG and JPEG, resized and normalised with the same bits on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <halfeven/halfeven.hpp>

namespace halfeven::cli {

/// 8-bit samples, rows from the top, channels innermost: 1 (gray) or 3 (red, green, blue).
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// Reads a PNG or JPEG, known by its first bytes. 16-bit samples are scaled to 8, palettes expanded; alpha, gamma,
/// colour profiles and EXIF orientation are ignored. Throws Error{input} for damaged files and for pictures of more
/// than 2^27 pixels, before memory is taken for them.
Image load_image(const std::filesystem::path& path);
Image parse_image(std::span<const std::byte> file, const std::string& source);

/// Bilinear with half-pixel centres, edges repeated, no smoothing before shrinking: output pixel d of `out` reads the
/// input at (d + 1/2) * in / out - 1/2. Computed in integers and rounded once, half to even.
Image resize(const Image& image, std::int64_t width, std::int64_t height);

/// (299 R + 587 G + 114 B) / 1000, rounded half up; three equal channels of a gray picture.
Image to_gray(const Image& image);
Image to_rgb(const Image& image);

enum class Layout { nchw, nhwc };
enum class Channels { rgb, bgr, gray };
enum class Fit {
  stretch,  ///< to the input's height and width
  pad,      ///< keep the aspect, fill the right or the bottom with 0 after normalisation
};

/// How a picture becomes a tensor: value = (x / 255 - mean) / std, in double, rounded once to the input's type. uint8
/// inputs take the bytes x themselves.
struct ImageOptions {
  Layout layout = Layout::nchw;
  std::optional<Channels> channels;  ///< unset: gray for an input of one channel, else rgb
  Fit fit = Fit::stretch;
  std::vector<double> mean;            ///< one, or one per channel in the order in which the model takes them; empty: 0
  std::vector<double> std;             ///< likewise; empty: 1
  std::optional<std::int64_t> height;  ///< needed where the model does not say
  std::optional<std::int64_t> width;
};

/// A batch of one picture for `input`. Throws Error{usage} where the options contradict the model, Error{input} where
/// the input cannot take a picture.
Tensor image_to_tensor(const Image& image, const ValueInfo& input, const ImageOptions& options);

}  // namespace halfeven::cli
