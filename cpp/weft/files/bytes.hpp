// Serialisation of numbers, and the common frame of the headers of weft's files: a magic number, the version of the
// format, a byte-order mark, the header's length, and a checksum at the end. docs/turbulence-files.md shows an example.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace weft::files {

// A file format: the magic number of its files, and their name in errors ("a checkpoint of weft's turbulence").
struct Format {
  std::array<char, 8> magic;
  std::uint32_t version;
  const char* what;
};

class Writer {
 public:
  // `number`: see `number_of`.
  explicit Writer(const Format& format, std::int64_t number = 0);

  template <class V>
  void put(V value) {
    static_assert(std::is_arithmetic_v<V>);
    put(std::span<const V>(&value, 1));
  }
  template <class V>
  void put(std::span<const V> values) {
    append(std::as_bytes(values));
  }
  // Writes the number of values (int64), then the values.
  template <class V>
  void list(const V& values) {
    put(static_cast<std::int64_t>(values.size()));
    put(std::span(values.data(), values.size()));
  }
  // Returns the header with its length and checksum filled in.
  std::vector<std::byte> sealed() &&;

 private:
  void append(std::span<const std::byte> raw);

  std::vector<std::byte> bytes_;
};

// The size of the prefix, which contains the length of the whole header.
inline constexpr std::int64_t prefix_bytes = 32;
// The length of the header. std::runtime_error, beginning with `name`, if the format, version or byte order differs.
std::int64_t header_bytes(std::span<const std::byte> prefix, const Format& format, const std::string& name);

// The sequence number in a header's prefix, which orders several files of a kind; 0 if there is none.
std::int64_t number_of(std::span<const std::byte> prefix);

// Reads the part of a header after its prefix. Every error is a std::runtime_error that begins with `name`.
class Reader {
 public:
  // Reads from a whole header, after verifying its checksum.
  Reader(std::span<const std::byte> header, const Format& format, const std::string& name);

  template <class V>
  V get() {
    V value;
    take(&value, sizeof(V));
    return value;
  }
  template <class V>
  std::vector<V> list() {
    const auto count = get<std::int64_t>();
    if (count < 0 || count > static_cast<std::int64_t>((bytes_.size() - at_) / sizeof(V))) damaged();
    std::vector<V> values(static_cast<std::size_t>(count));
    take(values.data(), values.size() * sizeof(V));
    return values;
  }
  std::string text() {
    const auto characters = list<char>();
    return {characters.begin(), characters.end()};
  }
  void end() const {
    if (at_ != bytes_.size()) damaged();
  }
  [[noreturn]] void damaged() const;

 private:
  void take(void* to, std::size_t count) {
    if (count > bytes_.size() - at_) damaged();
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
  }

  std::span<const std::byte> bytes_;  // excluding the checksum
  std::string name_;
  std::size_t at_ = 0;
};

// The prefix of a file's header. std::runtime_error with the file's name if it is missing, truncated or of another
// format. Local.
std::vector<std::byte> read_prefix(const std::filesystem::path& path, const Format& format);

// The header of a file. `expected` computes the file's total length from it. std::runtime_error if the file is missing,
// truncated or longer. Local.
std::vector<std::byte> read_header(const std::filesystem::path& path, const Format& format,
                                   const std::function<std::int64_t(std::span<const std::byte>)>& expected);

}  // namespace weft::files
