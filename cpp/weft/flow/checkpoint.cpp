#include "weft/flow/checkpoint.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::flow {
namespace {

// A vector field in memory of the space's device, [components][entries].
template <class T>
struct NamedVectors {
  std::string name;
  int components = 1;
  T* data = nullptr;
};

// Vectors that the host can read and write: the vectors themselves, or copies if they are on a GPU.
template <class T>
class HostVectors {
 public:
  HostVectors(space::Space<T>& space, std::span<const NamedVectors<T>> fields)
      : space_(space),
        stream_(space.device()),
        index_(space.point_index()),
        points_(static_cast<std::int64_t>(space.order() + 1) * (space.order() + 1) * (space.order() + 1)) {
    const bool copies = !space.device()->is_host();
    for (const NamedVectors<T>& field : fields)
      for (int c = 0; c < field.components; ++c) vectors_.push_back(field.data + c * space.entries());
    if (copies) memory_.resize(vectors_.size() * static_cast<std::size_t>(space.entries()));
    for (std::size_t v = 0; v < vectors_.size(); ++v)
      host_.push_back(copies ? memory_.data() + v * static_cast<std::size_t>(space.entries()) : vectors_[v]);
  }

  // Reads the values of a local element, [vectors][points].
  void get(std::int64_t element, T* values) const {
    const std::int32_t* entries = index_.data() + element * points_;
    for (const T* vector : host_)
      for (std::int64_t p = 0; p < points_; ++p) *values++ = vector[entries[p]];
  }
  void set(std::int64_t element, const T* values) {
    const std::int32_t* entries = index_.data() + element * points_;
    for (T* vector : host_)
      for (std::int64_t p = 0; p < points_; ++p) vector[entries[p]] = *values++;
  }
  void zero() {
    for (T* vector : host_) std::fill_n(vector, space_.entries(), T(0));
  }
  void fill_halo() {
    for (T* vector : vectors_) space_.fill_halo(vector, stream_);
    stream_.synchronize();
  }
  void load() { copy(device::CopyKind::device_to_host); }
  void store() { copy(device::CopyKind::host_to_device); }

 private:
  void copy(device::CopyKind kind) {
    if (memory_.empty()) return;
    const bool loads = kind == device::CopyKind::device_to_host;
    const std::size_t bytes = static_cast<std::size_t>(space_.entries()) * sizeof(T);
    for (std::size_t v = 0; v < vectors_.size(); ++v)
      space_.device()->copy(loads ? host_[v] : vectors_[v], loads ? vectors_[v] : host_[v], bytes, kind, stream_);
    stream_.synchronize();
  }

  space::Space<T>& space_;
  device::Stream stream_;
  std::vector<std::int32_t> index_;  // [elements][points] entry of each point
  std::int64_t points_;              // per element
  std::vector<T*> vectors_, host_;
  std::vector<T> memory_;
};

template <class T>
std::vector<mesh::ElementField> fields_of(std::span<const NamedVectors<T>> vectors) {
  std::vector<mesh::ElementField> fields;
  for (const NamedVectors<T>& field : vectors) fields.push_back({field.name, field.components});
  return fields;
}

// The fields that a restart needs for this number of levels. The explicit terms of level 0 are not among them: the next
// step computes them.
template <class T>
std::vector<NamedVectors<T>> vectors_of(State<T>& state, int levels, bool explicit_terms) {
  std::vector<NamedVectors<T>> vectors{{"pressure", 1, state.pressure()}};
  for (int level = 0; level < levels; ++level)
    vectors.push_back({"fields " + std::to_string(level), state.components(), state.fields(level)});
  for (int level = 1; level < levels && explicit_terms; ++level)
    vectors.push_back({"explicit terms " + std::to_string(level), state.components(), state.explicit_terms(level)});
  return vectors;
}

}  // namespace

template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options) {
  solver.stream().synchronize();
  solver.forget();
  return write_checkpoint<T>(solver.space(), solver.state(), solver.averaging() ? solver.averages() : nullptr, options);
}

template <class T>
mesh::ElementFile restore(Solver<T>& solver, const std::string& path) {
  mesh::ElementFile file(path, checkpoint_kind, solver.space().comm());
  solver.stream().synchronize();
  solver.forget();
  restore<T>(file, solver.space(), solver.state(),
             file.find(averages_name) != nullptr ? &solver.hold_averages() : solver.averages());
  return file;
}

template <class T>
std::string write_checkpoint(space::Space<T>& space, State<T>& state, Averages<T>* averages,
                             const CheckpointOptions& options) {
  const trace::Span span("checkpoint", trace::Category::cpu);
  mesh::ElementFileHeader header;
  header.order = space.order();
  header.step = state.step;
  header.time = state.time;
  header.text = options.text;
  header.numbers["dt"] = {state.dt.begin(), state.dt.end()};
  header.numbers["known levels"] = {static_cast<double>(state.known)};
  std::vector<NamedVectors<T>> vectors = vectors_of(state, state.known, true);
  if (averages != nullptr) {
    vectors.push_back({averages_name, averages->components(), averages->data()});
    header.numbers[averages_name] = {averages->since(), averages->until(), static_cast<double>(averages->samples())};
  }
  header.fields = fields_of<T>(vectors);
  HostVectors<T> values(space, vectors);
  values.fill_halo();
  space.comm().together([&] { values.load(); });
  return files::write_checkpoint_folder(options.folder, checkpoint_kind, state.step, options.keep, space.comm(),
                                        [&](const std::filesystem::path& folder, std::int64_t number) {
                                          header.number = number;
                                          mesh::write_element_file<T>(
                                              folder / checkpoint_kind.file, checkpoint_kind.format, header,
                                              space.mesh(), [&](std::int64_t e, T* to) { values.get(e, to); });
                                        });
}

template <class T>
Restored restore(const mesh::ElementFile& file, space::Space<T>& space, State<T>& state, Averages<T>* averages) {
  const mesh::ElementFileHeader& h = file.header();
  Restored restored;
  restored.same_order = h.order == space.order();
  const std::vector<double> dt = file.numbers("dt", max_time_order);
  const auto written = static_cast<int>(std::clamp(file.numbers("known levels", 1)[0], 1.0, double(max_time_order)));
  const int known = restored.same_order ? std::min(written, state.order) : 1;
  std::vector<NamedVectors<T>> vectors = vectors_of(state, known, true);
  if (averages != nullptr) {
    const mesh::ElementField* field = file.find(averages_name);
    restored.averages = field != nullptr && field->components == averages->components();
    if (restored.averages) vectors.push_back({averages_name, averages->components(), averages->data()});
  }
  HostVectors<T> values(space, vectors);
  values.zero();
  file.read<T>(space.mesh(), space.order(), fields_of<T>(vectors),
               [&](std::int64_t e, const T* from) { values.set(e, from); });
  space.comm().together([&] { values.store(); });
  values.fill_halo();
  state.step = h.step;
  state.time = h.time;
  state.known = known;
  std::copy_n(dt.begin(), max_time_order, state.dt.begin());
  if (restored.averages) {
    const std::vector<double> times = file.numbers(averages_name, 3);
    averages->set(times[0], times[1], static_cast<std::int64_t>(times[2]));
  } else if (averages != nullptr) {
    averages->begin(state.time);
  }
  return restored;
}

#define WEFT_CHECKPOINT(T)                                                                                       \
  template std::string save<T>(Solver<T>&, const CheckpointOptions&);                                            \
  template mesh::ElementFile restore<T>(Solver<T>&, const std::string&);                                         \
                                                                                                                 \
  template std::string write_checkpoint<T>(space::Space<T>&, State<T>&, Averages<T>*, const CheckpointOptions&); \
  template Restored restore<T>(const mesh::ElementFile&, space::Space<T>&, State<T>&, Averages<T>*);
WEFT_CHECKPOINT(double)
WEFT_CHECKPOINT(float)
#undef WEFT_CHECKPOINT

}  // namespace weft::flow
