// One file that several ranks write or read at once.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace weft::files {

// Uses MPI-IO. Errors are std::runtime_error with the file's name. Transfers may have any length.
class ParallelFile {
 public:
  // `mode`: as for MPI_File_open. (collective over `comm`)
  ParallelFile(MPI_Comm comm, const std::filesystem::path& path, int mode);
  ~ParallelFile();
  ParallelFile(const ParallelFile&) = delete;
  ParallelFile& operator=(const ParallelFile&) = delete;

  void write(std::int64_t at, std::span<const std::byte> bytes);
  void read(std::int64_t at, std::span<std::byte> bytes);
  // Flushes the file to disk and closes it. (collective over the file's ranks)
  void finish();

 private:
  void check(int code, const char* what) const;

  std::string name_;
  MPI_File file_ = MPI_FILE_NULL;
};

}  // namespace weft::files
