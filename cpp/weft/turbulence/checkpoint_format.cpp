#include "weft/turbulence/checkpoint_format.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "weft/turbulence/checksum.hpp"

namespace weft::turbulence {
namespace {

constexpr std::array<char, 8> magic{'w', 'e', 'f', 't', 't', 'u', 'r', 'b'};
constexpr std::uint32_t byte_order = 0x01020304;
constexpr std::int64_t largest_size = std::int64_t{1} << 24;    // points along a side
constexpr std::int64_t largest_header = std::int64_t{1} << 32;  // bytes

class Writer {
 public:
  template <class V>
  void put(V value) {
    static_assert(std::is_arithmetic_v<V>);
    put(std::span<const V>(&value, 1));
  }
  template <class V>
  void put(std::span<const V> values) {
    const auto raw = std::as_bytes(values);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  template <class V>
  V get() {
    V value;
    take(&value, sizeof(V));
    return value;
  }
  // A list of get<int64>() values.
  template <class V>
  std::vector<V> list() {
    const auto count = get<std::int64_t>();
    if (count < 0 || count > static_cast<std::int64_t>((bytes_.size() - at_) / sizeof(V))) damaged();
    std::vector<V> values(static_cast<std::size_t>(count));
    take(values.data(), values.size() * sizeof(V));
    return values;
  }
  [[noreturn]] void damaged() const {
    throw std::runtime_error(name_ + ": the header is damaged: take an older checkpoint");
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  void take(void* to, std::size_t count) {
    if (count > bytes_.size() - at_) damaged();
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
};

bool inside(const SpectralPart::Range& range, std::int64_t size) {
  return range.begin >= 0 && range.count >= 0 && range.begin <= size && range.count <= size - range.begin;
}

}  // namespace

void CheckpointFile::place() {
  for (CheckpointBlock& block : blocks) block.table = block.data = 0;
  std::int64_t at = static_cast<std::int64_t>(to_bytes(*this).size());
  for (CheckpointBlock& block : blocks) {
    block.table = at;
    at += block.z.count * static_cast<std::int64_t>(sizeof(PlaneEntry));
  }
  for (CheckpointBlock& block : blocks) {
    block.data = at;
    at += block.bytes;
  }
}

std::int64_t CheckpointFile::size() const {
  return blocks.empty() ? static_cast<std::int64_t>(to_bytes(*this).size()) : blocks.back().data + blocks.back().bytes;
}

std::vector<std::byte> to_bytes(const CheckpointFile& file) {
  const CheckpointHeader& h = file.header;
  Writer w;
  w.put(std::span<const char>(magic));
  w.put(checkpoint_version);
  w.put(byte_order);
  w.put(std::int64_t{0});  // the header's length
  w.put(std::int64_t{0});  // unused
  w.put(std::span<const std::int64_t>(h.box.sizes));
  w.put(std::span<const double>(h.box.lengths));
  for (const int value : {static_cast<int>(h.dealiasing), h.value_bytes, h.scalars, file.index, file.files, 0})
    w.put(static_cast<std::int32_t>(value));
  w.put(h.step);
  w.put(h.time);
  for (const auto* list : {&h.mean, &h.state}) {
    w.put(static_cast<std::int64_t>(list->size()));
    w.put(std::span<const double>(*list));
  }
  w.put(static_cast<std::int64_t>(h.text.size()));
  w.put(std::span<const char>(h.text));
  w.put(static_cast<std::int64_t>(file.blocks.size()));
  for (const CheckpointBlock& b : file.blocks)
    for (const std::int64_t value : {b.x.begin, b.x.count, b.z.begin, b.z.count, b.table, b.data, b.bytes})
      w.put(value);
  const std::int64_t length = static_cast<std::int64_t>(w.bytes().size() + sizeof(std::uint64_t));
  std::memcpy(w.bytes().data() + 16, &length, sizeof length);
  w.put(checksum(w.bytes()));
  return std::move(w.bytes());
}

std::int64_t header_bytes(std::span<const std::byte> prefix, const std::string& name) {
  Reader r(prefix, name);
  std::array<char, 8> found{};
  if (prefix.size() >= found.size())
    for (char& c : found) c = r.get<char>();
  if (found != magic) throw std::runtime_error(name + ": not a checkpoint of weft's turbulence");
  const auto version = r.get<std::uint32_t>();
  if (r.get<std::uint32_t>() != byte_order)
    throw std::runtime_error(name + ": written by a machine of the other byte order, or damaged");
  if (version != checkpoint_version)
    throw std::runtime_error(name + ": format version " + std::to_string(version) + ", this weft reads " +
                             std::to_string(checkpoint_version));
  const auto length = r.get<std::int64_t>();
  if (length < prefix_bytes || length > largest_header) r.damaged();
  return length;
}

CheckpointFile from_bytes(std::span<const std::byte> bytes, const std::string& name) {
  Reader r(bytes, name);
  if (header_bytes(bytes, name) != static_cast<std::int64_t>(bytes.size())) r.damaged();
  const std::size_t body = bytes.size() - sizeof(std::uint64_t);
  std::uint64_t written = 0;
  std::memcpy(&written, bytes.data() + body, sizeof written);
  if (checksum(bytes.first(body)) != written) r.damaged();

  CheckpointFile file;
  CheckpointHeader& h = file.header;
  for (std::int64_t i = 0; i < prefix_bytes / 8; ++i) r.get<std::int64_t>();
  for (std::int64_t& size : h.box.sizes)
    if (size = r.get<std::int64_t>(); size < 1 || size > largest_size) r.damaged();
  for (double& length : h.box.lengths)
    if (length = r.get<double>(); !(length > 0) || !std::isfinite(length)) r.damaged();
  const auto dealiasing = r.get<std::int32_t>();
  if (dealiasing < 0 || dealiasing > static_cast<int>(Dealiasing::two_thirds)) r.damaged();
  h.dealiasing = static_cast<Dealiasing>(dealiasing);
  h.value_bytes = r.get<std::int32_t>();
  h.scalars = r.get<std::int32_t>();
  file.index = r.get<std::int32_t>();
  file.files = r.get<std::int32_t>();
  r.get<std::int32_t>();
  if ((h.value_bytes != 4 && h.value_bytes != 8) || h.scalars < 0 || h.scalars > 1000) r.damaged();
  if (file.files < 1 || file.index < 0 || file.index >= file.files) r.damaged();
  h.step = r.get<std::int64_t>();
  h.time = r.get<double>();
  h.mean = r.list<double>();
  if (h.step < 0 || !std::isfinite(h.time) || h.mean.size() != static_cast<std::size_t>(3 + h.scalars)) r.damaged();
  h.state = r.list<double>();
  const std::vector<char> text = r.list<char>();
  h.text.assign(text.begin(), text.end());

  const auto count = r.get<std::int64_t>();
  std::int64_t at = static_cast<std::int64_t>(bytes.size());
  if (count < 0 || count > at / static_cast<std::int64_t>(sizeof(CheckpointBlock))) r.damaged();
  file.blocks.resize(static_cast<std::size_t>(count));
  for (CheckpointBlock& b : file.blocks) {
    b.x.begin = r.get<std::int64_t>();
    b.x.count = r.get<std::int64_t>();
    b.z.begin = r.get<std::int64_t>();
    b.z.count = r.get<std::int64_t>();
    b.table = r.get<std::int64_t>();
    b.data = r.get<std::int64_t>();
    b.bytes = r.get<std::int64_t>();
    if (!inside(b.x, h.box.sizes[0] / 2 + 1) || !inside(b.z, h.box.sizes[2]) || b.table != at) r.damaged();
    at += b.z.count * static_cast<std::int64_t>(sizeof(PlaneEntry));
  }
  for (const CheckpointBlock& b : file.blocks) {
    if (b.data != at || b.bytes < 0 || b.bytes > std::numeric_limits<std::int64_t>::max() - at) r.damaged();
    at += b.bytes;
  }
  r.get<std::uint64_t>();
  if (!r.at_end()) r.damaged();
  return file;
}

}  // namespace weft::turbulence
