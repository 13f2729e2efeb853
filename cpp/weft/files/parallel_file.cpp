#include "weft/files/parallel_file.hpp"

#include <algorithm>
#include <stdexcept>

#include "weft/mpi/error_text.hpp"

namespace weft::files {
namespace {

// Calls transfer(at, bytes, status) for pieces whose length fits into an int.
template <class Bytes, class Transfer>
void in_pieces(std::int64_t at, Bytes bytes, const std::string& name, const Transfer& transfer) {
  constexpr std::size_t most = std::size_t{1} << 30;
  for (std::size_t done = 0; done < bytes.size();) {
    const auto piece = bytes.subspan(done, std::min(most, bytes.size() - done));
    MPI_Status status;
    transfer(at + static_cast<std::int64_t>(done), piece, &status);
    int moved = 0;
    MPI_Get_count(&status, MPI_BYTE, &moved);
    if (moved != static_cast<int>(piece.size())) throw std::runtime_error(name + ": truncated, or the disk is full");
    done += piece.size();
  }
}

}  // namespace

ParallelFile::ParallelFile(MPI_Comm comm, const std::filesystem::path& path, int mode) : name_(path.string()) {
  check(MPI_File_open(comm, name_.c_str(), mode, MPI_INFO_NULL, &file_), "be opened");
}

ParallelFile::~ParallelFile() {
  if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
}

void ParallelFile::write(std::int64_t at, std::span<const std::byte> bytes) {
  in_pieces(at, bytes, name_, [&](std::int64_t offset, std::span<const std::byte> piece, MPI_Status* status) {
    check(MPI_File_write_at(file_, offset, piece.data(), static_cast<int>(piece.size()), MPI_BYTE, status),
          "be written");
  });
}

void ParallelFile::read(std::int64_t at, std::span<std::byte> bytes) {
  in_pieces(at, bytes, name_, [&](std::int64_t offset, std::span<std::byte> piece, MPI_Status* status) {
    check(MPI_File_read_at(file_, offset, piece.data(), static_cast<int>(piece.size()), MPI_BYTE, status), "be read");
  });
}

void ParallelFile::finish() {
  check(MPI_File_sync(file_), "be written");
  check(MPI_File_close(&file_), "be closed");
  file_ = MPI_FILE_NULL;
}

void ParallelFile::check(int code, const char* what) const {
  if (code == MPI_SUCCESS) return;
  throw std::runtime_error(name_ + ": cannot " + what + ": " + mpi::error_text(code));
}

}  // namespace weft::files
