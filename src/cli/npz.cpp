#include "cli/npz.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include <halfeven/error.hpp>

#include "cli/files.hpp"
#include "cli/npy.hpp"

namespace halfeven::cli {
namespace {

// Signatures and sizes of the records (APPNOTE.TXT 4.3).
constexpr std::uint64_t kEndSignature = 0x06054b50;
constexpr std::uint64_t kEndSize = 22;
constexpr std::uint64_t kDirectorySignature = 0x02014b50;
constexpr std::uint64_t kDirectorySize = 46;
constexpr std::uint64_t kLocalSignature = 0x04034b50;
constexpr std::uint64_t kLocalSize = 30;
constexpr std::uint64_t kMaxComment = 0xffff;

constexpr unsigned kStored = 0;
constexpr unsigned kDeflated = 8;
constexpr std::uint64_t kMaxDeflateRatio = 1032;  // 258 bytes from two bits
constexpr std::uint64_t kHeaderAllowance = 64 * 1024 + 12;

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, std::numeric_limits<std::uint64_t>::max() - a);
}

}  // namespace

NpzFile NpzFile::open(const std::filesystem::path& path, const Limits& limits) {
  return parse(read_file(path, limits.external_bytes), in_quotes(path), limits);
}

NpzFile NpzFile::parse(std::vector<std::byte> file, std::string source, const Limits& limits) {
  NpzFile result;
  result.file_ = std::move(file);
  result.source_ = std::move(source);
  result.limits_ = limits;
  result.parse_directory();
  return result;
}

void NpzFile::fail(const std::string& what) const {
  throw Error(ErrorCode::input, fmt::format("{}: {}", source_, what));
}

// A little-endian number; the caller has checked that it lies within the file.
std::uint64_t NpzFile::field(std::uint64_t offset, unsigned bytes) const {
  std::uint64_t value = 0;
  for (unsigned i = bytes; i-- > 0;) {
    value = (value << 8) | std::to_integer<std::uint64_t>(file_[static_cast<std::size_t>(offset + i)]);
  }
  return value;
}

void NpzFile::parse_directory() {
  const std::uint64_t file_size = file_.size();
  std::uint64_t end = file_size < kEndSize ? 0 : file_size - kEndSize;
  const std::uint64_t lowest = end > kMaxComment ? end - kMaxComment : 0;
  if (file_size < kEndSize) fail("not a .npz file (too short)");
  // The last record whose comment fills the file exactly: a comment may hold anything.
  while (field(end, 4) != kEndSignature || field(end + 20, 2) != file_size - end - kEndSize) {
    if (end == lowest) fail("not a .npz file (no ZIP directory, the file may be cut off)");
    --end;
  }
  const std::uint64_t count = field(end + 10, 2);
  const std::uint64_t size = field(end + 12, 4);
  std::uint64_t position = field(end + 16, 4);
  if (count == 0xffff || size == 0xffffffff || position == 0xffffffff) fail("a ZIP64 archive is not supported");
  if (field(end + 4, 4) != 0 || field(end + 8, 2) != count) fail("an archive in several parts is not supported");
  if (position > end || size > end - position) fail("the ZIP directory lies outside of the file");

  const std::uint64_t directory_end = position + size;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name;
    const Member member = parse_member(position, directory_end, name);
    if (!name.ends_with(".npy")) fail(fmt::format("member '{}' is not a .npy array", printable(name)));
    name.resize(name.size() - 4);
    if (!members_.emplace(name, member).second) fail(fmt::format("it has two arrays '{}'", printable(name)));
    names_.push_back(name);
  }
}

NpzFile::Member NpzFile::parse_member(std::uint64_t& position, std::uint64_t end, std::string& name) const {
  if (end - position < kDirectorySize || field(position, 4) != kDirectorySignature) {
    fail("the ZIP directory is damaged");
  }
  const std::uint64_t flags = field(position + 8, 2);
  Member member;
  member.method = static_cast<unsigned>(field(position + 10, 2));
  member.crc = static_cast<std::uint32_t>(field(position + 16, 4));
  member.packed_size = field(position + 20, 4);
  member.size = field(position + 24, 4);
  member.offset = field(position + 42, 4);
  const std::uint64_t name_size = field(position + 28, 2);
  const std::uint64_t record = kDirectorySize + name_size + field(position + 30, 2) + field(position + 32, 2);
  if (record > end - position) fail("the ZIP directory is damaged");
  name.assign(reinterpret_cast<const char*>(file_.data()) + position + kDirectorySize,
              static_cast<std::size_t>(name_size));
  position += record;

  const std::string shown = printable(name);
  if ((flags & 1) != 0) fail(fmt::format("member '{}' is encrypted", shown));
  if (member.method != kStored && member.method != kDeflated) {
    fail(fmt::format("member '{}' is packed by method {} (stored and deflated are read)", shown, member.method));
  }
  if (member.packed_size == 0xffffffff || member.size == 0xffffffff || member.offset == 0xffffffff) {
    fail("a ZIP64 archive is not supported");
  }
  return member;
}

Tensor NpzFile::read(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) fail(fmt::format("it has no array '{}'", printable(name)));
  const std::string what = fmt::format("{}, array '{}'", source_, printable(name));
  return parse_npy(unpack(found->second, what), what, limits_);
}

std::vector<std::byte> NpzFile::unpack(const Member& member, const std::string& what) const {
  const auto damaged = [&](std::string_view why) { return Error(ErrorCode::input, fmt::format("{}: {}", what, why)); };
  // The sizes of the local header may be left out; where the data begins is said only there.
  const std::uint64_t file_size = file_.size();
  if (member.offset > file_size || file_size - member.offset < kLocalSize ||
      field(member.offset, 4) != kLocalSignature) {
    throw damaged("the member's header is damaged");
  }
  const std::uint64_t begin = member.offset + kLocalSize + field(member.offset + 26, 2) + field(member.offset + 28, 2);
  if (begin > file_size || member.packed_size > file_size - begin) throw damaged("the member ends beyond the file");
  if (member.size > saturating_add(limits_.tensor_bytes, kHeaderAllowance)) {
    throw damaged(fmt::format("{} bytes are more than the limit of {}", member.size, limits_.tensor_bytes));
  }
  const bool possible = member.method == kStored ? member.size == member.packed_size
                                                 : member.size <= member.packed_size * kMaxDeflateRatio;
  if (!possible) throw damaged(fmt::format("{} bytes cannot unpack to {}", member.packed_size, member.size));

  const auto packed =
      std::span(file_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(member.packed_size));
  std::vector<std::byte> data;
  if (member.method == kStored) {
    data.assign(packed.begin(), packed.end());
  } else {
    data.resize(static_cast<std::size_t>(member.size));
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(ErrorCode::other, "zlib does not start");
    // Sizes fit 32 bits: larger ones are ZIP64.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(data.data());
    stream.avail_out = static_cast<uInt>(data.size());
    const int status = inflate(&stream, Z_FINISH);
    const bool complete = status == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
    inflateEnd(&stream);
    if (!complete) throw damaged("the deflated data is damaged");
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (crc != member.crc) throw damaged("the checksum is wrong, the data is damaged");
  return data;
}

}  // namespace halfeven::cli
