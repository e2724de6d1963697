// libpng and libjpeg report errors by a jump: nothing with a destructor lives in the functions that call them.
#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <halfeven/error.hpp>

#include <jpeglib.h>
#include <png.h>

#include "cli/files.hpp"
#include "cli/image.hpp"

namespace halfeven::cli {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 27;
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxDeflateRatio = 1032;
constexpr long kMaxScans = 500;  // of a progressive JPEG; each costs a pass over the picture

struct Failure {
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void set_message(Failure& failure, const char* text) {
  std::snprintf(failure.message, sizeof failure.message, "%s", text);
}

bool size_allowed(std::uint64_t width, std::uint64_t height, Failure& failure) {
  if (width > 0 && height > 0 && height <= static_cast<std::uint64_t>(kMaxPixels) / width) return true;
  std::snprintf(failure.message, sizeof failure.message, "%llu x %llu pixels are out of range (1 to %lld are read)",
                static_cast<unsigned long long>(width), static_cast<unsigned long long>(height),
                static_cast<long long>(kMaxPixels));
  return false;
}

// No exception may pass through the libraries' frames.
bool allocate(Image& image, std::uint64_t width, std::uint64_t height, int channels, Failure& failure) noexcept {
  try {
    image.pixels.resize(static_cast<std::size_t>(width * height) * static_cast<std::size_t>(channels));
  } catch (...) {
    set_message(failure, "not enough memory for the picture");
    return false;
  }
  image.width = static_cast<std::int64_t>(width);
  image.height = static_cast<std::int64_t>(height);
  image.channels = channels;
  return true;
}

struct PngSource {
  const std::byte* data;
  std::size_t left;
};

void png_read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "the file ends too early");
  std::memcpy(out, source->data, count);
  source->data += count;
  source->left -= count;
}

[[noreturn]] void png_failed(png_structp png, png_const_charp text) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  set_message(*failure, text);
  std::longjmp(failure->jump, 1);
}

void png_warned(png_structp, png_const_charp) {}

bool read_png_rows(png_structp png, png_infop info, PngSource& source, Image& image, Failure& failure) {
  const std::uint64_t file_size = source.left;
  if (setjmp(failure.jump) != 0) return false;
  png_set_read_fn(png, &source, png_read_bytes);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_DEFAULT);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // the product is what counts, checked below
  png_read_info(png, info);

  const png_uint_32 width = png_get_image_width(png, info);
  const png_uint_32 height = png_get_image_height(png, info);
  const int color = png_get_color_type(png, info);
  const std::uint64_t depth = png_get_bit_depth(png, info);
  const int channels = (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  const std::uint64_t bits_per_pixel = depth * png_get_channels(png, info);
  if (!size_allowed(width, height, failure)) return false;
  if (static_cast<std::uint64_t>(width) * height / 8 * bits_per_pixel > file_size * kMaxDeflateRatio) {
    std::snprintf(failure.message, sizeof failure.message, "%lu x %lu pixels cannot come from a file of this size",
                  static_cast<unsigned long>(width), static_cast<unsigned long>(height));
    return false;
  }
  if (!allocate(image, width, height, channels, failure)) return false;

  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "unexpected pixel format");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(png, image.pixels.data() + y * row_bytes, nullptr);
  }
  png_read_end(png, nullptr);
  return true;
}

bool read_png(std::span<const std::byte> file, Image& image, Failure& failure) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure, png_failed, png_warned);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  PngSource source{file.data(), file.size()};
  set_message(failure, "libpng does not start");
  const bool good = info != nullptr && read_png_rows(png, info, source, image, failure);
  png_destroy_read_struct(&png, &info, nullptr);
  return good;
}

struct JpegErrors {
  jpeg_error_mgr base;
  Failure* failure;
};

[[noreturn]] void jpeg_failed(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->failure->message);
  std::longjmp(errors->failure->jump, 1);
}

// Level -1 is damaged data, from which libjpeg would make up pixels.
void jpeg_message(j_common_ptr info, int level) {
  if (level < 0) jpeg_failed(info);
}

void jpeg_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  set_message(*errors->failure, "too many scans");
  std::longjmp(errors->failure->jump, 1);
}

bool read_jpeg_rows(jpeg_decompress_struct& info, std::span<const std::byte> file, Image& image, Failure& failure) {
  if (setjmp(failure.jump) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_progress_mgr progress{};
  progress.progress_monitor = jpeg_progress;
  info.progress = &progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  if (info.num_components != 1 && info.num_components != 3) {
    set_message(failure, "only gray and colour (YCbCr, RGB) JPEGs are read");
    return false;
  }
  const int channels = info.num_components;
  if (!size_allowed(info.image_width, info.image_height, failure)) return false;
  if (!allocate(image, info.image_width, info.image_height, channels, failure)) return false;
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.dct_method = JDCT_ISLOW;  // integers: the same pixels whatever the instruction set
  jpeg_start_decompress(&info);
  const std::size_t row_bytes = static_cast<std::size_t>(info.output_width) * static_cast<std::size_t>(channels);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

bool read_jpeg(std::span<const std::byte> file, Image& image, Failure& failure) {
  jpeg_decompress_struct info{};
  JpegErrors errors{};
  errors.failure = &failure;
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = jpeg_failed;
  errors.base.emit_message = jpeg_message;
  const bool good = read_jpeg_rows(info, file, image, failure);
  jpeg_destroy_decompress(&info);
  return good;
}

bool begins_with(std::span<const std::byte> file, const char* magic, std::size_t size) {
  return file.size() >= size && std::memcmp(file.data(), magic, size) == 0;
}

}  // namespace

Image parse_image(std::span<const std::byte> file, const std::string& source) {
  Image image;
  Failure failure{};
  bool good = false;
  if (begins_with(file, "\x89PNG\r\n\x1a\n", 8)) {
    good = read_png(file, image, failure);
  } else if (begins_with(file, "\xff\xd8\xff", 3)) {
    good = read_jpeg(file, image, failure);
  } else {
    set_message(failure, "neither a PNG nor a JPEG picture");
  }
  if (!good) throw Error(ErrorCode::input, fmt::format("{}: {}", source, printable(failure.message)));
  return image;
}

Image load_image(const std::filesystem::path& path) { return parse_image(read_file(path, kMaxFile), in_quotes(path)); }

}  // namespace halfeven::cli
