#include "weft/fft/host_stages.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "weft/fft/rows.hpp"
#include "weft/fft/shares.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {
namespace {

constexpr std::int64_t line_bytes = 64;
// Maximum size of a panel of all variables, so that it stays in a core's second-level cache together with the data
// copied.
constexpr std::int64_t panel_bytes = 512 << 10;
// Maximum size of rows of points of all variables, so that they stay in the first-level cache.
constexpr std::int64_t rows_bytes = 32 << 10;

// What a pass writes is read again only when the next pass reaches it. If a pass writes more than a second-level cache
// holds, it uses non-temporal stores.
constexpr std::int64_t streamed_bytes = 2 << 20;
// A field that stays in cache from one pass to the next is transformed in place: copies into panels would cost more
// than they save (measured: panels take 1.2 to 2 times as long below this size, and 0.9 times as long above it in
// double precision). If the input must be preserved, it has to be copied first, which pays off only up to a smaller
// size.
constexpr std::int64_t whole_bytes = 24 << 20, copied_bytes = 10 << 20;
// In such transforms, points that take more than ahead_from_bytes do not come from the second-level cache. Their rows
// are transformed in small groups of ahead_bytes, while the cache lines for the group after the next are prefetched. A
// core can have about that many prefetches in flight. Compared with whole planes, this takes 0.8 times as long at 128^3
// in double precision, and 1.2 times as long at 64^3 (measured).
constexpr std::int64_t ahead_from_bytes = 8 << 20, ahead_bytes = 1 << 10, ahead_steps = 2;
// One call transforms as many neighbouring columns along z as take this many bytes in each plane. It then works in
// cache, and is small enough for a library to plan by measurement.
constexpr std::int64_t columns_bytes = 32 << 10;
// If there are several ranks, a rank's part is transformed in place only up to this size, because the exchange copies
// it once more.
constexpr std::int64_t slab_bytes = 4 << 20;
// The number of rows that a library takes at a time.
template <class T>
std::int64_t row_group(int library) {
  return host_library(library).own ? HostLibrary::group_bytes / static_cast<std::int64_t>(sizeof(T)) : 1;
}
// As many rows as `most` in whole groups, at least one group and at most `count` rows.
template <class T>
std::int64_t in_groups(std::int64_t most, std::int64_t count, int library) {
  const std::int64_t group = row_group<T>(library);
  return std::min(std::max(most / group * group, group), count);
}
// One thread per this many values: with fewer, starting the thread would take longer than its work.
constexpr std::int64_t values_per_thread = 4096;

template <class V>
Stores stores_of(const Box& box, std::size_t variables) {
  const auto bytes = static_cast<std::int64_t>(variables * sizeof(V)) * box.size();
  return bytes > streamed_bytes ? Stores::streaming : Stores::cached;
}

// The padded length of a row of n values in a panel: an odd number of whole cache lines, so that the values of a column
// do not compete for a few of the cache's sets.
template <class V>
std::int64_t padded(std::int64_t n) {
  const auto bytes = n * static_cast<std::int64_t>(sizeof(V));
  return ((bytes + line_bytes - 1) / line_bytes | 1) * line_bytes / static_cast<std::int64_t>(sizeof(V));
}

// Prefetches cache lines: for reading or writing, into the first-level cache (read, write) or the second (later).
enum class Fetch { read, write, later };
template <Fetch fetch, class V>
void fetch_lines(const V* from, std::int64_t count) {
  const auto* const bytes = reinterpret_cast<const char*>(from);
  const std::int64_t size = count * static_cast<std::int64_t>(sizeof(V));
  for (std::int64_t at = 0; at < size; at += line_bytes)
    __builtin_prefetch(bytes + at, fetch == Fetch::write ? 1 : 0, fetch == Fetch::later ? 2 : 3);
}

template <class T>
void scale_in_place(T* values, std::int64_t count, T scale) {
  if (scale == T(1)) return;
  for (std::int64_t i = 0; i < count; ++i) values[i] *= scale;
}
template <class T>
void scale_in_place(std::complex<T>* values, std::int64_t count, T scale) {
  scale_in_place(reinterpret_cast<T*>(values), 2 * count, scale);
}

template <class V>
bool missing(const Pointwise<V>* function) {
  return function == nullptr || !*function;
}
template <class V>
void call(const Pointwise<V>* function, const Block<V>& block, device::Stream& stream) {
  if (!missing(function)) (*function)(block, stream);
}

// If the pieces lie in memory like whole(data, box), returns data, else null.
template <class V>
V* one_piece(const Pieces<V>& pieces, const Box& box) {
  if (pieces.empty()) return nullptr;
  const Piece<V>& first = *std::ranges::min_element(pieces, {}, [](const Piece<V>& p) { return p.box.first[2]; });
  const Piece<V> all = whole(first.data, box);
  std::int64_t found = 0;
  for (const Piece<V>& p : pieces) {
    const auto [x, y, z] = p.box.first;
    if (p.data != all.at(x, y, z) || p.y_stride != all.y_stride || p.z_stride != all.z_stride) return nullptr;
    found += p.box.size();
  }
  return found == box.size() ? first.data : nullptr;
}

}  // namespace

template <class T>
HostStages<T>::HostStages(const Decomposition& decomposition, int library)
    : decomposition_(decomposition),
      host_(device::open("host")),
      library_(library),
      workers_(static_cast<std::size_t>(omp_get_max_threads())) {}

template <class T>
const HostLines<T>& HostStages<T>::plan(Worker& worker, const LinesShape& shape, int library) {
  HostLines<T>& lines = worker.plans[{shape, library}];
  if (!lines) lines = HostLines<T>(shape, library);
  return lines;
}

template <class T>
template <class V>
V* HostStages<T>::at_least(device::Array<V>& memory, std::int64_t values) const {
  if (static_cast<std::int64_t>(memory.size()) < values)
    memory = device::Array<V>(host_, static_cast<std::size_t>(values));
  return memory.data();
}

template <class T>
int HostStages<T>::threads(std::int64_t values) const {
  return static_cast<int>(
      std::clamp<std::int64_t>(values / values_per_thread, 1, static_cast<std::int64_t>(workers_.size())));
}

template <class T>
std::int64_t HostStages<T>::memory_bytes() const {
  std::int64_t bytes = 0;
  for (const Worker& worker : workers_)
    bytes += static_cast<std::int64_t>(worker.modes.bytes() + worker.points.bytes());
  return bytes;
}

template <class T>
void HostStages<T>::lines(const LinesPass<T>& pass, device::Stream& stream) {
  if (pass.box.empty()) return;
  const trace::Span span(pass.direction == 1 ? "fft y" : "fft z", trace::Category::cpu);
  if (pass.plain && pass.direction == 1 && pass.kind == Kind::forward && by_planes(pass.box, whole_bytes)) {
    planes_forward(pass);
    return;
  }
  const bool concurrent = pass.concurrent || (missing(pass.before) && missing(pass.after));
  const std::size_t across = 3 - pass.direction;
  const auto cost = [&](std::int64_t a) {
    return across == 1 ? 1 : kept_of(pass.kept, pass.box.first[2] + a, pass.box.first[0], pass.box.count[0]);
  };
  in_shares(
      shares(pass.box.count[across], concurrent ? threads(pass.box.size()) : 1, 1, cost),
      [&](int thread, std::int64_t begin, std::int64_t end) { panels(pass, workers_[thread], begin, end, stream); });
}

template <class T>
void HostStages<T>::panels(const LinesPass<T>& pass, Worker& worker, std::int64_t begin, std::int64_t end,
                           device::Stream& stream) {
  const std::size_t along = pass.direction, across = 3 - along;
  const std::int64_t n = pass.box.count[along], width = pass.box.count[0];
  const int variables =
      std::max({static_cast<int>(pass.from.size()), pass.transforms, static_cast<int>(pass.to.size())});
  // As many neighbouring lines as fit into cache, in whole cache lines, with panels of nearly equal width.
  const auto unit = line_bytes / static_cast<std::int64_t>(sizeof(Complex));
  const std::int64_t most = std::max<std::int64_t>(1, panel_bytes / (variables * n * line_bytes)) * unit;
  const std::int64_t panels = (width + most - 1) / most;
  const std::int64_t widest = std::min(width, ((width + panels - 1) / panels + unit - 1) / unit * unit);

  const Stores stores = stores_of<Complex>(pass.box, pass.to.size());
  Block<Complex> block;
  block.variables = variables;
  block.first_variable = pass.first_variable;
  const std::int64_t pitch = padded<Complex>(widest);
  block.variable_stride = n * pitch;
  block.data = at_least(worker.modes, variables * block.variable_stride);
  (along == 1 ? block.y_stride : block.z_stride) = pitch;
  const Kept kept_from = along == 2 && pass.kind == Kind::backward ? pass.kept : Kept{};
  const Kept kept_to = along == 2 && pass.kind == Kind::forward ? pass.kept : Kept{};
  for (std::int64_t a = begin; a < end; ++a) {
    // Of a plane with one kz, only the kept modes are transformed, rounded up to whole cache lines, so that few shapes
    // have to be planned.
    const std::int64_t last =
        along == 2 ? width
                   : std::min(width, (kept_of(pass.kept, pass.box.first[2] + a, pass.box.first[0], width) + unit - 1) /
                                         unit * unit);
    for (std::int64_t x = 0; x < last; x += widest) {
      block.box = pass.box;
      block.box.first[across] += a;
      block.box.count[across] = 1;
      block.box.first[0] += x;
      block.box.count[0] = std::min(widest, last - x);
      for (std::size_t v = 0; v < pass.from.size(); ++v)
        load(block, static_cast<int>(v), pass.from[v], pass.scale_from, kept_from);
      call(pass.before, block, stream);
      const HostLines<T>& transform =
          plan(worker, LinesShape::columns(pass.kind, static_cast<int>(n), block.box.count[0], pitch, pitch, true));
      for (int v = 0; v < pass.transforms; ++v) transform(block.row(v, 0, 0), block.row(v, 0, 0));
      call(pass.after, block, stream);
      for (std::size_t v = 0; v < pass.to.size(); ++v)
        store(block, static_cast<int>(v), pass.to[v], pass.scale_to, stores, kept_to);
    }
  }
  stores_done(stores);
}

template <class T>
void HostStages<T>::planes_forward(const LinesPass<T>& pass) {
  const Box& box = pass.box;
  const std::int64_t width = box.count[0], plane = width * box.count[1];
  const LinesShape columns =
      LinesShape::columns(Kind::forward, static_cast<int>(box.count[1]), width, width, width, true);
  in_shares(shares(box.count[2], threads(box.size())), [&](int thread, std::int64_t begin, std::int64_t end) {
    const HostLines<T>& transform = plan(workers_[thread], columns);
    for (std::size_t v = 0; v < pass.to.size(); ++v) {
      const Piece<Complex> to = pass.to[v].front();  // a whole field
      for (std::int64_t z = begin; z < end; ++z) {
        Box here = box;
        here.first[2] += z;
        here.count[2] = 1;
        Complex* const at = to.data + z * plane;
        for (const Piece<Complex>& piece : pass.from[v])
          copy_common<Stores::cached>(whole(at, here), piece, pass.scale_from * pass.scale_to);
        transform(at, at);
      }
    }
  });
}

template <class T>
Ways HostStages<T>::ways_by_size() const {
  const Sizes& n = decomposition_.sizes();
  const std::int64_t plane = n.y * (n.x / 2 + 1) * static_cast<std::int64_t>(sizeof(Complex));
  const auto up_to = [&](std::int64_t most) {
    return Way{plane <= panel_bytes && n.z * plane <= most ? Method::planes : Method::panels, library_};
  };
  return {up_to(whole_bytes), up_to(copied_bytes), up_to(whole_bytes)};
}

template <class T>
void HostStages<T>::prepare_whole(const Ways& ways) {
  for (const Way& way : {ways.backward, ways.overwriting}) {
    if (way.method != Method::plan_3d) continue;
    if (!host_library(way.library).backward_3d)
      throw std::invalid_argument("the backward 3-D plan of " + host_library(way.library).name +
                                  " gives another result for coefficients that do not belong to a real field");
    plan_3d(Kind::c2r, way.library);
  }
  if (ways.forward.method == Method::plan_3d) plan_3d(Kind::r2c, ways.forward.library);
}

template <class T>
HostField<T> HostStages<T>::plan_3d(Kind kind, int library) const {
  const Sizes& n = decomposition_.sizes();
  return HostField<T>({n.x, n.y, n.z, kind}, library);
}

template <class T>
const HostLines<T>& HostStages<T>::plane_columns(Worker& worker, Kind kind, int library) {
  const Sizes& n = decomposition_.sizes();
  const std::int64_t row = n.x / 2 + 1;
  return plan(worker, LinesShape::columns(kind, static_cast<int>(n.y), row, row, row, true), library);
}

template <class T>
void HostStages<T>::field_columns(Kind kind, Complex* modes, std::int64_t width, std::int64_t plane, int library) {
  const trace::Span span("fft z", trace::Category::cpu);
  constexpr auto unit = line_bytes / static_cast<std::int64_t>(sizeof(Complex)),
                 most = columns_bytes / static_cast<std::int64_t>(sizeof(Complex));
  const std::int64_t nz = decomposition_.sizes().z;
  const int count = threads(width * nz);
  const std::int64_t calls = std::max<std::int64_t>(count, (width + most - 1) / most);
  const std::int64_t widest = ((width + calls - 1) / calls + unit - 1) / unit * unit;
  in_shares(shares(width, count, widest), [&](int thread, std::int64_t begin, std::int64_t end) {
    for (std::int64_t x = begin; x < end; x += widest) {
      const std::int64_t some = std::min(widest, end - x);
      plan(workers_[thread], LinesShape::columns(kind, static_cast<int>(nz), some, plane, plane, true), library)(
          modes + x, modes + x);
    }
  });
}

template <class T>
std::int64_t HostStages<T>::rows_at_once(std::int64_t ny, std::int64_t nz, int library) const {
  const std::int64_t row = decomposition_.sizes().x * static_cast<std::int64_t>(sizeof(T));
  if (row * ny * nz <= ahead_from_bytes) return ny;
  // The number of rows is such that every group starts at an address where SIMD instructions can be used.
  const auto misaligned = [&](std::int64_t rows) {
    return rows * row % simd_alignment != 0 ||
           rows * decomposition_.modes_x() * static_cast<std::int64_t>(sizeof(Complex)) % simd_alignment != 0;
  };
  std::int64_t least = row_group<T>(library);
  if (least == 1 && misaligned(1) && !misaligned(2) && ny % 2 == 0) least = 2;
  if (ny % least != 0) return ny;
  std::int64_t rows = std::max(ahead_bytes / row / least * least, least);
  while (ny % rows != 0) rows -= least;
  return rows;
}

template <class T>
void HostStages<T>::whole_forward(const Way& way, const T* points, Complex* modes, T scale, device::Stream&) {
  const Sizes& n = decomposition_.sizes();
  const std::int64_t plane = n.y * (n.x / 2 + 1);
  if (way.method == Method::plan_3d) {
    const trace::Span span("fft x y z", trace::Category::cpu);
    plan_3d(Kind::r2c, way.library)(points, modes);
    scale_in_place(modes, n.z * plane, scale);
    return;
  }
  {
    const trace::Span span("fft x y", trace::Category::cpu);
    rows_forward(points, modes, plane, n.y, n.z, scale, way.along_x, [&](Worker& worker, Complex* columns) {
      plane_columns(worker, Kind::forward, way.library)(columns, columns);
    });
  }
  field_columns(Kind::forward, modes, plane, plane, way.library);
}

template <class T>
void HostStages<T>::whole_backward(const Way& way, const Complex* modes, Complex* work, T* points, T scale,
                                   device::Stream&) {
  const Sizes& n = decomposition_.sizes();
  const std::int64_t plane = n.y * (n.x / 2 + 1);
  if (work != modes) std::copy_n(modes, n.z * plane, work);
  if (way.method == Method::plan_3d) {
    const trace::Span span("fft x y z", trace::Category::cpu);
    scale_in_place(work, n.z * plane, scale);
    plan_3d(Kind::c2r, way.library)(work, points);
    return;
  }
  field_columns(Kind::backward, work, plane, plane, way.library);
  const trace::Span span("fft x y", trace::Category::cpu);
  rows_backward(work, points, plane, n.y, n.z, scale, way.along_x, [&](Worker& worker, Complex* columns) {
    plane_columns(worker, Kind::backward, way.library)(columns, columns);
  });
}

template <class T>
template <class Then>
void HostStages<T>::rows_forward(const T* points, Complex* modes, std::int64_t plane, std::int64_t ny, std::int64_t nz,
                                 T scale, int library, const Then& then) {
  const std::int64_t nx = decomposition_.sizes().x, half = nx / 2 + 1, some = rows_at_once(ny, nz, library);
  const auto row_at = [&](std::int64_t row) { return modes + row / ny * plane + row % ny * half; };
  const LinesShape lines = LinesShape::contiguous(Kind::r2c, static_cast<int>(nx), some);
  in_shares(shares(nz, threads(nx * ny * nz)), [&](int thread, std::int64_t begin, std::int64_t end) {
    const HostLines<T>& rows = plan(workers_[thread], lines, library);
    const std::int64_t all = ny * end;
    for (std::int64_t row = ny * begin; row < all; row += some) {
      if (const std::int64_t next = row + ahead_steps * some; some < ny && next < all) {
        fetch_lines<Fetch::read>(points + next * nx, some * nx);
        fetch_lines<Fetch::write>(row_at(next), some * half);
      }
      Complex* const at = row_at(row);
      rows(points + row * nx, at);
      scale_in_place(at, some * half, scale);
      if (const std::int64_t done = row + some; done % ny == 0) then(workers_[thread], row_at(done - ny));
    }
  });
}

template <class T>
template <class First>
void HostStages<T>::rows_backward(Complex* modes, T* points, std::int64_t plane, std::int64_t ny, std::int64_t nz,
                                  T scale, int library, const First& first) {
  const std::int64_t nx = decomposition_.sizes().x, half = nx / 2 + 1, some = rows_at_once(ny, nz, library);
  const auto row_at = [&](std::int64_t row) { return modes + row / ny * plane + row % ny * half; };
  LinesShape lines = LinesShape::contiguous(Kind::c2r, static_cast<int>(nx), some);
  lines.overwrites = true;
  in_shares(shares(nz, threads(nx * ny * nz)), [&](int thread, std::int64_t begin, std::int64_t end) {
    const HostLines<T>& rows = plan(workers_[thread], lines, library);
    const std::int64_t all = ny * end;
    for (std::int64_t row = ny * begin; row < all; row += some) {
      Complex* const at = row_at(row);
      if (row % ny == 0) first(workers_[thread], at);
      if (some < ny) {
        if (const std::int64_t next = row + ahead_steps * some; next < all)
          fetch_lines<Fetch::write>(points + next * nx, some * nx);
        if (row + ny < all) fetch_lines<Fetch::later>(at + plane, some * half);
      }
      scale_in_place(at, some * half, scale);
      rows(at, points + row * nx);
    }
  });
}

template <class T>
void HostStages<T>::node_forward(const Way& way, NodeField<T>& field, const T* points, Complex* modes, T scale,
                                 device::Stream& stream) {
  field.begin(NodeField<T>::Side::rows, stream);
  if (const Piece<Complex> rows = field.rows(); !rows.box.empty()) {
    {
      const trace::Span span("fft x", trace::Category::cpu);
      rows_forward(points, rows.data, rows.z_stride, rows.box.count[1], rows.box.count[2], T(1), way.along_x,
                   [](Worker&, Complex*) {});
    }
    field_columns(Kind::forward, rows.data, rows.box.count[0] * rows.box.count[1], rows.z_stride, way.library);
  }
  field.pass(stream);
  const Piece<Complex> planes = field.planes();
  // A copy brings the plane into this core's cache, because the processor prefetches it well; the transform works
  // there.
  const trace::Span span("fft y", trace::Category::cpu);
  const std::int64_t plane = planes.box.count[0] * planes.box.count[1];
  in_shares(shares(planes.box.count[2], threads(planes.box.size())),
            [&](int thread, std::int64_t begin, std::int64_t end) {
              for (std::int64_t z = begin; z < end; ++z) {
                Complex* const at = modes + z * plane;
                const Complex* const from = planes.data + z * planes.z_stride;
                copy_row<Stores::cached>(at, from, plane, scale, from + planes.z_stride);
                plane_columns(workers_[thread], Kind::forward, way.library)(at, at);
              }
            });
  field.end(stream);
}

template <class T>
void HostStages<T>::node_backward(const Way& way, NodeField<T>& field, const Complex* modes, T* points, T scale,
                                  device::Stream& stream) {
  field.begin(NodeField<T>::Side::planes, stream);
  {
    const trace::Span span("fft y", trace::Category::cpu);
    const Piece<Complex> planes = field.planes();
    const std::int64_t plane = planes.box.count[0] * planes.box.count[1];
    in_shares(shares(planes.box.count[2], threads(planes.box.size())),
              [&](int thread, std::int64_t begin, std::int64_t end) {
                for (std::int64_t z = begin; z < end; ++z) {
                  Complex* const at = planes.data + z * planes.z_stride;
                  const Complex* const from = modes + z * plane;
                  copy_row<Stores::cached>(at, from, plane, scale, from + plane);
                  plane_columns(workers_[thread], Kind::backward, way.library)(at, at);
                }
              });
  }
  field.pass(stream);
  if (const Piece<Complex> rows = field.rows(); !rows.box.empty()) {
    field_columns(Kind::backward, rows.data, rows.box.count[0] * rows.box.count[1], rows.z_stride, way.library);
    const trace::Span span("fft x", trace::Category::cpu);
    rows_backward(rows.data, points, rows.z_stride, rows.box.count[1], rows.box.count[2], T(1), way.along_x,
                  [](Worker&, Complex*) {});
  }
  field.end(stream);
}

template <class T>
bool HostStages<T>::by_planes(const Box& box, std::int64_t most) const {
  if (decomposition_.grid().size() == 1) return false;
  const std::int64_t plane = box.count[1] * decomposition_.modes_x() * static_cast<std::int64_t>(sizeof(Complex));
  return decomposition_.keeps_all_modes() && plane <= panel_bytes && box.count[2] * plane <= most;
}

template <class T>
void HostStages<T>::slabs(const PhysicalPass<T>& pass) {
  const std::int64_t ny = pass.box.count[1], nz = pass.box.count[2], plane = ny * decomposition_.modes_x();
  Box box = pass.box;
  box.count[0] = decomposition_.modes_x();
  for (std::size_t v = 0; v < pass.from.size(); ++v) {
    Complex* const modes = at_least(workers_[0].modes, plane * nz);
    {
      const trace::Span span("unpack", trace::Category::cpu);
      copy_in_shares<Stores::cached>({whole(modes, box)}, pass.from[v]);
    }
    field_columns(Kind::backward, modes, plane, plane, library_);
    const trace::Span span("fft x", trace::Category::cpu);
    rows_backward(modes, pass.physical_to[v], plane, ny, nz, pass.scale_from, library_, [](Worker&, Complex*) {});
  }
  for (std::size_t v = 0; v < pass.to.size(); ++v) {
    // The memory must be aligned like the rank's own, so that rounding does not depend on where an exchange has its
    // bricks.
    Complex* const lying = one_piece(pass.to[v], box);
    Complex* const there = simd_aligned(lying) ? lying : nullptr;
    Complex* const modes = there != nullptr ? there : at_least(workers_[0].modes, plane * nz);
    {
      const trace::Span span("fft x", trace::Category::cpu);
      rows_forward(pass.physical_from[v], modes, plane, ny, nz, pass.scale_to, library_, [](Worker&, Complex*) {});
    }
    field_columns(Kind::forward, modes, plane, plane, library_);
    if (there != nullptr) continue;
    const trace::Span span("pack", trace::Category::cpu);
    copy_in_shares<Stores::cached>(pass.to[v], {whole(modes, box)});
  }
}

template <class T>
void HostStages<T>::rows(const PhysicalPass<T>& pass, Worker& worker, const Block<Complex>& modes, const Box& points,
                         device::Stream& stream) {
  const auto nx = static_cast<int>(decomposition_.sizes().x);
  const std::size_t over = points.count[1] == 1 ? 2 : 1;  // the direction of the rows
  const std::int64_t count = points.count[over], pitch = over == 2 ? modes.z_stride : modes.y_stride;
  const auto backward = static_cast<int>(pass.from.size());
  Block<T> block;
  block.variables = std::max({backward + static_cast<int>(pass.physical_from.size()), pass.forward,
                              static_cast<int>(pass.physical_to.size())});
  const std::int64_t length = padded<T>(nx);
  const std::int64_t most = rows_bytes / (block.variables * length * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t together = in_groups<T>(most, count, library_);
  block.y_stride = block.z_stride = length;
  block.variable_stride = together * length;
  block.data = at_least(worker.points, block.variables * block.variable_stride);
  const Box all = decomposition_.physical();
  const Stores stores = stores_of<T>(all, pass.physical_to.size());
  for (std::int64_t first = 0; first < count; first += together) {
    const std::int64_t some = std::min(together, count - first);
    block.box = points;
    block.box.first[over] += first;
    block.box.count[over] = some;
    const auto modes_at = [&](int v) { return over == 2 ? modes.row(v, 0, first) : modes.row(v, first, 0); };
    for (int v = 0; v < backward; ++v) {
      for (std::int64_t r = 0; r < some; ++r) {
        Complex* const row = modes_at(v) + r * pitch;
        std::fill(row + decomposition_.modes_x(), row + nx / 2 + 1, Complex(0));
      }
      LinesShape lines{Kind::c2r, nx, some, 1, pitch, 1, length};
      lines.overwrites = true;
      plan(worker, lines)(modes_at(v), block.row(v, 0, 0));
    }
    int v = backward;
    for (const T* field : pass.physical_from) load(block, v++, {whole(const_cast<T*>(field), all)}, T(1));
    call(pass.physical, block, stream);
    v = 0;
    for (T* field : pass.physical_to) store(block, v++, {whole(field, all)}, T(1), stores);
    for (v = 0; v < pass.forward; ++v)
      plan(worker, {Kind::r2c, nx, some, 1, length, 1, pitch})(block.row(v, 0, 0), modes_at(v));
  }
}

template <class T>
void HostStages<T>::rows_of_fields(const PhysicalPass<T>& pass, Worker& worker, const Block<Complex>& modes,
                                   const Box& points) {
  const auto nx = static_cast<int>(decomposition_.sizes().x);
  const bool along_z = points.count[1] == 1;
  const std::int64_t count = points.count[along_z ? 2 : 1], pitch = along_z ? modes.z_stride : modes.y_stride;
  const std::int64_t most = in_groups<T>(ahead_bytes / (nx * static_cast<std::int64_t>(sizeof(T))), count, library_);
  for (int v = 0; v < pass.forward; ++v) {
    const Piece<T> field =
        whole(const_cast<T*>(pass.physical_from[static_cast<std::size_t>(v)]), decomposition_.physical());
    const std::int64_t step = along_z ? field.z_stride : field.y_stride;
    const T* const from = field.at(points.first[0], points.first[1], points.first[2]);
    Complex* const to = modes.row(v, 0, 0);
    for (std::int64_t row = 0, some = 0; row < count; row += some) {
      some = std::min(most, count - row);
      const std::int64_t next = row + ahead_steps * most;
      for (std::int64_t r = next; r < std::min(next + most, count); ++r) fetch_lines<Fetch::read>(from + r * step, nx);
      plan(worker, {Kind::r2c, nx, some, 1, step, 1, pitch})(from + row * step, to + row * pitch);
    }
  }
}

template <class T>
void HostStages<T>::physical(const PhysicalPass<T>& pass, device::Stream& stream) {
  if (pass.box.empty()) return;
  if (pass.plain && pass.with_z && by_planes(pass.box, slab_bytes)) {
    slabs(pass);
    return;
  }
  const trace::Span span(pass.with_z ? "fft z x z" : "fft x", trace::Category::cpu);
  const bool concurrent = pass.concurrent || (missing(pass.physical) && missing(pass.after_z));
  in_shares(
      shares(pass.box.count[pass.with_z ? 1 : 2], concurrent ? threads(pass.box.size()) : 1),
      [&](int thread, std::int64_t begin, std::int64_t end) { panels(pass, workers_[thread], begin, end, stream); });
}

template <class T>
void HostStages<T>::panels(const PhysicalPass<T>& pass, Worker& worker, std::int64_t begin, std::int64_t end,
                           device::Stream& stream) {
  const std::int64_t nx = decomposition_.sizes().x, nz = pass.box.count[2];
  const auto from = static_cast<int>(pass.from.size()), to = static_cast<int>(pass.to.size());
  const Stores stores = stores_of<Complex>(pass.box, pass.to.size());
  Block<Complex> modes;
  modes.variables = std::max({from, pass.forward, to});
  const std::int64_t pitch = padded<Complex>(nx / 2 + 1);
  // In planes of z, or in some rows along y.
  const std::size_t across = pass.with_z ? 1 : 2, along = 3 - across;
  const std::int64_t length = pass.box.count[along];
  const std::int64_t most = std::max<std::int64_t>(
      1, panel_bytes / (std::max(1, modes.variables) * pitch * static_cast<std::int64_t>(sizeof(Complex))));
  const std::int64_t together = pass.with_z ? nz : std::min(length, most);
  const Kept kept = pass.with_z ? pass.kept : Kept{};
  (along == 1 ? modes.y_stride : modes.z_stride) = pitch;
  modes.variable_stride = together * pitch;
  modes.data = at_least(worker.modes, modes.variables * modes.variable_stride);
  for (std::int64_t a = begin; a < end; ++a) {
    for (std::int64_t first = 0; first < length; first += together) {
      Box points = pass.box;
      points.first[across] += a;
      points.count[across] = 1;
      points.first[along] += first;
      points.count[along] = std::min(together, length - first);
      modes.box = points;
      modes.box.count[0] = decomposition_.modes_x();
      for (int v = 0; v < from; ++v) {
        load(modes, v, pass.from[static_cast<std::size_t>(v)], pass.scale_from, kept);
        if (pass.with_z) columns(worker, Kind::backward, modes, v);
      }
      if (pass.from.empty() && missing(pass.physical) && pass.physical_to.empty()) {
        rows_of_fields(pass, worker, modes, points);
      } else {
        rows(pass, worker, modes, points, stream);
      }
      if (pass.with_z) {
        for (int v = 0; v < pass.forward; ++v) columns(worker, Kind::forward, modes, v);
        call(pass.after_z, modes, stream);
      }
      for (int v = 0; v < to; ++v) store(modes, v, pass.to[static_cast<std::size_t>(v)], pass.scale_to, stores, kept);
    }
  }
  stores_done(Stores::streaming);
}

template <class T>
void HostStages<T>::columns(Worker& worker, Kind kind, Block<Complex> modes, int variable) {
  const LinesShape shape = LinesShape::columns(kind, static_cast<int>(modes.box.count[2]), modes.box.count[0],
                                               modes.z_stride, modes.z_stride, true);
  plan(worker, shape)(modes.row(variable, 0, 0), modes.row(variable, 0, 0));
}

template <class T>
template <Stores stores>
void HostStages<T>::copy_in_shares(const Pieces<Complex>& to, const Pieces<Complex>& from) const {
  for (const Piece<Complex>& target : to) {
    in_shares(shares(target.box.count[2], threads(target.box.size())), [&](int, std::int64_t begin, std::int64_t end) {
      Piece<Complex> share = target;
      share.box.first[2] += begin;
      share.box.count[2] = end - begin;
      share.data += begin * target.z_stride;
      for (const Piece<Complex>& piece : from) copy_common<stores>(share, piece, T(1));
      stores_done(stores);
    });
  }
}

template <class T>
void HostStages<T>::copy(const char* what, const std::vector<Pieces<Complex>>& from,
                         const std::vector<Pieces<Complex>>& to, device::Stream&) {
  const trace::Span span(what, trace::Category::cpu);
  for (std::size_t v = 0; v < from.size(); ++v) copy_in_shares<Stores::streaming>(to[v], from[v]);
}

template class HostStages<float>;
template class HostStages<double>;

}  // namespace weft::fft
