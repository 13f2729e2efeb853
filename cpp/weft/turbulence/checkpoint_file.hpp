// The files of a checkpoint: two components of the velocity (third_component.hpp) and the scalars in Fourier space;
// only kept modes are stored.
//
// A checkpoint is a folder checkpoint-<step> with files part-<number>.bin, one per group of ranks. Every rank writes
// its own modes by MPI-IO, plane by plane. Any number of ranks, with any process grid, can read them in single or
// double precision, with either truncation (modes that were not kept are 0).
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/turbulence/checkpoint_format.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// The spectral fields of a rank: u, v, w and the scalars, each part.modes() values in memory of `device`.
template <class T>
struct SpectralFields {
  SpectralPart part;
  Truncation truncation;
  std::vector<std::complex<T>*> fields;
  std::shared_ptr<device::Device> device;
};

struct CheckpointOptions {
  std::string folder;      // where the checkpoint's folder is created
  int ranks_per_file = 0;  // 0: one file per node
  int turns = 1;           // groups of ranks that write in turn, to relieve the file system (the paper's relay)
  int keep = 2;            // number of checkpoints to keep; older ones are removed once the new one is complete
};

// Writes the checkpoint of header.step under a temporary name, renames it once it is complete, and returns its path.
// Sets the header's box, truncation, precision, scalars and mean. The omitted component is recomputed in `fields` too,
// so that a run that continues and one that restarts are identical. CollectiveError if a file cannot be written;
// earlier checkpoints are then kept. (collective)
template <class T>
std::string write_checkpoint(CheckpointHeader header, const SpectralFields<T>& fields, const CheckpointOptions& options,
                             const mpi::Comm& comm);

// A checkpoint on disk. `path` is its folder, a folder of several or that of a run, of which the newest is used.
class Checkpoint {
 public:
  // Reads the headers. CollectiveError, with the file's name and what to do, if files are missing, incomplete,
  // truncated or damaged. (collective)
  Checkpoint(const std::string& path, const mpi::Comm& comm);

  const std::string& path() const { return path_; }
  const CheckpointHeader& header() const { return files_.front().header; }
  std::int64_t bytes() const;  // of all files

  // Fills the fields. CollectiveError if the box or the number of scalars differs, or if the checksum of a plane is
  // wrong. (collective)
  template <class T>
  void read(const SpectralFields<T>& fields) const;

 private:
  std::string path_;
  mpi::Comm comm_;
  std::vector<CheckpointFile> files_;
};

}  // namespace weft::turbulence
