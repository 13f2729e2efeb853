#include "weft/files/bytes.hpp"

#include <algorithm>
#include <fstream>

#include "weft/files/checksum.hpp"

namespace weft::files {
namespace {

constexpr std::uint32_t byte_order = 0x01020304;
constexpr std::size_t length_at = 16, number_at = 24;
constexpr std::int64_t largest_header = std::int64_t{1} << 32;  // bytes

template <class V>
V value_at(std::span<const std::byte> bytes, std::size_t at) {
  V value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::runtime_error damage(const std::string& name) {
  return std::runtime_error(name + ": the header is damaged: use an older checkpoint");
}

// The first `count` bytes of a file, or the whole file if it is shorter.
std::vector<std::byte> beginning(const std::filesystem::path& path, std::int64_t count) {
  const std::string name = path.string();
  std::error_code absent;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, absent));
  std::ifstream in(path, std::ios::binary);
  if (absent || !in) throw std::runtime_error(name + ": cannot be read: the checkpoint is incomplete");
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(count, size)));
  in.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
  if (!in) throw std::runtime_error(name + ": truncated: use an older checkpoint");
  return bytes;
}

}  // namespace

Writer::Writer(const Format& format, std::int64_t number) {
  put(std::span<const char>(format.magic));
  put(format.version);
  put(byte_order);
  put(std::int64_t{0});  // to be replaced by the header's length
  put(number);
}

void Writer::append(std::span<const std::byte> raw) {
  const std::size_t before = bytes_.size();
  bytes_.resize(before + raw.size());
  if (!raw.empty()) std::memcpy(bytes_.data() + before, raw.data(), raw.size());
}

std::vector<std::byte> Writer::sealed() && {
  const std::int64_t length = static_cast<std::int64_t>(bytes_.size() + sizeof(std::uint64_t));
  std::memcpy(bytes_.data() + length_at, &length, sizeof length);
  put(checksum(bytes_));
  return std::move(bytes_);
}

std::int64_t header_bytes(std::span<const std::byte> prefix, const Format& format, const std::string& name) {
  if (prefix.size() < format.magic.size() || std::memcmp(prefix.data(), format.magic.data(), format.magic.size()) != 0)
    throw std::runtime_error(name + ": not " + format.what);
  if (prefix.size() < static_cast<std::size_t>(prefix_bytes)) throw damage(name);
  if (value_at<std::uint32_t>(prefix, 12) != byte_order)
    throw std::runtime_error(name + ": written by a machine of the other byte order, or damaged");
  if (const auto version = value_at<std::uint32_t>(prefix, 8); version != format.version)
    throw std::runtime_error(name + ": format version " + std::to_string(version) + ", this weft reads " +
                             std::to_string(format.version));
  const auto length = value_at<std::int64_t>(prefix, length_at);
  if (length < prefix_bytes + static_cast<std::int64_t>(sizeof(std::uint64_t)) || length > largest_header)
    throw damage(name);
  return length;
}

std::int64_t number_of(std::span<const std::byte> prefix) { return value_at<std::int64_t>(prefix, number_at); }

Reader::Reader(std::span<const std::byte> header, const Format& format, const std::string& name) : name_(name) {
  if (header_bytes(header, format, name) != static_cast<std::int64_t>(header.size())) damaged();
  bytes_ = header.first(header.size() - sizeof(std::uint64_t));
  if (checksum(bytes_) != value_at<std::uint64_t>(header, bytes_.size())) damaged();
  at_ = static_cast<std::size_t>(prefix_bytes);
}

void Reader::damaged() const { throw damage(name_); }

std::vector<std::byte> read_prefix(const std::filesystem::path& path, const Format& format) {
  std::vector<std::byte> prefix = beginning(path, prefix_bytes);
  header_bytes(prefix, format, path.string());
  return prefix;
}

std::vector<std::byte> read_header(const std::filesystem::path& path, const Format& format,
                                   const std::function<std::int64_t(std::span<const std::byte>)>& expected) {
  const std::string name = path.string();
  const std::int64_t length = header_bytes(beginning(path, prefix_bytes), format, name);
  const std::vector<std::byte> bytes = beginning(path, length);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  if (length > size) throw std::runtime_error(name + ": truncated: use an older checkpoint");
  const std::int64_t told = expected(bytes);
  if (size != told)
    throw std::runtime_error(name + (size < told ? ": truncated: " : ": damaged: ") + std::to_string(size) +
                             " bytes, not the " + std::to_string(told) + " its header tells: use an older checkpoint");
  return bytes;
}

}  // namespace weft::files
