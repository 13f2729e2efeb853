#include "weft/mesh/element_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/files/checksum.hpp"
#include "weft/files/parallel_file.hpp"
#include "weft/mesh/tensor.hpp"

namespace weft::mesh {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_mesh = std::int64_t{1} << 33;  // elements
constexpr int most_components = 10000;
constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;  // per transfer of consecutive elements

std::int64_t cube(int n) { return static_cast<std::int64_t>(n) * n * n; }

// The checksum of an element's record. It includes the element's number, so that swapped records are detected.
std::uint64_t record_checksum(std::int64_t element, std::span<const std::byte> record) {
  return files::checksum(record, files::checksum(std::as_bytes(std::span(&element, 1))));
}

// The local elements by global number, divided into runs of consecutive numbers that fit into one transfer.
struct Runs {
  Runs(const Mesh& mesh, std::int64_t record) : order(mesh.element_ids.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::int64_t e) { return mesh.element_ids[e]; });
    const std::int64_t most = std::max<std::int64_t>(1, piece_bytes / record);
    for (std::int64_t begin = 0, end; begin < std::ssize(order); begin = end) {
      for (end = begin + 1; end < std::ssize(order) && end - begin < most; ++end)
        if (mesh.element_ids[order[end]] != mesh.element_ids[order[end - 1]] + 1) break;
      runs.push_back({mesh.element_ids[order[begin]], begin, end - begin});
    }
  }

  struct Run {
    std::int64_t id;     // of the first element
    std::int64_t place;  // of the first element, in `order`
    std::int64_t count;
  };
  std::vector<std::int64_t> order;
  std::vector<Run> runs;
};

// Interpolates the values of a record, in either precision, from the points of order `from` to those of order `to`.
class Values {
 public:
  Values(int from, int to, int value_bytes) : from_(from + 1), to_(to + 1), value_bytes_(value_bytes) {
    if (from != to) matrix_ = element::interpolation(element::gll(from).points, element::gll(to).points);
    given_.resize(static_cast<std::size_t>(cube(from_)));
    for (auto* work : {&one_, &two_, &three_}) work->resize(static_cast<std::size_t>(cube(std::max(from_, to_))));
  }

  template <class T>
  void get(const std::byte* record, std::span<T> result) {
    if (value_bytes_ == static_cast<int>(sizeof(T)) && matrix_.empty()) {
      std::memcpy(result.data(), record, result.size_bytes());
      return;
    }
    if (value_bytes_ == 8)
      std::memcpy(given_.data(), record, given_.size() * sizeof(double));
    else
      for (std::size_t i = 0; i < given_.size(); ++i) {
        float value;
        std::memcpy(&value, record + i * sizeof value, sizeof value);
        given_[i] = value;
      }
    const double* values = given_.data();
    if (!matrix_.empty()) {
      apply_along(matrix_.data(), to_, from_, from_ * from_, 1, values, one_.data());
      apply_along(matrix_.data(), to_, from_, from_, to_, one_.data(), two_.data());
      apply_along(matrix_.data(), to_, from_, 1, to_ * to_, two_.data(), three_.data());
      values = three_.data();
    }
    std::transform(values, values + result.size(), result.begin(), [](double v) { return static_cast<T>(v); });
  }

 private:
  int from_, to_, value_bytes_;
  std::vector<double> matrix_, given_, one_, two_, three_;
};

std::vector<std::byte> header_at(const fs::path& path, const files::Format& format) {
  return files::read_header(path, format, [&](std::span<const std::byte> bytes) {
    const ElementFileHeader h = from_bytes(bytes, format, path.string());
    return std::ssize(bytes) + h.mesh.elements * (8 + h.record_bytes());
  });
}

template <class V>
void share(V& values, const mpi::Comm& comm) {
  auto count = static_cast<std::int64_t>(values.size());
  mpi::check(MPI_Bcast(&count, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  values.resize(static_cast<std::size_t>(count));
  mpi::check(MPI_Bcast(values.data(), static_cast<int>(count), MPI_BYTE, 0, comm.get()), "MPI_Bcast");
}

}  // namespace

int ElementFileHeader::components() const {
  int sum = 0;
  for (const ElementField& field : fields) sum += field.components;
  return sum;
}

std::int64_t ElementFileHeader::record_bytes() const { return components() * cube(order + 1) * value_bytes; }

std::vector<std::byte> to_bytes(const ElementFileHeader& h, const files::Format& format) {
  files::Writer w(format, h.number);
  w.put(h.mesh.elements);
  w.put(h.mesh.topology);
  w.put(std::span<const std::uint64_t>(h.mesh.geometry));
  w.put(static_cast<std::int64_t>(h.mesh.exponent));
  w.put(static_cast<std::int32_t>(h.order));
  w.put(static_cast<std::int32_t>(h.value_bytes));
  w.put(h.step);
  w.put(h.time);
  w.put(static_cast<std::int64_t>(h.fields.size()));
  for (const ElementField& field : h.fields) {
    w.list(field.name);
    w.put(static_cast<std::int64_t>(field.components));
  }
  w.put(static_cast<std::int64_t>(h.numbers.size()));
  for (const auto& [name, values] : h.numbers) {
    w.list(name);
    w.list(values);
  }
  w.list(h.text);
  return std::move(w).sealed();
}

ElementFileHeader from_bytes(std::span<const std::byte> bytes, const files::Format& format, const std::string& name) {
  files::Reader r(bytes, format, name);
  ElementFileHeader h;
  h.number = files::number_of(bytes);
  h.mesh.elements = r.get<std::int64_t>();
  h.mesh.topology = r.get<std::uint64_t>();
  for (std::uint64_t& value : h.mesh.geometry) value = r.get<std::uint64_t>();
  h.mesh.exponent = static_cast<int>(r.get<std::int64_t>());
  h.order = r.get<std::int32_t>();
  h.value_bytes = r.get<std::int32_t>();
  h.step = r.get<std::int64_t>();
  h.time = r.get<double>();
  if (h.mesh.elements < 1 || h.mesh.elements > largest_mesh || h.order < element::min_order ||
      h.order > element::max_order || (h.value_bytes != 4 && h.value_bytes != 8) || h.step < 0 ||
      !std::isfinite(h.time))
    r.damaged();
  const auto fields = r.get<std::int64_t>();
  std::int64_t components = 0;
  for (std::int64_t f = 0; f < fields; ++f) {
    std::string field = r.text();
    const auto count = r.get<std::int64_t>();
    if (count < 1 || count > most_components || (components += count) > most_components) r.damaged();
    h.fields.push_back({std::move(field), static_cast<int>(count)});
  }
  const auto numbers = r.get<std::int64_t>();
  for (std::int64_t i = 0; i < numbers; ++i) {
    std::string key = r.text();
    h.numbers[std::move(key)] = r.list<double>();
  }
  h.text = r.text();
  r.end();
  if (fields < 1 || numbers < 0) r.damaged();
  return h;
}

template <class T>
void write_element_file(const fs::path& path, const files::Format& format, ElementFileHeader header, const Mesh& mesh,
                        const std::function<void(std::int64_t element, T* values)>& get) {
  const mpi::Comm& comm = mesh.comm;
  header.value_bytes = sizeof(T);
  header.mesh = digest(mesh);
  std::unique_ptr<files::ParallelFile> file;
  comm.together(
      [&] { file = std::make_unique<files::ParallelFile>(comm.get(), path, MPI_MODE_CREATE | MPI_MODE_WRONLY); });
  comm.together([&] {
    const std::vector<std::byte> head = to_bytes(header, format);
    if (comm.rank() == 0) file->write(0, head);
    const std::int64_t table = std::ssize(head), data = table + 8 * header.mesh.elements;
    const std::int64_t record = header.record_bytes(), count = record / static_cast<std::int64_t>(sizeof(T));
    const Runs runs(mesh, record);
    std::vector<T> values;
    std::vector<std::uint64_t> checksums;
    for (const Runs::Run& run : runs.runs) {
      values.resize(static_cast<std::size_t>(run.count * count));
      checksums.resize(static_cast<std::size_t>(run.count));
      for (std::int64_t i = 0; i < run.count; ++i) {
        T* to = values.data() + i * count;
        get(runs.order[run.place + i], to);
        checksums[i] = record_checksum(run.id + i, std::as_bytes(std::span(to, to + count)));
      }
      file->write(data + run.id * record, std::as_bytes(std::span(values)));
      file->write(table + run.id * 8, std::as_bytes(std::span(checksums)));
    }
  });
  comm.together([&] { file->finish(); });
}

ElementFile::ElementFile(const std::string& path, const files::CheckpointKind& kind, const mpi::Comm& comm) {
  std::vector<std::byte> bytes;
  comm.together([&] {
    if (comm.rank() != 0) return;
    path_ = files::find_checkpoint(path, kind).string();
    bytes = header_at(fs::path(path_) / kind.file, kind.format);
  });
  share(path_, comm);
  share(bytes, comm);
  file_ = (fs::path(path_) / kind.file).string();
  header_bytes_ = std::ssize(bytes);
  header_ = from_bytes(bytes, kind.format, file_);
}

const ElementField* ElementFile::find(const std::string& name) const {
  const auto found = std::ranges::find(header_.fields, name, &ElementField::name);
  return found == header_.fields.end() ? nullptr : &*found;
}

const std::vector<double>& ElementFile::numbers(const std::string& name, std::size_t least) const {
  const auto found = header_.numbers.find(name);
  if (found == header_.numbers.end() || found->second.size() < least)
    throw mpi::CollectiveError(path_ + ": has no record of its " + name + ": use another checkpoint");
  return found->second;
}

template <class T>
void ElementFile::read(const Mesh& mesh, int order, std::span<const ElementField> fields,
                       const std::function<void(std::int64_t element, const T* values)>& set) const {
  const mpi::Comm& comm = mesh.comm;
  const Digest mine = digest(mesh);
  const std::int64_t points = cube(order + 1), record = header_.record_bytes();
  const std::int64_t written = cube(header_.order + 1) * header_.value_bytes;  // bytes per component
  std::vector<std::int64_t> places;                                            // of all components, within a record
  comm.together([&] {
    if (!same(mine, header_.mesh))
      throw std::runtime_error(file_ + ": is of another mesh" +
                               (mine.elements == header_.mesh.elements
                                    ? std::string(" (its elements have other positions or neighbours)")
                                    : ", of " + std::to_string(header_.mesh.elements) + " elements, but the run has " +
                                          std::to_string(mine.elements)) +
                               ": use the mesh that it was written with");
    for (const ElementField& field : fields) {
      std::int64_t at = 0;
      bool found = false;
      for (const ElementField& has : header_.fields) {
        found = has.name == field.name;
        if (found && has.components != field.components)
          throw std::runtime_error(file_ + ": has " + std::to_string(has.components) + " components of " + field.name +
                                   ", the run " + std::to_string(field.components));
        if (found) break;
        at += has.components * written;
      }
      if (!found) throw std::runtime_error(file_ + ": has no " + field.name);
      for (int c = 0; c < field.components; ++c) places.push_back(at + c * written);
    }
  });
  comm.together([&] {
    files::ParallelFile file(MPI_COMM_SELF, file_, MPI_MODE_RDONLY);
    const std::int64_t table = header_bytes_, data = table + 8 * header_.mesh.elements;
    const Runs runs(mesh, record);
    Values convert(header_.order, order, header_.value_bytes);
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> checksums;
    std::vector<T> values(places.size() * static_cast<std::size_t>(points));
    for (const Runs::Run& run : runs.runs) {
      bytes.resize(static_cast<std::size_t>(run.count * record));
      checksums.resize(static_cast<std::size_t>(run.count));
      file.read(data + run.id * record, bytes);
      file.read(table + run.id * 8, std::as_writable_bytes(std::span(checksums)));
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto here = std::span<const std::byte>(bytes).subspan(static_cast<std::size_t>(i * record),
                                                                    static_cast<std::size_t>(record));
        if (record_checksum(run.id + i, here) != checksums[i])
          throw std::runtime_error(file_ + ": element " + std::to_string(run.id + i + 1) +
                                   " is damaged: use an older checkpoint");
        for (std::size_t v = 0; v < places.size(); ++v)
          convert.get<T>(here.data() + places[v], std::span(values).subspan(v * static_cast<std::size_t>(points),
                                                                            static_cast<std::size_t>(points)));
        set(runs.order[run.place + i], values.data());
      }
    }
  });
}

#define WEFT_ELEMENT_FILE(T)                                                                                 \
  template void write_element_file<T>(const fs::path&, const files::Format&, ElementFileHeader, const Mesh&, \
                                      const std::function<void(std::int64_t, T*)>&);                         \
  template void ElementFile::read<T>(const Mesh&, int, std::span<const ElementField>,                        \
                                     const std::function<void(std::int64_t, const T*)>&) const;
WEFT_ELEMENT_FILE(double)
WEFT_ELEMENT_FILE(float)
#undef WEFT_ELEMENT_FILE

}  // namespace weft::mesh
