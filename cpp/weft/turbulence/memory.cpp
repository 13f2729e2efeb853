#include "weft/turbulence/memory.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include "weft/device/in_gib.hpp"
#include "weft/fft/gpu_stages.hpp"
#include "weft/mpi/free_memory.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

std::int64_t predicted_bytes(const Options& options, int ranks, int bytes_of_real) {
  const auto scalars = static_cast<std::int64_t>(options.scalars.size());
  const Truncation truncation(options.box, options.dealiasing);
  const std::int64_t modes = truncation.modes_x() * options.box.sizes[1] * options.box.sizes[2] / ranks;
  const std::int64_t variables = 5 + 3 * scalars;  // of the widest stage
  std::int64_t fields = 3 + scalars;
  if (options.scheme == Scheme::rk4) fields += 3 + scalars;
  for (const ScalarOptions& scalar : options.scalars)
    if (scalar.gradient != std::array<double, 3>{}) ++fields;
  std::int64_t between_stages = variables;
  if (ranks > 1) between_stages += 2 * options.batch.value_or(1);
  if (!options.device || options.device->is_host()) return (fields + between_stages) * modes * 2 * bytes_of_real;
  // On a GPU the passes hold all variables of a stage. Shares of ranks differ; the first rank's are the largest.
  const auto& n = options.box.sizes;
  const bool given = options.grid && options.grid->size() == ranks;
  const fft::Decomposition first({n[0], n[1], n[2]}, truncation.modes_x(), given ? *options.grid : fft::Grid{1, ranks},
                                 0);
  const fft::Held held{static_cast<int>(variables), static_cast<int>(variables)};
  const std::int64_t stages = bytes_of_real == sizeof(float)
                                  ? fft::GpuStages<float>::predicted_bytes(first, held, options.device)
                                  : fft::GpuStages<double>::predicted_bytes(first, held, options.device);
  return (fields * first.spectral().size() + between_stages * first.field_values()) * 2 * bytes_of_real + stages;
}

void check_memory(const Options& options, const mpi::Comm& comm, int bytes_of_real) {
  const std::int64_t free = mpi::free_bytes_per_rank(*options.device, comm);
  comm.together([&] {
    const std::int64_t bytes = predicted_bytes(options, comm.size(), bytes_of_real);
    if (bytes <= free) return;
    const auto& n = options.box.sizes;
    throw std::invalid_argument("turbulence: " + std::to_string(n[0]) + " x " + std::to_string(n[1]) + " x " +
                                std::to_string(n[2]) + " points need " + device::in_gib(bytes) + " on each of " +
                                std::to_string(comm.size()) +
                                " ranks (GESTS, Eq. 9, and what the transforms hold), but " + device::in_gib(free) +
                                " are free for each; take fewer points or more ranks");
  });
}

}  // namespace weft::turbulence
