#include "cli/npy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <halfeven/error.hpp>

namespace halfeven::cli {
namespace {

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A version 1 file with this header text and data.
std::string npy(const std::string& header, const std::string& data) {
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Tensor parse(const std::string& file, const Limits& limits = {}) {
  return parse_npy(to_bytes(file), "'x.npy'", limits);
}

void expect_refused(const std::string& file, const std::string& part, const Limits& limits = {}) {
  try {
    parse(file, limits);
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::input);
    EXPECT_NE(std::string(error.what()).find("'x.npy'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Npy, ReadsEveryType) {
  const std::vector<std::pair<std::string, DType>> types = {
      {"|b1", DType::boolean}, {"|i1", DType::int8},    {"|u1", DType::uint8},   {"<i2", DType::int16},
      {"<u2", DType::uint16},  {"<i4", DType::int32},   {"<u4", DType::uint32},  {"<i8", DType::int64},
      {"<u8", DType::uint64},  {"<f2", DType::float16}, {"<f4", DType::float32}, {"<f8", DType::float64}};
  for (const auto& [descr, type] : types) {
    const std::string data(2 * storage_size(type), '\x01');
    const Tensor tensor = parse(npy(dictionary(descr, "(2,)"), data));
    EXPECT_EQ(tensor.dtype(), type);
    EXPECT_EQ(tensor.shape(), Shape{2});
    EXPECT_EQ(std::memcmp(tensor.data(), data.data(), data.size()), 0);
  }
}

TEST(Npy, BigEndianIsSwapped) {
  const Tensor tensor = parse(npy(dictionary(">i2", "(2,)"), std::string("\x01\x02\xff\xfe", 4)));
  EXPECT_EQ(tensor.values<std::int16_t>()[0], 0x0102);
  EXPECT_EQ(tensor.values<std::int16_t>()[1], -2);
}

TEST(Npy, FortranOrderIsTransposed) {
  // Element [i][j][k] of shape 2 x 3 x 2 lies at i + 2 j + 6 k.
  std::string data;
  for (char i = 0; i < 12; ++i) data += i;
  const Tensor tensor = parse(npy(dictionary("|u1", "(2, 3, 2)", "True"), data));
  const auto values = tensor.values<std::uint8_t>();
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 2; ++k) EXPECT_EQ(values[(i * 3 + j) * 2 + k], i + 2 * j + 6 * k);
    }
  }
}

TEST(Npy, FortranOrderWithoutElements) {
  EXPECT_EQ(parse(npy(dictionary("<f4", "(0, 3)", "True"), "")).shape(), (Shape{0, 3}));
}

TEST(Npy, ScalarAndHeaderVariants) {
  EXPECT_EQ(parse(npy(dictionary("|u1", "()"), "a")).shape(), Shape{});
  EXPECT_EQ(parse(npy("{\"shape\":(1L,2L),\"fortran_order\":False,\"descr\":\"|u1\"}   \n", "ab")).shape(),
            (Shape{1, 2}));
}

TEST(Npy, VersionsTwoAndThree) {
  const std::string header = dictionary("|u1", "(1,)");
  for (const char version : {'\x02', '\x03'}) {
    std::string file = "\x93NUMPY";
    file += version;
    file += '\0';
    file += static_cast<char>(header.size());
    file += std::string(3, '\0');
    EXPECT_EQ(parse(file + header + "z").values<std::uint8_t>()[0], 'z');
  }
}

TEST(Npy, RefusesWhatIsNoNpy) {
  expect_refused("", "not a .npy file");
  expect_refused("\x93NUMPX\x01", "not a .npy file");
  expect_refused(std::string("\x93NUMPY\x04\x00\x00\x00", 10), "version 4.0");
  expect_refused(std::string("\x93NUMPY\x01\x00\x40", 9), "ends within");
  expect_refused(std::string("\x93NUMPY\x01\x00\x40\x00{", 11), "ends within");
  expect_refused(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "too long");
}

TEST(Npy, RefusesMalformedHeaders) {
  expect_refused(npy("", ""), "malformed");
  expect_refused(npy("{'descr': '<f4', 'shape': (1,)}", "0123"), "needs the keys");
  expect_refused(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "0123"), "repeated");
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "0123"), "unexpected");
  expect_refused(npy("{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", "0123"), "unsupported element type");
  expect_refused(npy("{'descr': '<f4", "0123"), "malformed");
  expect_refused(npy(dictionary("|u1", "(1,)", "maybe"), "0"), "True or False");
  expect_refused(npy(dictionary("|u1", "(1)"), "0"), "tuple");
  expect_refused(npy(dictionary("|u1", "(-1,)"), "0"), "not negative");
  expect_refused(npy(dictionary("|u1", "(1, x)"), "0"), "malformed");
  expect_refused(npy(dictionary("|u1", "(,)"), "0"), "malformed");
  expect_refused(npy(dictionary("|u1", "(1,,)"), "0"), "malformed");
  expect_refused(npy(dictionary("|u1", "(1,)") + "__import__('os')", "0"), "follows");
}

TEST(Npy, RefusesOtherTypes) {
  for (const char* descr : {"|O", "<c8", "<U4", "<M8[s]", "<f16", "|i4", "f4", "", "<", "|V2"}) {
    expect_refused(npy(dictionary(descr, "(1,)"), std::string(16, '\0')), "unsupported element type");
  }
  expect_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "0123"), "structured");
}

TEST(Npy, RefusesSizesThatTheFileDoesNotHave) {
  expect_refused(npy(dictionary("<f4", "(2,)"), "0123"), "takes 8 bytes of data, but the file has 4");
  expect_refused(npy(dictionary("<f4", "(1,)"), "01234"), "takes 4 bytes of data, but the file has 5");
  expect_refused(npy(dictionary("<f8", "(1048576, 1024)"), "0"), "more than the limit", Limits{.tensor_bytes = 1024});
  expect_refused(npy(dictionary("|u1", "(99999999999999999999,)"), "0"), "beyond 64 bits");
  expect_refused(npy(dictionary("<f4", "(4611686018427387904,)"), "0"), "too large");
  expect_refused(npy(dictionary("|u1", "(4294967296, 4294967296)"), "0"), "too large");
  expect_refused(npy(dictionary("|u1", "(4294967296, 0, 4294967296)"), ""), "too large");
  std::string rank = "(";
  for (int i = 0; i < 65; ++i) rank += "1,";
  expect_refused(npy(dictionary("|u1", rank + ")"), "0"), "more than 64 dimensions");
}

TEST(Npy, RefusesBooleansBeyondOne) {
  expect_refused(npy(dictionary("|b1", "(3,)"), std::string("\x00\x01\x02", 3)), "element 2 is 2");
}

TEST(Npy, EveryCutOffFileIsRefused) {
  const std::string whole = npy(dictionary("<f4", "(2,)"), "01234567");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_THROW(parse(whole.substr(0, size)), Error) << size;
}

TEST(Npy, ChangedBytesNeverCrash) {
  const std::string whole = npy(dictionary("<f4", "(2, 1)", "True"), "01234567");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      try {
        parse(changed);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::input);
      }
    }
  }
}

TEST(Npy, WritesWhatItReads) {
  const std::vector<float> values = {1.5F, -0.0F, std::numeric_limits<float>::infinity()};
  for (const Shape& shape : {Shape{3}, Shape{1, 3}, Shape{3, 1, 1}}) {
    const Tensor tensor = Tensor::of<float>(DType::float32, shape, values);
    const std::vector<std::byte> file = format_npy(tensor);
    EXPECT_EQ((file.size() - tensor.bytes().size()) % 64, 0U);
    EXPECT_TRUE(identical(parse_npy(file, "f"), tensor));
  }
  const std::vector<std::byte> scalar = format_npy(Tensor::of<float>(DType::float32, {}, std::span(values).first(1)));
  EXPECT_EQ(parse_npy(scalar, "f").shape(), Shape{});
}

TEST(Npy, NarrowTypesAreWrittenAsNumPyKnowsThem) {
  const std::vector<std::int8_t> nibbles = {-8, 7};
  EXPECT_EQ(parse_npy(format_npy(Tensor::of<std::int8_t>(DType::int4, {2}, nibbles)), "f").dtype(), DType::int8);
  const std::vector<std::uint16_t> brain = {0x3fc0, 0xff80};
  const Tensor wide = parse_npy(format_npy(Tensor::of<std::uint16_t>(DType::bfloat16, {2}, brain)), "f");
  EXPECT_EQ(wide.dtype(), DType::float32);
  EXPECT_EQ(wide.values<float>()[0], 1.5F);
  EXPECT_EQ(wide.values<float>()[1], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace halfeven::cli
