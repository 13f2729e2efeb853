// The checkpoint file of fields on a mesh, stored as values at the points of every element. docs/flow-files.md has the
// bytes.
//
// It consists of a header with a checksum, a table with one checksum per element, and one record per element, in the
// order of the global element numbers. Its content does not depend on the ranks that wrote it, and any number of ranks
// can read it. The caller decides which fields a restart needs.
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
  std::string folder;  // where the checkpoint's folder is made
  int keep = 2;        // number of checkpoints to keep; the oldest others are removed once the new one is complete
  std::string text;    // the case and the versions, for people and for the report
};

struct ElementField {
  std::string name;
  int components = 1;
};

// The description of the run that wrote such a file.
struct ElementFileHeader {
  int order = 1;            // N of the elements
  int value_bytes = 8;      // 4: single precision, 8: double
  std::int64_t number = 0;  // files/checkpoint_folder.hpp
  std::int64_t step = 0;
  double time = 0;
  Digest mesh;
  std::vector<ElementField> fields;                    // in the order of a record
  std::map<std::string, std::vector<double>> numbers;  // what else a run needs to go on, by name
  std::string text;                                    // the case and the versions, for people and for the report

  int components() const;  // of all fields
  std::int64_t record_bytes() const;
};

std::vector<std::byte> to_bytes(const ElementFileHeader& header, const files::Format& format);
// std::runtime_error that begins with `name` if it is not such a header, or is damaged.
ElementFileHeader from_bytes(std::span<const std::byte> bytes, const files::Format& format, const std::string& name);

// Writes the header's fields, of points of the header's order: `get` returns the values of a local element, [components
// of all fields][points]. Sets the header's precision and mesh. CollectiveError if the file cannot be written.
// (collective)
template <class T>
void write_element_file(const std::filesystem::path& path, const files::Format& format, ElementFileHeader header,
                        const Mesh& mesh, const std::function<void(std::int64_t element, T* values)>& get);

// A checkpoint on disk: `path` is its folder, or a folder of several, whose newest is used.
class ElementFile {
 public:
  // Reads the header. CollectiveError, with the file's name and what to do, if the file is missing, truncated or
  // damaged. (collective)
  ElementFile(const std::string& path, const files::CheckpointKind& kind, const mpi::Comm& comm);

  const std::string& path() const { return path_; }  // of the folder
  const ElementFileHeader& header() const { return header_; }
  std::int64_t bytes() const { return header_bytes_ + header_.mesh.elements * (8 + header_.record_bytes()); }
  const ElementField* find(const std::string& name) const;  // null where the file has no such field
  // At least `least` numbers of a name; CollectiveError if the header has fewer.
  const std::vector<double>& numbers(const std::string& name, std::size_t least) const;

  // Passes the values of every local element, [components of `fields`][points of `order`], to `set`, interpolated
  // within the element if the file has another order. CollectiveError for another mesh, a missing field or one with
  // another number of components, or an element whose checksum is wrong. (collective)
  template <class T>
  void read(const Mesh& mesh, int order, std::span<const ElementField> fields,
            const std::function<void(std::int64_t element, const T* values)>& set) const;

 private:
  std::string path_, file_;
  ElementFileHeader header_;
  std::int64_t header_bytes_ = 0;
};

}  // namespace weft::mesh
