#include "weft/turbulence/checkpoint_format.hpp"

#include <cmath>
#include <limits>

namespace weft::turbulence {
namespace {

constexpr std::int64_t largest_size = std::int64_t{1} << 24;  // points along a side

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
  files::Writer w(checkpoint_format, h.number);
  w.put(std::span<const std::int64_t>(h.box.sizes));
  w.put(std::span<const double>(h.box.lengths));
  for (const int value : {static_cast<int>(h.dealiasing), h.value_bytes, h.scalars, file.index, file.files, 0})
    w.put(static_cast<std::int32_t>(value));
  w.put(h.step);
  w.put(h.time);
  w.list(h.mean);
  w.list(h.state);
  w.list(h.text);
  w.put(static_cast<std::int64_t>(file.blocks.size()));
  for (const CheckpointBlock& b : file.blocks)
    for (const std::int64_t value : {b.x.begin, b.x.count, b.z.begin, b.z.count, b.table, b.data, b.bytes})
      w.put(value);
  return std::move(w).sealed();
}

CheckpointFile from_bytes(std::span<const std::byte> bytes, const std::string& name) {
  files::Reader r(bytes, checkpoint_format, name);
  CheckpointFile file;
  CheckpointHeader& h = file.header;
  h.number = files::number_of(bytes);
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
  h.text = r.text();

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
  r.end();
  return file;
}

}  // namespace weft::turbulence
