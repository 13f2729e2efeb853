#include "weft/fft/gpu_stages.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weft::fft {
namespace {

// Of kernels/fft.hpp.
constexpr std::int64_t copy_chunk = 2048;
constexpr device::Shape copy_shape{256};
constexpr std::size_t most_tables = 256;

template <class V>
void call(const Pointwise<V>* function, const Block<V>& block, device::Stream& stream) {
  if (function != nullptr && *function) (*function)(block, stream);
}

// Every variable of a block as one piece.
template <class V>
std::vector<Pieces<V>> fields_of(const Block<V>& block, std::size_t variables) {
  std::vector<Pieces<V>> fields;
  for (std::size_t v = 0; v < variables; ++v)
    fields.push_back({{block.row(static_cast<int>(v), 0, 0), block.box, block.y_stride, block.z_stride}});
  return fields;
}

}  // namespace

template <class T>
GpuStages<T>::GpuStages(const Decomposition& decomposition, std::shared_ptr<device::Device> device)
    : decomposition_(decomposition),
      device_(std::move(device)),
      unpack_(device_->kernel<T>("fft", "unpack")),
      pack_(device_->kernel<T>("fft", "pack")) {}

template <class T>
template <class V>
V* GpuStages<T>::at_least(device::Array<V>& memory, std::int64_t values, device::Stream& stream) {
  if (static_cast<std::int64_t>(memory.size()) < values) {
    stream.synchronize();  // what still uses it
    memory = device::Array<V>();
    memory = device::Array<V>(device_, static_cast<std::size_t>(values));
  }
  return memory.data();
}

template <class T>
std::int64_t GpuStages<T>::memory_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [words, table] : tables_) sum += static_cast<std::int64_t>(table.bytes());
  return sum + static_cast<std::int64_t>(modes_.bytes() + points_.bytes() + library_area_.bytes());
}

template <class T>
void GpuStages<T>::copy(const Copy& kernel, const Fields& from, const Fields& to, T scale, device::Stream& stream) {
  std::vector<std::int64_t> first_blocks, words;
  std::int64_t blocks = 0;
  for (std::size_t v = 0; v < from.size(); ++v) {
    for (const Piece<Complex>& target : to[v]) {
      for (const Piece<Complex>& source : from[v]) {
        const Box common = intersection(target.box, source.box);
        if (common.empty()) continue;
        const auto [x, y, z] = common.first;
        first_blocks.push_back(blocks);
        blocks += (common.size() + copy_chunk - 1) / copy_chunk;
        for (const std::int64_t word :
             {reinterpret_cast<std::int64_t>(target.at(x, y, z)), reinterpret_cast<std::int64_t>(source.at(x, y, z)),
              common.count[0], common.count[1], common.count[2], target.y_stride, target.z_stride, source.y_stride,
              source.z_stride})
          words.push_back(word);
      }
    }
  }
  if (blocks == 0) return;
  const std::size_t pieces = first_blocks.size();
  words.insert(words.begin(), first_blocks.begin(), first_blocks.end());
  // Callers mostly come with the same fields again.
  if (tables_.size() >= most_tables && !tables_.contains(words)) {
    stream.synchronize();
    tables_.clear();
  }
  device::Array<std::int64_t>& table = tables_[words];
  if (table.empty()) table = device::Array<std::int64_t>(device_, std::span<const std::int64_t>(words));
  kernel(stream, blocks, copy_shape, pieces, table.data(), scale);
}

template <class T>
void GpuStages<T>::copy(const char* what, const Fields& from, const Fields& to, device::Stream& stream) {
  copy(what == std::string_view("pack") ? pack_ : unpack_, from, to, T(1), stream);
}

template <class T>
void GpuStages<T>::transform(const char* name, const LinesShape& shape, const void* in, void* out,
                             device::Stream& stream) {
  auto found = plans_.find(shape);
  if (found == plans_.end()) {
    found = plans_.emplace(shape, GpuLines<T>(device_, shape)).first;
    const auto bytes = static_cast<std::int64_t>(found->second.work_bytes());
    const bool larger = bytes > static_cast<std::int64_t>(library_area_.size());
    at_least(library_area_, bytes, stream);
    for (auto& [known, plan] : plans_) {
      if ((larger || &plan == &found->second) && plan.work_bytes() > 0) plan.set_work_area(library_area_.data());
    }
  }
  found->second(name, stream, in, out);
}

template <class T>
void GpuStages<T>::lines(const LinesPass<T>& pass, device::Stream& stream) {
  if (pass.box.empty()) return;
  const auto variables =
      std::max({static_cast<int>(pass.from.size()), pass.transforms, static_cast<int>(pass.to.size())});
  // The direction of the lines is the slowest, so that one call transforms all lines of a variable.
  Block<Complex> block;
  block.variables = variables;
  block.first_variable = pass.first_variable;
  block.box = pass.box;
  const std::int64_t plane = pass.box.size() / pass.box.count[pass.direction];
  (pass.direction == 1 ? block.y_stride : block.z_stride) = plane;
  (pass.direction == 1 ? block.z_stride : block.y_stride) = pass.box.count[0];
  block.variable_stride = pass.box.size();
  block.data = at_least(modes_, variables * block.variable_stride, stream);
  copy(unpack_, pass.from, fields_of(block, pass.from.size()), pass.scale_from, stream);
  call(pass.before, block, stream);
  const LinesShape shape =
      LinesShape::columns(pass.kind, static_cast<int>(pass.box.count[pass.direction]), plane, plane, plane, true);
  for (int v = 0; v < pass.transforms; ++v) {
    Complex* const data = block.row(v, 0, 0);
    transform(pass.direction == 1 ? "fft y" : "fft z", shape, data, data, stream);
  }
  call(pass.after, block, stream);
  copy(pack_, fields_of(block, pass.to.size()), pass.to, pass.scale_to, stream);
}

template <class T>
void GpuStages<T>::physical(const PhysicalPass<T>& pass, device::Stream& stream) {
  if (pass.box.empty()) return;
  const auto nx = static_cast<int>(decomposition_.sizes().x);
  const std::int64_t modes_x = nx / 2 + 1, rows = pass.box.count[1] * pass.box.count[2];
  const auto from = static_cast<int>(pass.from.size()), to = static_cast<int>(pass.to.size());
  Block<Complex> modes;
  modes.variables = std::max({from, pass.forward, to});
  modes.box = decomposition_.x_pencil();
  modes.y_stride = modes_x;
  modes.z_stride = modes_x * pass.box.count[1];
  modes.variable_stride = modes_x * rows;
  modes.data = at_least(modes_, modes.variables * modes.variable_stride, stream);

  Block<T> points;
  points.variables = std::max(
      {from + static_cast<int>(pass.physical_from.size()), pass.forward, static_cast<int>(pass.physical_to.size())});
  points.box = pass.box;
  points.y_stride = nx;
  points.z_stride = nx * pass.box.count[1];
  points.variable_stride = nx * rows;
  points.data = at_least(points_, points.variables * points.variable_stride, stream);

  // All columns of z at once; those of modes that are not kept are zeros, and dropped.
  const auto transform_z = [&](Kind kind, int v) {
    const LinesShape shape = LinesShape::columns(kind, static_cast<int>(pass.box.count[2]), modes.z_stride,
                                                 modes.z_stride, modes.z_stride, true);
    transform("fft z", shape, modes.row(v, 0, 0), modes.row(v, 0, 0), stream);
  };
  const auto bytes = static_cast<std::size_t>(points.variable_stride) * sizeof(T);
  const auto device_copy = [&](void* target, const void* source) {
    device_->copy(target, source, bytes, device::CopyKind::device_to_device, stream);
  };

  if (from > 0 && decomposition_.modes_x() < modes_x)
    device_->fill_zero(modes.data, static_cast<std::size_t>(from * modes.variable_stride) * sizeof(Complex), stream);
  copy(unpack_, pass.from, fields_of(modes, pass.from.size()), pass.scale_from, stream);
  for (int v = 0; v < from; ++v) {
    if (pass.with_z) transform_z(Kind::backward, v);
    transform("fft x", {Kind::c2r, nx, rows, 1, modes_x, 1, nx}, modes.row(v, 0, 0), points.row(v, 0, 0), stream);
  }
  int v = from;
  for (const T* field : pass.physical_from) device_copy(points.row(v++, 0, 0), field);
  call(pass.physical, points, stream);
  v = 0;
  for (T* field : pass.physical_to) device_copy(field, points.row(v++, 0, 0));
  for (v = 0; v < pass.forward; ++v) {
    transform("fft x", {Kind::r2c, nx, rows, 1, nx, 1, modes_x}, points.row(v, 0, 0), modes.row(v, 0, 0), stream);
    if (pass.with_z) transform_z(Kind::forward, v);
  }
  if (pass.with_z) call(pass.after_z, modes, stream);
  copy(pack_, fields_of(modes, pass.to.size()), pass.to, pass.scale_to, stream);
}

template class GpuStages<float>;
template class GpuStages<double>;

}  // namespace weft::fft
