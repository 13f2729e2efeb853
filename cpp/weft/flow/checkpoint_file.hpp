// The file of a flow's checkpoint: vectors by the values at the points of every element. docs/flow-files.md has the
// bytes.
//
// A header with a checksum, a table of one checksum an element, and one record an element, in the order of the
// elements' global numbers: what is in the file does not depend on the ranks that wrote it, and any number of ranks
// reads it. Which vectors a flow needs to go on is not known here (checkpoint.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/files/bytes.hpp"
#include "weft/files/checkpoint_folder.hpp"
#include "weft/mesh/digest.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

inline constexpr files::Format checkpoint_format{
    {'w', 'e', 'f', 't', 'f', 'l', 'o', 'w'}, 1, "a checkpoint of weft's flow"};
inline const files::CheckpointKind checkpoint_kind{checkpoint_format, "flow.bin"};

struct CheckpointField {
  std::string name;
  int components = 1;
};

// What a checkpoint says of the run that wrote it.
struct CheckpointHeader {
  int order = 1;            // N of the elements
  int value_bytes = 8;      // 4: single precision, 8: double
  std::int64_t number = 0;  // files/checkpoint_folder.hpp
  std::int64_t step = 0;
  double time = 0;
  mesh::Digest mesh;
  std::vector<CheckpointField> fields;                 // in the order of a record
  std::map<std::string, std::vector<double>> numbers;  // what else a run needs to go on, by name
  std::string text;                                    // the case and the versions, for people and for the report

  int components() const;  // of all fields
  std::int64_t record_bytes() const;
};

std::vector<std::byte> to_bytes(const CheckpointHeader& header);
// std::runtime_error that begins with `name` for what is no such header, or is damaged.
CheckpointHeader from_bytes(std::span<const std::byte> bytes, const std::string& name);

// A vector field in memory of the space's device, [components][entries].
template <class T>
struct NamedVectors {
  std::string name;
  int components = 1;
  T* data = nullptr;
};

// Writes `fields`, whose halo entries get filled; the header's order, precision, mesh and fields are filled in here.
// CollectiveError where the file cannot be written. (collective)
template <class T>
void write_checkpoint_file(const std::filesystem::path& path, CheckpointHeader header, space::Space<T>& space,
                           std::span<const NamedVectors<T>> fields);

// A checkpoint on disk: `path` is its folder, or a folder of several, of which the newest is taken.
class CheckpointFile {
 public:
  // Reads the header. CollectiveError, naming the file and what to do, for what is absent, truncated or damaged.
  // (collective)
  CheckpointFile(const std::string& path, const mpi::Comm& comm);

  const std::string& path() const { return path_; }  // of the folder
  const CheckpointHeader& header() const { return header_; }
  std::int64_t bytes() const { return header_bytes_ + header_.mesh.elements * (8 + header_.record_bytes()); }
  const CheckpointField* find(const std::string& name) const;  // null where the file has no such field

  // Fills the vectors named, halo entries too; of another order by interpolation in each element. CollectiveError for
  // another mesh, for a field the file does not have or of another number of components, and for an element whose
  // checksum is wrong. (collective)
  template <class T>
  void read(space::Space<T>& space, std::span<const NamedVectors<T>> fields) const;

 private:
  std::string path_, file_;
  CheckpointHeader header_;
  std::int64_t header_bytes_ = 0;
};

}  // namespace weft::flow
