// Numbers to bytes and back, and the envelope every header of weft's own files has: a magic, the format's version, a
// mark of the byte order, the header's length, and a checksum at its end. docs/turbulence-files.md shows one.
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

// A format: how its files begin, and what an error calls one ("a checkpoint of weft's turbulence").
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
  // How many (int64), and the values.
  template <class V>
  void list(const V& values) {
    put(static_cast<std::int64_t>(values.size()));
    put(std::span(values.data(), values.size()));
  }
  // The header's length and checksum are filled in.
  std::vector<std::byte> sealed() &&;

 private:
  void append(std::span<const std::byte> raw);

  std::vector<std::byte> bytes_;
};

// How many bytes tell how long the whole header is.
inline constexpr std::int64_t prefix_bytes = 32;
// The header's length. std::runtime_error that begins with `name` for another format, version or byte order.
std::int64_t header_bytes(std::span<const std::byte> prefix, const Format& format, const std::string& name);

// The number that a header's prefix has for whoever writes several of a kind, to tell their order; 0 where none was
// put.
std::int64_t number_of(std::span<const std::byte> prefix);

// Reads a header from behind its prefix. Every error is a std::runtime_error that begins with `name`.
class Reader {
 public:
  // Of a whole header, whose checksum is looked at.
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

  std::span<const std::byte> bytes_;  // without the checksum
  const std::string& name_;
  std::size_t at_ = 0;
};

// How a file begins; std::runtime_error that names it where it is absent, truncated or of another format. Local.
std::vector<std::byte> read_prefix(const std::filesystem::path& path, const Format& format);

// The header of a file whose length `expected` tells from it; std::runtime_error for what is absent, truncated or
// longer. Local.
std::vector<std::byte> read_header(const std::filesystem::path& path, const Format& format,
                                   const std::function<std::int64_t(std::span<const std::byte>)>& expected);

}  // namespace weft::files
