#include "weft/fft/kept_choice.hpp"

#include <cstdint>

#include "weft/device/device.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/fft/library.hpp"

namespace weft::fft {
namespace {

const device::DiskCache& cache() {
  static const device::DiskCache kept("transforms", 2);
  return kept;
}

// The conditions that choices are valid for.
std::string everywhere() {
  const device::Info& processor = device::open("host")->info();
  std::string text =
      std::string("weft ") + WEFT_VERSION + "\nprocessor " + processor.name + " " + processor.architecture + "\n";
  for (int i = 0; i < host_libraries(); ++i) {
    const HostLibrary& library = host_library(i);
    text += "library " + library.name + " " + library.version + " " + library.path + "\n";
  }
  return text;
}

}  // namespace

bool choices_are_kept(const mpi::Comm& comm) {
  std::int64_t kept = device::cache_directory().empty() ? 0 : 1;
  mpi::check(MPI_Bcast(&kept, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  return kept == 1;
}

std::optional<std::string> kept_choice(const std::string& key, const mpi::Comm& comm) {
  std::string choice;
  std::int64_t length = -1;
  if (comm.rank() == 0) {
    if (const auto found = cache().read(everywhere() + key); found.value) {
      choice = *found.value;
      length = static_cast<std::int64_t>(choice.size());
    }
  }
  mpi::check(MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  if (length < 0) return std::nullopt;
  choice.resize(static_cast<std::size_t>(length));
  mpi::check(MPI_Bcast(choice.data(), static_cast<int>(length), MPI_CHAR, 0, comm.get()), "MPI_Bcast");
  return choice;
}

void keep_choice(const std::string& key, const std::string& choice, const mpi::Comm& comm) {
  if (comm.rank() == 0) cache().write(everywhere() + key, choice);
}

}  // namespace weft::fft
