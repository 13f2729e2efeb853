// The format of a checkpoint's files. docs/turbulence-files.md describes it.
//
// Each file has a header with a checksum (the run, and which blocks of modes the file holds); for each block a table of
// its planes of kz (size in bytes and checksum of each); and the planes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/files/bytes.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

inline constexpr files::Format checkpoint_format{
    {'w', 'e', 'f', 't', 't', 'u', 'r', 'b'}, 1, "a checkpoint of weft's turbulence"};

// The description of the run that wrote a checkpoint.
struct CheckpointHeader {
  Box box;
  Dealiasing dealiasing = Dealiasing::phase_shift;
  int value_bytes = 8;  // 4: single precision, 8: double
  int scalars = 0;
  std::int64_t number = 0;  // see files/checkpoint_folder.hpp
  std::int64_t step = 0;
  double time = 0;
  std::vector<double> mean;   // of the velocity and of the scalars
  std::vector<double> state;  // of the forcing, and whatever else the solver needs to continue as if it had not stopped
  std::string text;           // the case and the versions, for readers and for the report
};

// The modes written by one rank, and their position in the file.
struct CheckpointBlock {
  SpectralPart::Range x, z;
  std::int64_t table = 0;  // position of its table of PlaneEntry, one per plane
  std::int64_t data = 0;
  std::int64_t bytes = 0;  // total of all planes
};

struct PlaneEntry {
  std::int64_t bytes;
  std::uint64_t checksum;
};

// File number `index` of `files`.
struct CheckpointFile {
  CheckpointHeader header;
  int index = 0, files = 1;
  std::vector<CheckpointBlock> blocks;

  // Computes the positions of tables and planes from the blocks' sizes.
  void place();
  std::int64_t size() const;  // of the whole file
};

std::vector<std::byte> to_bytes(const CheckpointFile& file);
// std::runtime_error, beginning with `name`, if the bytes are not a checkpoint of this version and byte order, or are
// damaged.
CheckpointFile from_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace weft::turbulence
