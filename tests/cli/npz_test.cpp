#include "cli/npz.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include <halfeven/error.hpp>

#include "cli/npy.hpp"

namespace halfeven::cli {
namespace {

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
  return text;
}

std::string deflated(const std::string& data) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(data.size() + 1024, '\0');
  std::string copy = data;
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

std::uint64_t checksum(const std::string& data) {
  return crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
}

// One member of an archive; every field can be made a lie.
struct Part {
  std::string name = "x.npy";
  std::string packed;
  std::uint64_t size = 0;
  std::uint64_t crc = 0;
  std::uint64_t method = 0;
  std::uint64_t flags = 0;
  std::uint64_t packed_size = 0;
};

Part stored(const std::string& name, const std::string& data) {
  return {name, data, data.size(), checksum(data), 0, 0, data.size()};
}

Part packed(const std::string& name, const std::string& data) {
  const std::string small = deflated(data);
  return {name, small, data.size(), checksum(data), 8, 0, small.size()};
}

std::string archive(const std::vector<Part>& parts, const std::string& comment = "") {
  std::string file;
  std::string directory;
  for (const Part& part : parts) {
    const std::string common = number(part.flags, 2) + number(part.method, 2) + number(0, 4) + number(part.crc, 4) +
                               number(part.packed_size, 4) + number(part.size, 4) + number(part.name.size(), 2);
    directory += "PK\x01\x02" + number(20, 2) + number(20, 2) + common + number(0, 2) + number(0, 2) + number(0, 2) +
                 number(0, 2) + number(0, 4) + number(file.size(), 4) + part.name;
    // An extra field in the local header only, as Python writes it.
    file += "PK\x03\x04" + number(20, 2) + common + number(4, 2) + part.name + std::string(4, 'e') + part.packed;
  }
  return file + directory + "PK\x05\x06" + number(0, 4) + number(parts.size(), 2) + number(parts.size(), 2) +
         number(directory.size(), 4) + number(file.size(), 4) + number(comment.size(), 2) + comment;
}

NpzFile parse(const std::string& file, const Limits& limits = {}) {
  const auto bytes = std::as_bytes(std::span(file));
  return NpzFile::parse({bytes.begin(), bytes.end()}, "'x.npz'", limits);
}

std::string array(const Tensor& tensor) {
  const std::vector<std::byte> file = format_npy(tensor);
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

Tensor zeros(std::int64_t count) {
  return Tensor::own(DType::uint8, {count}, std::vector<std::byte>(static_cast<std::size_t>(count)));
}

template <class F>
void expect_refused(F f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::input);
    EXPECT_NE(std::string(error.what()).find("'x.npz'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const NpzFile file = parse(archive({stored("b.npy", array(zeros(3))), packed("a/c.npy", array(zeros(5000)))}));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"b", "a/c"}));
  EXPECT_TRUE(identical(file.read("b"), zeros(3)));
  EXPECT_TRUE(identical(file.read("a/c"), zeros(5000)));
  expect_refused([&] { file.read("d"); }, "no array 'd'");
}

TEST(Npz, AllowsAComment) {
  EXPECT_EQ(parse(archive({stored("x.npy", array(zeros(1)))}, "PK\x05\x06 and more")).names().size(), 1U);
}

TEST(Npz, RefusesWhatIsNoArchive) {
  expect_refused([] { parse(""); }, "not a .npz file");
  expect_refused([] { parse(std::string(100, 'x')); }, "not a .npz file");
  const std::string whole = archive({stored("x.npy", array(zeros(1)))});
  expect_refused([&] { parse(whole.substr(0, whole.size() - 1)); }, "not a .npz file");
}

TEST(Npz, RefusesMembersItCannotRead) {
  const std::string data = array(zeros(1));
  expect_refused([&] { parse(archive({stored("x.txt", data)})); }, "'x.txt' is not a .npy array");
  expect_refused([&] { parse(archive({stored("x.npy", data), stored("x.npy", data)})); }, "two arrays 'x'");
  Part part = stored("x.npy", data);
  part.method = 14;
  expect_refused([&] { parse(archive({part})); }, "method 14");
  part = stored("x.npy", data);
  part.flags = 1;
  expect_refused([&] { parse(archive({part})); }, "encrypted");
  part = stored("x.npy", data);
  part.size = 0xffffffff;
  expect_refused([&] { parse(archive({part})); }, "ZIP64");
}

TEST(Npz, RefusesDamagedData) {
  const std::string data = array(zeros(2000));
  Part part = packed("x.npy", data);
  part.crc ^= 1;
  expect_refused([&] { parse(archive({part})).read("x"); }, "checksum");
  part = packed("x.npy", data);
  part.packed[0] = '\xff';
  expect_refused([&] { parse(archive({part})).read("x"); }, "deflated data is damaged");
  part = packed("x.npy", data);
  part.size -= 1;
  expect_refused([&] { parse(archive({part})).read("x"); }, "damaged");
  part = stored("x.npy", data);
  part.packed_size = part.size = 1000000;
  expect_refused([&] { parse(archive({part})).read("x"); }, "ends beyond the file");
}

TEST(Npz, RefusesBombsBeforeTakingMemory) {
  Part part = packed("x.npy", array(zeros(10)));
  part.size = 0xfffffffe;
  expect_refused([&] { parse(archive({part})).read("x"); }, "cannot unpack to 4294967294");
  const std::string big = array(zeros(1 << 20));
  expect_refused([&] { parse(archive({packed("x.npy", big)}), Limits{.tensor_bytes = 1024}).read("x"); },
                 "more than the limit of 1024");
}

TEST(Npz, NamesTheArrayWhoseHeaderIsWrong) {
  expect_refused([] { parse(archive({stored("x.npy", "nothing")})).read("x"); }, "array 'x': not a .npy file");
}

TEST(Npz, ChangedBytesNeverCrash) {
  const std::string whole = archive({stored("x.npy", array(zeros(3))), packed("y.npy", array(zeros(3)))});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      try {
        const NpzFile file = parse(changed);
        for (const std::string& name : file.names()) file.read(name);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::input);
      }
    }
  }
}

}  // namespace
}  // namespace halfeven::cli
