// Where tests write files.
#pragma once

#include <mpi.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "weft/mpi/comm.hpp"

namespace weft {

// A temporary folder that all ranks know, removed at the end. (collective)
class Folder {
 public:
  explicit Folder(const mpi::Comm& comm) : comm_(comm) {
    std::array<char, 256> name{};
    if (comm.rank() == 0) {
      const std::string pattern = (std::filesystem::temp_directory_path() / "weft-XXXXXX").string();
      pattern.copy(name.data(), name.size() - 1);
      if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder like " + pattern + " can be made");
    }
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, comm.get());
    path = name.data();
  }
  ~Folder() {
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove_all(path);
  }
  std::string path;

 private:
  const mpi::Comm& comm_;
};

}  // namespace weft
