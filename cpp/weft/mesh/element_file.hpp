// The checkpoint file for fields on a mesh, stored as values at the points of every element. docs/flow-files.md
// describes the format byte by byte.
//
// The file consists of a header with a checksum, a table with one checksum per element, and one record per element, in
// the order of the global element numbers. Its content does not depend on the number of ranks that wrote it, and any
// number of ranks can read it. The caller decides which fields a restart needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/files/bytes.hpp"
#include "weft/files/checkpoint_folder.hpp"
#include "weft/mesh/digest.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::mesh {

// Options of a checkpoint of fields on elements.
struct CheckpointOptions {
  std::string folder;  // where the checkpoint's folder is created
  int keep = 2;        // number of checkpoints to keep; older ones are removed once the new one is complete
  std::string text;    // the case and the versions, for readers and for the report
};

struct ElementField {
  std::string name;
  int components = 1;
};

// The header of such a file: a description of the run that wrote it.
struct ElementFileHeader {
  int order = 1;            // polynomial order N of the elements
  int value_bytes = 8;      // 4: single precision, 8: double
  std::int64_t number = 0;  // see files/checkpoint_folder.hpp
  std::int64_t step = 0;
  double time = 0;
  Digest mesh;
  std::vector<ElementField> fields;                    // in the order in which a record holds them
  std::map<std::string, std::vector<double>> numbers;  // whatever else a run needs in order to continue, by name
  std::string text;                                    // the case and the versions, for readers and for the report

  int components() const;  // total over all fields
  std::int64_t record_bytes() const;
};

std::vector<std::byte> to_bytes(const ElementFileHeader& header, const files::Format& format);
// std::runtime_error, beginning with `name`, if the bytes are not such a header or are damaged.
ElementFileHeader from_bytes(std::span<const std::byte> bytes, const files::Format& format, const std::string& name);

// Writes the header's fields at the points of the header's order. `get` returns the values of a local element,
// [components of all fields][points]. Sets the header's precision and mesh. CollectiveError if the file cannot be
// written. (collective)
template <class T>
void write_element_file(const std::filesystem::path& path, const files::Format& format, ElementFileHeader header,
                        const Mesh& mesh, const std::function<void(std::int64_t element, T* values)>& get);

// A checkpoint on disk. `path` is its folder, a folder of several or that of a run, of which the newest is used.
class ElementFile {
 public:
  // Reads the header. CollectiveError, with the file's name and what to do, if the file is missing, truncated or
  // damaged. (collective)
  ElementFile(const std::string& path, const files::CheckpointKind& kind, const mpi::Comm& comm);

  const std::string& path() const { return path_; }  // of the folder
  const ElementFileHeader& header() const { return header_; }
  std::int64_t bytes() const { return header_bytes_ + header_.mesh.elements * (8 + header_.record_bytes()); }
  const ElementField* find(const std::string& name) const;  // null if the file has no such field
  // The numbers stored under `name`, at least `least` of them; CollectiveError if the header has fewer.
  const std::vector<double>& numbers(const std::string& name, std::size_t least) const;

  // Passes the values of every local element, [components of `fields`][points of `order`], to `set`; they are
  // interpolated within the element if the file has another order. CollectiveError if the file belongs to another mesh,
  // if a field is missing or has another number of components, or if the checksum of an element is wrong. (collective)
  template <class T>
  void read(const Mesh& mesh, int order, std::span<const ElementField> fields,
            const std::function<void(std::int64_t element, const T* values)>& set) const;

 private:
  std::string path_, file_;
  ElementFileHeader header_;
  std::int64_t header_bytes_ = 0;
};

}  // namespace weft::mesh
