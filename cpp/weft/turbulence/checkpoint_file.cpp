#include "weft/turbulence/checkpoint_file.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <stdexcept>

#include "weft/files/checkpoint_folder.hpp"
#include "weft/files/checksum.hpp"
#include "weft/files/parallel_file.hpp"
#include "weft/trace/recorder.hpp"
#include "weft/turbulence/host_planes.hpp"
#include "weft/turbulence/third_component.hpp"

namespace weft::turbulence {
namespace {

namespace fs = std::filesystem;

std::string part_name(int index) {
  const std::string digits = std::to_string(index);
  return "part-" + std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits + ".bin";
}

files::CheckpointKind checkpoint_kind() { return {checkpoint_format, part_name(0)}; }

// An owned communicator.
class Group {
 public:
  Group(const mpi::Comm& comm, int colour) {
    mpi::check(MPI_Comm_split(comm.get(), colour, comm.rank(), &comm_), "MPI_Comm_split");
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~Group() { MPI_Comm_free(&comm_); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  MPI_Comm get() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

template <class V>
std::vector<V> all_of(const mpi::Comm& comm, V mine) {
  std::vector<V> all(static_cast<std::size_t>(comm.size()));
  mpi::check(MPI_Allgather(&mine, sizeof(V), MPI_BYTE, all.data(), sizeof(V), MPI_BYTE, comm.get()), "MPI_Allgather");
  return all;
}

// For each row of a plane of modes, the number of modes kept between `x` and the truncation.
std::vector<std::int64_t> kept_of_plane(const Truncation& truncation, const Box& box, const SpectralPart::Range& x,
                                        std::int64_t iz) {
  std::vector<std::int64_t> kept(static_cast<std::size_t>(box.sizes[1]));
  for (std::int64_t iy = 0; iy < box.sizes[1]; ++iy)
    kept[static_cast<std::size_t>(iy)] = std::clamp<std::int64_t>(
        truncation.kept(signed_index(iy, box.sizes[1]), signed_index(iz, box.sizes[2])) - x.begin, 0, x.count);
  return kept;
}

std::array<double, 3> wavenumber(const Box& box, std::int64_t ix, std::int64_t iy, std::int64_t iz) {
  return {box.unit(0) * static_cast<double>(ix), box.unit(1) * static_cast<double>(signed_index(iy, box.sizes[1])),
          box.unit(2) * static_cast<double>(signed_index(iz, box.sizes[2]))};
}

// v, recomputed from u and w, for the modes of one plane. Not inlined, so that rounding is the same for every caller.
template <class T>
[[gnu::noinline]] void fill_left_out(const Box& box, const SpectralPart::Range& x, std::int64_t iz,
                                     const std::vector<std::int64_t>& kept,
                                     const std::vector<std::complex<T>*>& plane) {
  for (std::int64_t iy = 0; iy < box.sizes[1]; ++iy) {
    for (std::int64_t i = 0; i < kept[static_cast<std::size_t>(iy)]; ++i) {
      const auto k = wavenumber(box, x.begin + i, iy, iz);
      const LeftOut left = left_out(k);
      const std::int64_t at = iy * x.count + i;
      if (k[static_cast<std::size_t>(left.component)] != 0)
        plane[static_cast<std::size_t>(left.component)][at] = third_component(
            k, left, plane[static_cast<std::size_t>(left.first)][at], plane[static_cast<std::size_t>(left.second)][at]);
    }
  }
}

// The two stored components and the scalars for a plane's kept modes, one variable after the other.
template <class T>
std::vector<std::complex<T>> packed(const Box& box, const SpectralPart::Range& x, std::int64_t iz,
                                    const std::vector<std::int64_t>& kept, const std::vector<std::complex<T>*>& plane) {
  const std::int64_t modes = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
  std::vector<std::complex<T>> values(static_cast<std::size_t>(modes) * (plane.size() - 1));
  std::int64_t n = 0;
  for (std::int64_t iy = 0; iy < box.sizes[1]; ++iy) {
    for (std::int64_t i = 0; i < kept[static_cast<std::size_t>(iy)]; ++i, ++n) {
      const LeftOut left = left_out(wavenumber(box, x.begin + i, iy, iz));
      const std::int64_t at = iy * x.count + i;
      values[static_cast<std::size_t>(n)] = plane[static_cast<std::size_t>(left.first)][at];
      values[static_cast<std::size_t>(modes + n)] = plane[static_cast<std::size_t>(left.second)][at];
      for (std::size_t f = 3; f < plane.size(); ++f)
        values[(f - 1) * static_cast<std::size_t>(modes) + static_cast<std::size_t>(n)] = plane[f][at];
    }
  }
  return values;
}

// The means, which are real; the rank of mode 0 has them.
template <class T>
std::vector<double> means(const SpectralFields<T>& fields, const mpi::Comm& comm) {
  std::vector<double> mean(fields.fields.size(), 0.0);
  if (fields.part.place(0, 0, 0) >= 0) {
    HostPlanes<T> planes(fields.device, fields.fields, fields.part.box.sizes[1] * fields.part.x.count);
    const auto plane = planes.load(0);
    for (std::size_t f = 0; f < plane.size(); ++f) mean[f] = static_cast<double>(plane[f][0].real());
  }
  comm.sum(mean.data(), static_cast<int>(mean.size()));
  return mean;
}

}  // namespace

template <class T>
std::string write_checkpoint(CheckpointHeader header, const SpectralFields<T>& fields, const CheckpointOptions& options,
                             const mpi::Comm& comm) {
  const trace::Span span("checkpoint", trace::Category::cpu);
  const SpectralPart& part = fields.part;
  header.box = part.box;
  header.dealiasing = fields.truncation.dealiasing();
  header.value_bytes = sizeof(T);
  header.scalars = static_cast<int>(fields.fields.size()) - 3;
  header.mean = means(fields, comm);

  // Which ranks share a file, and which files are written at a time (with a single file: which ranks).
  const int first = options.ranks_per_file > 0 ? comm.rank() / options.ranks_per_file : comm.node().front();
  const std::vector<int> firsts = all_of(comm, first);
  const std::set<int> distinct(firsts.begin(), firsts.end());
  CheckpointFile file;
  file.header = std::move(header);
  file.index = static_cast<int>(std::distance(distinct.begin(), distinct.find(first)));
  file.files = static_cast<int>(distinct.size());
  const Group group(comm, file.index);
  const bool by_file = file.files > 1;
  const int turns = std::clamp(options.turns, 1, by_file ? file.files : comm.size());
  const int turn = by_file ? file.index % turns : comm.rank() % turns;

  // The size of each plane in bytes depends only on the truncation.
  std::vector<PlaneEntry> table(static_cast<std::size_t>(part.z.count));
  CheckpointBlock block{part.x, part.z};
  for (std::int64_t z = 0; z < part.z.count; ++z) {
    const auto kept = kept_of_plane(fields.truncation, part.box, part.x, part.z.begin + z);
    const std::int64_t modes = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
    table[static_cast<std::size_t>(z)].bytes =
        modes * static_cast<std::int64_t>((fields.fields.size() - 1) * sizeof(std::complex<T>));
    block.bytes += table[static_cast<std::size_t>(z)].bytes;
  }
  file.blocks.resize(static_cast<std::size_t>(group.size()));
  mpi::check(MPI_Allgather(&block, sizeof block, MPI_BYTE, file.blocks.data(), sizeof block, MPI_BYTE, group.get()),
             "MPI_Allgather");
  file.place();
  block = file.blocks[static_cast<std::size_t>(group.rank())];

  HostPlanes<T> planes(fields.device, fields.fields, part.box.sizes[1] * part.x.count);
  const auto write = [&](const fs::path& folder, std::int64_t number) {
    file.header.number = number;
    std::unique_ptr<files::ParallelFile> output;
    for (int now = 0; now < turns; ++now) {
      comm.together([&] {  // all ranks of a file open it together
        if (by_file ? turn == now : now == 0)
          output = std::make_unique<files::ParallelFile>(group.get(), folder / part_name(file.index),
                                                         MPI_MODE_CREATE | MPI_MODE_WRONLY);
      });
      comm.together([&] {
        if (turn != now) return;
        if (group.rank() == 0) output->write(0, to_bytes(file));
        std::int64_t at = block.data;
        for (std::int64_t z = 0; z < part.z.count; ++z) {
          const std::int64_t iz = part.z.begin + z;
          const auto kept = kept_of_plane(fields.truncation, part.box, part.x, iz);
          const auto plane = planes.load(z);
          fill_left_out(part.box, part.x, iz, kept, plane);
          planes.store(z);
          const auto values = packed(part.box, part.x, iz, kept, plane);
          const auto bytes = std::as_bytes(std::span(values));
          PlaneEntry& entry = table[static_cast<std::size_t>(z)];
          entry.checksum = files::checksum(bytes);
          output->write(at, bytes);
          at += entry.bytes;
        }
        output->write(block.table, std::as_bytes(std::span(table)));
      });
      comm.together([&] {
        if (by_file ? turn == now : now == turns - 1) output->finish();
      });
    }
  };
  return files::write_checkpoint_folder(options.folder, checkpoint_kind(), file.header.step, options.keep, comm, write);
}

namespace {

std::vector<std::byte> header_of(const fs::path& path) {
  return files::read_header(path, checkpoint_format, [&](std::span<const std::byte> header) {
    return from_bytes(header, path.string()).size();
  });
}

// The headers of all files of a checkpoint, which must belong to one run.
std::vector<std::vector<std::byte>> headers_of(const fs::path& path) {
  std::vector<std::vector<std::byte>> headers{header_of(path / part_name(0))};
  const CheckpointFile first = from_bytes(headers.front(), path.string());
  for (int index = 1; index < first.files; ++index) headers.push_back(header_of(path / part_name(index)));
  std::int64_t modes = 0;
  for (std::size_t index = 0; index < headers.size(); ++index) {
    const std::string name = (path / part_name(static_cast<int>(index))).string();
    const CheckpointFile file = from_bytes(headers[index], name);
    if (file.files != first.files || file.index != static_cast<int>(index) || file.header.step != first.header.step ||
        file.header.time != first.header.time || file.header.box.sizes != first.header.box.sizes)
      throw std::runtime_error(name + ": does not belong to the same checkpoint as " + part_name(0));
    for (const CheckpointBlock& block : file.blocks) modes += block.x.count * block.z.count;
  }
  const std::int64_t modes_x = Truncation(first.header.box, first.header.dealiasing).modes_x();
  if (modes != modes_x * first.header.box.sizes[2])
    throw std::runtime_error(path.string() + ": the files do not hold every mode: the checkpoint is damaged");
  return headers;
}

std::string text(const Box& box) {
  std::string words;
  for (int d = 0; d < 3; ++d) words += (d > 0 ? " x " : "") + std::to_string(box.sizes[static_cast<std::size_t>(d)]);
  return words;
}

// The planes of one block in one file, in the precision of the run.
template <class T>
std::vector<std::complex<T>> read_plane(files::ParallelFile& file, std::int64_t at, const PlaneEntry& entry,
                                        int value_bytes, const std::string& name) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
  file.read(at, bytes);
  if (files::checksum(bytes) != entry.checksum) throw std::runtime_error(name + " is damaged: use an older checkpoint");
  const std::size_t count = bytes.size() / (2 * static_cast<std::size_t>(value_bytes));
  std::vector<std::complex<T>> values(count);
  const auto convert = [&]<class Written>(Written) {
    for (std::size_t i = 0; i < count; ++i) {
      std::array<Written, 2> pair;
      std::memcpy(pair.data(), bytes.data() + i * sizeof pair, sizeof pair);
      values[i] = {static_cast<T>(pair[0]), static_cast<T>(pair[1])};
    }
  };
  if (value_bytes == 4)
    convert(float{});
  else
    convert(double{});
  return values;
}

}  // namespace

Checkpoint::Checkpoint(const std::string& path, const mpi::Comm& comm) : comm_(comm) {
  std::vector<std::int64_t> lengths;
  std::vector<std::byte> bytes;
  comm.together([&] {
    if (comm.rank() != 0) return;
    path_ = files::find_checkpoint(path, checkpoint_kind()).string();
    for (const auto& header : headers_of(path_)) {
      lengths.push_back(static_cast<std::int64_t>(header.size()));
      bytes.insert(bytes.end(), header.begin(), header.end());
    }
  });
  const auto share = [&](auto& values) {
    auto count = static_cast<std::int64_t>(values.size());
    mpi::check(MPI_Bcast(&count, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
    values.resize(static_cast<std::size_t>(count));
    mpi::check(MPI_Bcast(values.data(), static_cast<int>(values.size() * sizeof(values[0])), MPI_BYTE, 0, comm.get()),
               "MPI_Bcast");
  };
  share(path_);
  share(lengths);
  share(bytes);
  std::size_t at = 0;
  for (const std::int64_t length : lengths) {
    files_.push_back(from_bytes(std::span(bytes).subspan(at, static_cast<std::size_t>(length)), path_));
    at += static_cast<std::size_t>(length);
  }
}

std::int64_t Checkpoint::bytes() const {
  std::int64_t sum = 0;
  for (const CheckpointFile& file : files_) sum += file.size();
  return sum;
}

template <class T>
void Checkpoint::read(const SpectralFields<T>& fields) const {
  const CheckpointHeader& h = header();
  const SpectralPart& part = fields.part;
  comm_.together([&] {
    if (h.box.sizes != part.box.sizes)
      throw std::runtime_error(path_ + ": the checkpoint has " + text(h.box) + " points, the run has " +
                               text(part.box) + ": give the run the same grid");
    for (std::size_t d = 0; d < 3; ++d)
      if (std::abs(h.box.lengths[d] - part.box.lengths[d]) > 1e-12 * part.box.lengths[d])
        throw std::runtime_error(path_ + ": the checkpoint's box has other side lengths: give the run the same ones");
    if (h.scalars != static_cast<int>(fields.fields.size()) - 3)
      throw std::runtime_error(path_ + ": the checkpoint has " + std::to_string(h.scalars) + " scalars, the run has " +
                               std::to_string(fields.fields.size() - 3));
  });
  const Truncation written(h.box, h.dealiasing);
  HostPlanes<T> planes(fields.device, fields.fields, part.box.sizes[1] * part.x.count);

  // This rank's part of each block, plane by plane, so that only one plane is held in addition to the fields.
  struct Source {
    std::unique_ptr<files::ParallelFile> file;
    std::string name;
    const CheckpointBlock* block;
    std::vector<PlaneEntry> table;
    std::vector<std::int64_t> offsets;
  };
  comm_.together([&] {
    std::vector<Source> sources;
    for (const CheckpointFile& file : files_) {
      for (const CheckpointBlock& block : file.blocks) {
        const bool apart =
            block.x.begin + block.x.count <= part.x.begin || part.x.begin + part.x.count <= block.x.begin ||
            block.z.begin + block.z.count <= part.z.begin || part.z.begin + part.z.count <= block.z.begin;
        if (apart) continue;
        Source source{nullptr, (fs::path(path_) / part_name(file.index)).string(), &block, {}, {}};
        source.file = std::make_unique<files::ParallelFile>(MPI_COMM_SELF, source.name, MPI_MODE_RDONLY);
        source.table.resize(static_cast<std::size_t>(block.z.count));
        source.file->read(block.table, std::as_writable_bytes(std::span(source.table)));
        std::int64_t at = block.data;
        for (const PlaneEntry& entry : source.table) {
          source.offsets.push_back(at);
          if (entry.bytes < 0 || entry.bytes > block.data + block.bytes - at)
            throw std::runtime_error(source.name + ": a table of planes is damaged: use an older checkpoint");
          at += entry.bytes;
        }
        sources.push_back(std::move(source));
      }
    }
    for (std::int64_t z = 0; z < part.z.count; ++z) {
      const std::int64_t iz = part.z.begin + z;
      const auto mine = kept_of_plane(fields.truncation, part.box, part.x, iz);
      const auto plane = planes.at(z);
      for (std::complex<T>* values : plane) std::fill_n(values, part.box.sizes[1] * part.x.count, std::complex<T>{});
      for (Source& source : sources) {
        const CheckpointBlock& block = *source.block;
        if (iz < block.z.begin || iz >= block.z.begin + block.z.count) continue;
        const auto entry = static_cast<std::size_t>(iz - block.z.begin);
        const std::string name = source.name + ": plane kz = " + std::to_string(iz);
        const auto kept = kept_of_plane(written, part.box, block.x, iz);
        const std::int64_t modes = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
        const std::int64_t bytes = modes * 2 * h.value_bytes * static_cast<std::int64_t>(plane.size() - 1);
        if (source.table[entry].bytes != bytes) throw std::runtime_error(name + " is damaged: use an older checkpoint");
        const auto values =
            read_plane<T>(*source.file, source.offsets[entry], source.table[entry], h.value_bytes, name);
        std::int64_t n = 0;
        for (std::int64_t iy = 0; iy < part.box.sizes[1]; ++iy) {
          const std::int64_t first = std::max(block.x.begin, part.x.begin);
          const std::int64_t end = std::min(block.x.begin + kept[static_cast<std::size_t>(iy)],
                                            part.x.begin + mine[static_cast<std::size_t>(iy)]);
          for (std::int64_t ix = first; ix < end; ++ix) {
            const LeftOut left = left_out(wavenumber(part.box, ix, iy, iz));
            const std::int64_t to = iy * part.x.count + ix - part.x.begin, from = n + ix - block.x.begin;
            plane[static_cast<std::size_t>(left.first)][to] = values[static_cast<std::size_t>(from)];
            plane[static_cast<std::size_t>(left.second)][to] = values[static_cast<std::size_t>(modes + from)];
            for (std::size_t f = 3; f < plane.size(); ++f)
              plane[f][to] = values[(f - 1) * static_cast<std::size_t>(modes) + static_cast<std::size_t>(from)];
          }
          n += kept[static_cast<std::size_t>(iy)];
        }
      }
      fill_left_out(part.box, part.x, iz, mine, plane);
      if (part.x.begin == 0 && part.x.count > 0 && iz == 0)
        for (std::size_t f = 0; f < plane.size(); ++f) plane[f][0] = static_cast<T>(h.mean[f]);
      planes.store(z);
    }
  });
}

#define WEFT_CHECKPOINT(T)                                                                                       \
  template std::string write_checkpoint<T>(CheckpointHeader, const SpectralFields<T>&, const CheckpointOptions&, \
                                           const mpi::Comm&);                                                    \
  template void Checkpoint::read<T>(const SpectralFields<T>&) const;
WEFT_CHECKPOINT(double)
WEFT_CHECKPOINT(float)
#undef WEFT_CHECKPOINT

}  // namespace weft::turbulence
