#include "weft/fft/gpu_stages.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weft::fft {
namespace {

// Must match kernels/fft.hpp.
constexpr std::int64_t copy_chunk = 2048;
constexpr device::Shape copy_shape{256};
constexpr std::int64_t words_per_piece = 10;
constexpr std::int64_t copies_remembered = 64;

// The transforms of the passes: along y or z in a pencil, with that direction slowest; along z for all columns of the
// pass in physical space; and along x.
LinesShape lines_shape(Kind kind, std::size_t direction, const Box& box) {
  const std::int64_t plane = box.size() / box.count[direction];
  return LinesShape::columns(kind, static_cast<int>(box.count[direction]), plane, plane, plane, true);
}
LinesShape z_shape(Kind kind, const Box& points, std::int64_t modes_x) {
  const std::int64_t plane = modes_x * points.count[1];
  return LinesShape::columns(kind, static_cast<int>(points.count[2]), plane, plane, plane, true);
}
LinesShape x_shape(Kind kind, int nx, std::int64_t rows) {
  const std::int64_t modes_x = nx / 2 + 1;
  return kind == Kind::c2r ? LinesShape{kind, nx, rows, 1, modes_x, 1, nx}
                           : LinesShape{kind, nx, rows, 1, nx, 1, modes_x};
}
std::vector<LinesShape> shapes(const Decomposition& decomposition) {
  const Box points = decomposition.physical(), middle = decomposition.middle(), spectral = decomposition.spectral();
  const auto nx = static_cast<int>(decomposition.sizes().x);
  std::vector<LinesShape> all;
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    if (!spectral.empty()) all.push_back(lines_shape(kind, 1, spectral));
    if (decomposition.grid().rows > 1) {
      if (!middle.empty()) all.push_back(lines_shape(kind, 2, middle));
    } else if (!points.empty()) {
      all.push_back(z_shape(kind, points, nx / 2 + 1));
    }
  }
  if (points.empty()) return all;
  for (const Kind kind : {Kind::r2c, Kind::c2r}) all.push_back(x_shape(kind, nx, points.count[1] * points.count[2]));
  return all;
}

// The number of modes of a variable in the pass that holds most. The pass in physical space holds all, kept or not.
std::int64_t modes_of_a_variable(const Decomposition& decomposition) {
  const Box points = decomposition.physical();
  return std::max({decomposition.spectral().size(), decomposition.middle().size(),
                   (decomposition.sizes().x / 2 + 1) * points.count[1] * points.count[2]});
}
// The distance between variables in physical space: even, because the library takes only data that are aligned for a
// complex number.
std::int64_t points_of_a_variable(const Decomposition& decomposition) {
  return (decomposition.physical().size() + 1) / 2 * 2;
}
// On one side of a copy a variable is one piece; on the other it has one piece per rank of a row or a column.
std::int64_t words_of_tables(const Decomposition& decomposition, const Held& held) {
  const Grid& grid = decomposition.grid();
  return copies_remembered * words_per_piece * std::max(held.modes, 1) * std::max(grid.rows, grid.columns);
}

template <class V>
V* enough(device::Array<V>& memory, std::int64_t values) {
  if (static_cast<std::int64_t>(memory.size()) < values)
    throw std::logic_error("a pass with more variables than were prepared for");
  return memory.data();
}

template <class V>
void call(const Pointwise<V>* function, const Block<V>& block, device::Stream& stream) {
  if (function != nullptr && *function) (*function)(block, stream);
}

// Each variable of a block as a single piece.
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
      pack_(device_->kernel<T>("fft", "pack")),
      symmetrize_(device_->kernel<T>("fft", "symmetrize")) {}

template <class T>
template <class V>
void GpuStages<T>::enlarge(device::Array<V>& memory, std::int64_t values) {
  if (static_cast<std::int64_t>(memory.size()) >= values) return;
  ++generation_;
  memory = {};  // waits until the old memory is no longer used, and frees it
  memory = device::Array<V>(device_, static_cast<std::size_t>(values));
}

template <class T>
void GpuStages<T>::enlarge_tables(const Held& held) {
  const std::int64_t words = words_of_tables(decomposition_, held);
  if (words <= static_cast<std::int64_t>(table_memory_.size())) return;
  tables_.clear();
  table_words_ = 0;
  enlarge(table_memory_, words);
}

template <class T>
void GpuStages<T>::enlarge_area(std::size_t bytes) {
  enlarge(library_area_, static_cast<std::int64_t>(bytes));
  const auto share_with = [&](auto& plan) {
    if (plan.work_bytes() > 0 && plan.work_bytes() <= library_area_.size()) plan.set_work_area(library_area_.data());
  };
  for (auto& [shape, plan] : plans_) share_with(plan);
  for (auto& [kind, plan] : fields_) share_with(plan);
}

template <class T>
void GpuStages<T>::prepare(const Held& held) {
  if (plans_.empty()) {
    std::size_t area = 0;
    for (const LinesShape& shape : shapes(decomposition_)) {
      const auto made = plans_.try_emplace(shape, device_, shape).first;
      area = std::max(area, made->second.work_bytes());
    }
    enlarge_area(area);
  }
  enlarge(modes_, held.modes * modes_of_a_variable(decomposition_));
  enlarge(points_, held.points * points_of_a_variable(decomposition_));
  enlarge_tables(held);
}

// A 3-D plan makes the same transforms as the passes, without their packing, so that it is always preferred. Without a
// race, every run also makes the same choice and rounds in the same way.
template <class T>
Ways GpuStages<T>::ways_by_size() const {
  constexpr Way way{Method::plan_3d};
  return {way, way, way};
}

template <class T>
void GpuStages<T>::prepare_whole(const Ways& ways) {
  const Sizes& n = decomposition_.sizes();
  const auto add = [&](const Way& way, Kind kind) {
    if (way.method == Method::planes)
      throw std::invalid_argument("fields are transformed by planes only on the host: take 3-D plans or panels");
    if (way.method == Method::plan_3d) fields_.try_emplace(kind, device_, FieldShape{n.x, n.y, n.z, kind});
  };
  add(ways.forward, Kind::r2c);
  add(ways.backward, Kind::c2r);
  add(ways.overwriting, Kind::c2r);
}

template <class T>
T* GpuStages<T>::prepare_field(const GpuField<T>& plan, T* points, device::Stream& stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(points) % sizeof(Complex) == 0;
  const Held held{.modes = 1};
  const std::int64_t copied = aligned ? 0 : points_of_a_variable(decomposition_);
  if (plan.work_bytes() > library_area_.size() || copied > static_cast<std::int64_t>(points_.size()) ||
      words_of_tables(decomposition_, held) > static_cast<std::int64_t>(table_memory_.size())) {
    stream.synchronize();  // memory may be replaced by a larger one: wait for its users
    enlarge_area(plan.work_bytes());
    enlarge_tables(held);
    enlarge(points_, copied);
  }
  return aligned ? points : points_.data();
}

template <class T>
void GpuStages<T>::whole_forward(const Way&, const T* points, Complex* modes, T scale, device::Stream& stream) {
  GpuField<T>& plan = fields_.at(Kind::r2c);
  T* const from = prepare_field(plan, const_cast<T*>(points), stream);
  const auto bytes = static_cast<std::size_t>(decomposition_.physical().size()) * sizeof(T);
  if (from != points) device_->copy(from, points, bytes, device::CopyKind::device_to_device, stream);
  plan("fft x y z", stream, from, modes);
  const Fields field(1, {whole(modes, decomposition_.spectral())});
  if (scale != T(1)) copy(pack_, field, field, scale, stream);
}

template <class T>
void GpuStages<T>::whole_backward(const Way&, const Complex* modes, Complex* work, T* points, T scale,
                                  device::Stream& stream) {
  GpuField<T>& plan = fields_.at(Kind::c2r);
  T* const to = prepare_field(plan, points, stream);
  const Sizes& n = decomposition_.sizes();
  const Fields from(1, {whole(const_cast<Complex*>(modes), decomposition_.spectral())}),
      into(1, {whole(work, decomposition_.spectral())});
  if (work != modes || scale != T(1)) copy(unpack_, from, into, scale, stream);
  const std::int64_t half = n.z / 2 + 1;
  symmetrize_(stream, n.x % 2 == 0 ? 2 * half : half, copy_shape, work, n.x / 2 + 1, n.y, n.z);
  plan("fft x y z", stream, work, to);
  const auto bytes = static_cast<std::size_t>(decomposition_.physical().size()) * sizeof(T);
  if (to != points) device_->copy(points, to, bytes, device::CopyKind::device_to_device, stream);
}

template <class T>
std::int64_t GpuStages<T>::predicted_bytes(const Decomposition& decomposition, const Held& held,
                                           const std::shared_ptr<device::Device>& device) {
  std::size_t area = 0;
  for (const LinesShape& shape : shapes(decomposition)) area = std::max(area, GpuLines<T>(device, shape).work_bytes());
  return static_cast<std::int64_t>(area) +
         held.modes * modes_of_a_variable(decomposition) * static_cast<std::int64_t>(sizeof(Complex)) +
         held.points * points_of_a_variable(decomposition) * static_cast<std::int64_t>(sizeof(T)) +
         words_of_tables(decomposition, held) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

template <class T>
std::int64_t GpuStages<T>::memory_bytes() const {
  return static_cast<std::int64_t>(table_memory_.bytes() + modes_.bytes() + points_.bytes() + library_area_.bytes());
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
  kernel(stream, blocks, copy_shape, pieces, table(words, stream), scale);
}

// Tables are cached, because callers mostly pass the same fields again.
template <class T>
const std::int64_t* GpuStages<T>::table(const std::vector<std::int64_t>& words, device::Stream& stream) {
  const auto known = tables_.find(words);
  if (known != tables_.end()) return table_memory_.data() + known->second;
  if (table_words_ + words.size() > table_memory_.size()) {
    if (words.size() > table_memory_.size()) throw std::logic_error("a copy of more pieces than were prepared for");
    stream.synchronize();  // running kernels read the old tables
    ++generation_;
    tables_.clear();
    table_words_ = 0;
  }
  std::int64_t* const place = table_memory_.data() + table_words_;
  device_->copy_now(place, words.data(), words.size() * sizeof(std::int64_t), device::CopyKind::host_to_device);
  tables_.emplace(words, table_words_);
  table_words_ += words.size();
  return place;
}

template <class T>
void GpuStages<T>::copy(const char* what, const Fields& from, const Fields& to, device::Stream& stream) {
  copy(what == std::string_view("pack") ? pack_ : unpack_, from, to, T(1), stream);
}

template <class T>
void GpuStages<T>::transform(const char* name, const LinesShape& shape, const void* in, void* out,
                             device::Stream& stream) {
  const auto found = plans_.find(shape);
  if (found == plans_.end()) throw std::logic_error("a transform that was not prepared for");
  found->second(name, stream, in, out);
}

template <class T>
void GpuStages<T>::lines(const LinesPass<T>& pass, device::Stream& stream) {
  if (pass.box.empty()) return;
  const auto variables =
      std::max({static_cast<int>(pass.from.size()), pass.transforms, static_cast<int>(pass.to.size())});
  // The direction of the transform is the slowest, so that one call transforms all lines of a variable.
  Block<Complex> block;
  block.variables = variables;
  block.first_variable = pass.first_variable;
  block.box = pass.box;
  const std::int64_t plane = pass.box.size() / pass.box.count[pass.direction];
  (pass.direction == 1 ? block.y_stride : block.z_stride) = plane;
  (pass.direction == 1 ? block.z_stride : block.y_stride) = pass.box.count[0];
  block.variable_stride = pass.box.size();
  block.data = enough(modes_, variables * block.variable_stride);
  copy(unpack_, pass.from, fields_of(block, pass.from.size()), pass.scale_from, stream);
  call(pass.before, block, stream);
  const LinesShape shape = lines_shape(pass.kind, pass.direction, pass.box);
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
  modes.data = enough(modes_, modes.variables * modes.variable_stride);

  Block<T> points;
  points.variables = std::max(
      {from + static_cast<int>(pass.physical_from.size()), pass.forward, static_cast<int>(pass.physical_to.size())});
  points.box = pass.box;
  points.y_stride = nx;
  points.z_stride = nx * pass.box.count[1];
  points.variable_stride = points_of_a_variable(decomposition_);
  points.data = enough(points_, points.variables * points.variable_stride);

  // Transforms all columns along z at once; modes that are not kept are zero on input, and are dropped on output.
  const auto transform_z = [&](Kind kind, int v) {
    transform("fft z", z_shape(kind, pass.box, modes_x), modes.row(v, 0, 0), modes.row(v, 0, 0), stream);
  };
  const auto bytes = static_cast<std::size_t>(nx * rows) * sizeof(T);
  const auto device_copy = [&](void* target, const void* source) {
    device_->copy(target, source, bytes, device::CopyKind::device_to_device, stream);
  };

  if (from > 0 && decomposition_.modes_x() < modes_x)
    device_->fill_zero(modes.data, static_cast<std::size_t>(from * modes.variable_stride) * sizeof(Complex), stream);
  copy(unpack_, pass.from, fields_of(modes, pass.from.size()), pass.scale_from, stream);
  for (int v = 0; v < from; ++v) {
    if (pass.with_z) transform_z(Kind::backward, v);
    transform("fft x", x_shape(Kind::c2r, nx, rows), modes.row(v, 0, 0), points.row(v, 0, 0), stream);
  }
  int v = from;
  for (const T* field : pass.physical_from) device_copy(points.row(v++, 0, 0), field);
  call(pass.physical, points, stream);
  v = 0;
  for (T* field : pass.physical_to) device_copy(field, points.row(v++, 0, 0));
  for (v = 0; v < pass.forward; ++v) {
    transform("fft x", x_shape(Kind::r2c, nx, rows), points.row(v, 0, 0), modes.row(v, 0, 0), stream);
    if (pass.with_z) transform_z(Kind::forward, v);
  }
  if (pass.with_z) call(pass.after_z, modes, stream);
  copy(pack_, fields_of(modes, pass.to.size()), pass.to, pass.scale_to, stream);
}

template class GpuStages<float>;
template class GpuStages<double>;

}  // namespace weft::fft
