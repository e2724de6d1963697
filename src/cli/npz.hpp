// NumPy's .npz format: a ZIP file of .npy members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <halfeven/tensor.hpp>

namespace halfeven::cli {

/// The directory of an archive; arrays are read when asked for.
class NpzFile {
 public:
  /// Reads the file and checks its directory. Throws Error{input} saying what is wrong. ZIP64 and encrypted archives
  /// are refused.
  static NpzFile open(const std::filesystem::path& path, const Limits& limits = {});
  static NpzFile parse(std::vector<std::byte> file, std::string source, const Limits& limits = {});

  /// Names of the arrays (members without their ".npy"), in the archive's order.
  const std::vector<std::string>& names() const { return names_; }

  /// Throws Error{input} for an unknown name, a damaged member and whatever parse_npy() refuses. No memory is taken for
  /// more data than the member can hold.
  Tensor read(const std::string& name) const;

 private:
  struct Member {
    std::uint64_t offset = 0;  // of the local header
    std::uint64_t packed_size = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    unsigned method = 0;
  };

  void parse_directory();
  Member parse_member(std::uint64_t& position, std::uint64_t end, std::string& name) const;
  std::uint64_t field(std::uint64_t offset, unsigned bytes) const;
  std::vector<std::byte> unpack(const Member& member, const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::vector<std::byte> file_;
  std::string source_;
  Limits limits_;
  std::vector<std::string> names_;
  std::map<std::string, Member> members_;
};

}  // namespace halfeven::cli
