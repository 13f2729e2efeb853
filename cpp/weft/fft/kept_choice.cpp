#include "weft/fft/kept_choice.hpp"

#include <cstdint>
#include <sstream>
#include <utility>

#include "weft/device/device.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/fft/library.hpp"

namespace weft::fft {
namespace {

const device::DiskCache& cache() {
  static const device::DiskCache kept("transforms", 3);
  return kept;
}

// The conditions for which choices are valid.
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

// Broadcasts the text of rank 0.
std::optional<std::string> of_first_rank(std::optional<std::string> text, const mpi::Comm& comm) {
  std::int64_t length = text ? static_cast<std::int64_t>(text->size()) : -1;
  mpi::check(MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  if (length < 0) return std::nullopt;
  text.emplace(comm.rank() == 0 ? std::move(*text) : std::string(static_cast<std::size_t>(length), ' '));
  mpi::check(MPI_Bcast(text->data(), static_cast<int>(length), MPI_CHAR, 0, comm.get()), "MPI_Bcast");
  return text;
}

// The form used in the file: "1.05 planes, fftw".
std::string written(const KeptChoice& choice) {
  std::ostringstream text;
  text << choice.spread << " " << choice.name;
  return text.str();
}
KeptChoice read(const std::string& text) {
  KeptChoice choice;
  std::istringstream words(text);
  words >> choice.spread >> std::ws;
  std::getline(words, choice.name);
  return choice;
}

}  // namespace

bool choices_are_kept(const mpi::Comm& comm) {
  std::int64_t kept = device::cache_directory().empty() ? 0 : 1;
  mpi::check(MPI_Bcast(&kept, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  return kept == 1;
}

std::optional<KeptChoice> kept_choice(const std::string& key, const mpi::Comm& comm) {
  std::optional<std::string> choice;
  if (comm.rank() == 0) choice = cache().read(everywhere() + key).value;
  choice = of_first_rank(choice, comm);
  return choice ? std::optional(read(*choice)) : std::nullopt;
}

KeptChoice keep_choice(const std::string& key, const KeptChoice& choice, const mpi::Comm& comm) {
  std::optional<std::string> stays = written(choice);
  if (comm.rank() == 0) stays = cache().keep(everywhere() + key, *stays);
  return read(*of_first_rank(stays, comm));
}

}  // namespace weft::fft
