#include "cli/image.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <halfeven/error.hpp>

#include <jpeglib.h>
#include <png.h>

namespace halfeven::cli {
namespace {

using Bytes = std::vector<std::byte>;

Bytes make_png(const std::vector<std::uint8_t>& pixels, unsigned width, unsigned height, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr), 0);
  Bytes file(size);
  EXPECT_NE(png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  file.resize(size);
  return file;
}

Bytes make_jpeg(std::vector<std::uint8_t> pixels, unsigned width, unsigned height, int channels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < height) {
    JSAMPROW row =
        pixels.data() + static_cast<std::size_t>(info.next_scanline) * width * static_cast<unsigned>(channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes file(size);
  std::memcpy(file.data(), buffer, size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return file;
}

std::vector<std::uint8_t> ramp(std::size_t size) {
  std::vector<std::uint8_t> values(size);
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  return values;
}

ValueInfo input(DType type, Shape shape) { return {"x", type, std::move(shape), {}, false}; }

template <class F>
void expect_refused(F f, ErrorCode code, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ReadImage, PngKeepsEveryPixel) {
  const auto rgb = ramp(3 * 5 * 4);
  const Image color = parse_image(make_png(rgb, 5, 4, PNG_FORMAT_RGB), "f");
  EXPECT_EQ(color.width, 5);
  EXPECT_EQ(color.height, 4);
  EXPECT_EQ(color.channels, 3);
  EXPECT_EQ(color.pixels, rgb);
  const auto gray = ramp(7 * 2);
  const Image plain = parse_image(make_png(gray, 7, 2, PNG_FORMAT_GRAY), "f");
  EXPECT_EQ(plain.channels, 1);
  EXPECT_EQ(plain.pixels, gray);
}

TEST(ReadImage, AlphaIsIgnored) {
  const std::vector<std::uint8_t> rgba = {10, 20, 30, 128};
  EXPECT_EQ(parse_image(make_png(rgba, 1, 1, PNG_FORMAT_RGBA), "f").pixels, (std::vector<std::uint8_t>{10, 20, 30}));
}

TEST(ReadImage, JpegOfOneColour) {
  const Image gray = parse_image(make_jpeg(std::vector<std::uint8_t>(9 * 6, 77), 9, 6, 1), "f");
  EXPECT_EQ(gray.pixels, std::vector<std::uint8_t>(9 * 6, 77));
  const Image color = parse_image(make_jpeg(std::vector<std::uint8_t>(8 * 8 * 3, 128), 8, 8, 3), "f");
  EXPECT_EQ(color.channels, 3);
  EXPECT_EQ(color.pixels, std::vector<std::uint8_t>(8 * 8 * 3, 128));
}

TEST(ReadImage, RefusesOtherAndCutOffFiles) {
  expect_refused([] { parse_image(Bytes(100), "'f'"); }, ErrorCode::input, "'f': neither a PNG nor a JPEG");
  expect_refused([] { parse_image({}, "'f'"); }, ErrorCode::input, "neither");
  const Bytes png = make_png(ramp(3 * 40 * 40), 40, 40, PNG_FORMAT_RGB);
  const Bytes jpeg = make_jpeg(ramp(3 * 40 * 40), 40, 40, 3);
  for (const Bytes& file : {png, jpeg}) {
    for (std::size_t size = 0; size + 2 < file.size(); size += 7) {
      EXPECT_THROW(parse_image(std::span(file).first(size), "f"), Error) << size;
    }
  }
}

TEST(ReadImage, ChangedBytesNeverCrash) {
  const Bytes png = make_png(ramp(3 * 6 * 6), 6, 6, PNG_FORMAT_RGB);
  const Bytes jpeg = make_jpeg(ramp(3 * 6 * 6), 6, 6, 3);
  for (const Bytes& file : {png, jpeg}) {
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const int value : {0, 1, 0x7f, 0xff}) {
        Bytes changed = file;
        changed[at] = static_cast<std::byte>(value);
        try {
          parse_image(changed, "f");
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::input);
        }
      }
    }
  }
}

// Sets width and height in a PNG's header and mends its checksum.
Bytes with_size(Bytes png, std::uint32_t width, std::uint32_t height) {
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) png[at + i] = static_cast<std::byte>(value >> (24 - 8 * i));
  };
  put(16, width);
  put(20, height);
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 12; i < 29; ++i) {
    crc ^= std::to_integer<std::uint32_t>(png[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  put(29, ~crc);
  return png;
}

TEST(ReadImage, RefusesDimensionBombs) {
  const Bytes png = make_png(ramp(3 * 6 * 6), 6, 6, PNG_FORMAT_RGB);
  expect_refused([&] { parse_image(with_size(png, 0x7fffffff, 0x7fffffff), "f"); }, ErrorCode::input, "out of range");
  expect_refused([&] { parse_image(with_size(png, 10000, 10000), "f"); }, ErrorCode::input, "cannot come from a file");
  Bytes jpeg = make_jpeg(ramp(3 * 6 * 6), 6, 6, 3);
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] != std::byte{0xff} || jpeg[i + 1] != std::byte{0xc0}) continue;
    for (std::size_t k = 5; k < 9; ++k) jpeg[i + k] = std::byte{0xfd};
    break;
  }
  expect_refused([&] { parse_image(jpeg, "f"); }, ErrorCode::input, "out of range");
}

TEST(Resize, SameSizeIsTheSamePicture) {
  const Image image{5, 4, 3, ramp(60)};
  EXPECT_EQ(resize(image, 5, 4).pixels, image.pixels);
}

TEST(Resize, HalfPixelCentres) {
  // Positions -1/4, 1/4, 3/4, 5/4 of (10, 20): 10, 12.5, 17.5, 20; ties go to even.
  EXPECT_EQ(resize({2, 1, 1, {10, 20}}, 4, 1).pixels, (std::vector<std::uint8_t>{10, 12, 18, 20}));
  EXPECT_EQ(resize({1, 2, 1, {10, 20}}, 1, 4).pixels, (std::vector<std::uint8_t>{10, 12, 18, 20}));
  // Positions 1/2 and 5/2: means of neighbours.
  EXPECT_EQ(resize({4, 1, 1, {0, 3, 4, 8}}, 2, 1).pixels, (std::vector<std::uint8_t>{2, 6}));
  EXPECT_EQ(resize({2, 2, 1, {0, 1, 1, 1}}, 1, 1).pixels, (std::vector<std::uint8_t>{1}));
}

TEST(Resize, OneColourStaysOneColour) {
  const Image image{7, 5, 1, std::vector<std::uint8_t>(35, 255)};
  EXPECT_EQ(resize(image, 13, 3).pixels, std::vector<std::uint8_t>(39, 255));
}

TEST(Gray, WeightsAddUpToOne) {
  EXPECT_EQ(to_gray({2, 1, 3, {255, 255, 255, 0, 0, 0}}).pixels, (std::vector<std::uint8_t>{255, 0}));
  EXPECT_EQ(to_gray({1, 1, 3, {255, 0, 0}}).pixels, (std::vector<std::uint8_t>{76}));
}

TEST(ImageToTensor, NormalisesAndReordersChannels) {
  const Image image{1, 1, 3, {0, 51, 255}};
  ImageOptions options;
  options.mean = {0.5};
  options.std = {0.5};
  options.channels = Channels::bgr;
  const Tensor tensor = image_to_tensor(image, input(DType::float32, {-1, 3, 1, 1}), options);
  EXPECT_EQ(tensor.shape(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(tensor.values<float>()[0], 1.0F);
  EXPECT_EQ(tensor.values<float>()[1], static_cast<float>((51 / 255.0 - 0.5) / 0.5));
  EXPECT_EQ(tensor.values<float>()[2], -1.0F);
}

TEST(ImageToTensor, LayoutsHoldTheSamePixels) {
  const Image image{3, 2, 3, ramp(18)};
  ImageOptions options;
  options.layout = Layout::nhwc;
  const Tensor nhwc = image_to_tensor(image, input(DType::uint8, {1, 2, 3, 3}), options);
  EXPECT_EQ(std::memcmp(nhwc.data(), image.pixels.data(), 18), 0);
  options.layout = Layout::nchw;
  const Tensor nchw = image_to_tensor(image, input(DType::uint8, {1, 3, 2, 3}), options);
  EXPECT_EQ(nchw.values<std::uint8_t>()[0], 0);
  EXPECT_EQ(nchw.values<std::uint8_t>()[1], 3);
  EXPECT_EQ(nchw.values<std::uint8_t>()[6], 1);
}

TEST(ImageToTensor, PadsWithZeroAfterNormalisation) {
  ImageOptions options;
  options.fit = Fit::pad;
  options.mean = {0.5};
  const Image image{2, 2, 1, {255, 255, 255, 255}};
  const Tensor right = image_to_tensor(image, input(DType::float32, {1, 1, 2, 3}), options);
  const std::vector<float> wanted = {0.5F, 0.5F, 0.0F, 0.5F, 0.5F, 0.0F};
  EXPECT_TRUE(identical(right, Tensor::of<float>(DType::float32, {1, 1, 2, 3}, wanted)));
  const Tensor below = image_to_tensor(image, input(DType::float32, {1, 1, 3, 2}), options);
  EXPECT_EQ(below.values<float>()[3], 0.5F);
  EXPECT_EQ(below.values<float>()[4], 0.0F);
}

TEST(ImageToTensor, RoundsToTheInputsType) {
  ImageOptions options;
  const Image image{1, 1, 1, {85}};  // 1/3
  const Tensor half = image_to_tensor(image, input(DType::float16, {1, 1, 1, 1}), options);
  EXPECT_EQ(half.values<std::uint16_t>()[0], 0x3555);
  const Tensor brain = image_to_tensor(image, input(DType::bfloat16, {1, 1, 1, 1}), options);
  EXPECT_EQ(brain.values<std::uint16_t>()[0], 0x3eab);
  const Tensor twice = image_to_tensor(image, input(DType::float64, {1, 1, 1, 1}), options);
  EXPECT_EQ(twice.values<double>()[0], 85 / 255.0);
}

TEST(ImageToTensor, RefusesContradictions) {
  const Image image{2, 2, 3, ramp(12)};
  ImageOptions options;
  const auto convert = [&](DType type, Shape shape) {
    return [&options, &image, type, shape] { image_to_tensor(image, input(type, shape), options); };
  };
  expect_refused(convert(DType::int64, {1, 3, 2, 2}), ErrorCode::input, "int64");
  expect_refused(convert(DType::float32, {1, 3}), ErrorCode::input, "four dimensions");
  expect_refused(convert(DType::float32, {2, 3, 2, 2}), ErrorCode::input, "batch size");
  expect_refused(convert(DType::float32, {1, 224, 224, 3}), ErrorCode::input, "--layout");
  expect_refused(convert(DType::float32, {1, 3, -1, 2}), ErrorCode::usage, "--size");
  options.mean = {0.5, 0.5};
  expect_refused(convert(DType::float32, {1, 3, 2, 2}), ErrorCode::usage, "--mean");
  expect_refused(convert(DType::uint8, {1, 3, 2, 2}), ErrorCode::usage, "--mean");
  options.mean = {};
  options.std = {0.0};
  expect_refused(convert(DType::float32, {1, 3, 2, 2}), ErrorCode::usage, "--std");
  options.std = {};
  options.channels = Channels::gray;
  expect_refused(convert(DType::float32, {1, 3, 2, 2}), ErrorCode::usage, "--channels");
  options.channels = {};
  options.height = 4;
  expect_refused(convert(DType::float32, {1, 3, 2, 2}), ErrorCode::usage, "--size says 4");
  options.width = 1 << 20;
  expect_refused(convert(DType::float32, {1, 3, -1, -1}), ErrorCode::usage, "out of range");
}

}  // namespace
}  // namespace halfeven::cli
