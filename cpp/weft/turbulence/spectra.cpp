#include "weft/turbulence/spectra.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "weft/fft/shares.hpp"
#include "weft/trace/recorder.hpp"
#include "weft/turbulence/host_planes.hpp"

namespace weft::turbulence {

double shell_width(const Box& box) { return std::min({box.unit(0), box.unit(1), box.unit(2)}); }

std::int64_t shell_count(const Truncation& truncation, const Box& box) {
  // No kept mode lies beyond the corner of the box that contains them all.
  double square = 0;
  for (int axis = 0; axis < 3; ++axis) {
    std::array<std::int64_t, 3> n{};
    while (n[static_cast<std::size_t>(axis)] <= box.sizes[static_cast<std::size_t>(axis)] / 2 &&
           truncation.keeps(n[0], n[1], n[2]))
      ++n[static_cast<std::size_t>(axis)];
    const double k = box.unit(axis) * static_cast<double>(n[static_cast<std::size_t>(axis)]);
    square += k * k;
  }
  return static_cast<std::int64_t>(std::sqrt(square) / shell_width(box) + 0.5) + 1;
}

namespace {

constexpr std::size_t total_count = 9;
std::size_t columns_with(std::size_t scalars) { return 3 + 2 * scalars; }

// Adds the sums of spectra() over the kept modes of one plane, [shell][column] and then totals, and raises `divergence`
// to the largest |k . u|^2.
template <class T>
void add_plane(const State<T>& state, const std::vector<std::int32_t>& kept, std::int64_t z,
               const std::vector<std::complex<T>*>& plane, double width, std::vector<double>& sums,
               double& divergence) {
  const SpectralPart& part = state.part;
  const Box& box = part.box;
  const std::size_t scalars = state.scalars.size(), columns = columns_with(scalars);
  double* const total = sums.data() + sums.size() - total_count;
  for (std::int64_t y = 0; y < box.sizes[1]; ++y) {
    const std::int64_t row = z * box.sizes[1] + y;
    const double ky = box.unit(1) * static_cast<double>(part.ny(row));
    const double kz = box.unit(2) * static_cast<double>(part.nz(row));
    for (std::int64_t i = 0; i < kept[static_cast<std::size_t>(row)]; ++i) {
      const std::int64_t at = y * part.x.count + i, nx = part.x.begin + i;
      const double kx = box.unit(0) * static_cast<double>(nx), weight = nx == 0 ? 1 : 2;
      const double k2 = kx * kx + ky * ky + kz * kz, k = std::sqrt(k2);
      double* shell = sums.data() + columns * static_cast<std::size_t>(k / width + 0.5);
      const std::complex<double> u(plane[0][at]), v(plane[1][at]), w(plane[2][at]);
      const double uu = weight * std::norm(u), vv = weight * std::norm(v), ww = weight * std::norm(w);
      const double square = uu + vv + ww;
      shell[0] += weight;
      shell[1] += 0.5 * square;
      shell[2] += state.viscosity * k2 * square;
      total[0] += uu;
      total[1] += vv;
      total[2] += ww;
      total[3] += kx * kx * uu;
      total[4] += ky * ky * vv;
      total[5] += kz * kz * ww;
      total[6] += k2 * square;
      if (k2 > 0) total[7] += 0.5 * square / k;
      // u* . (i k x u)
      const std::complex<double> ox = ky * w - kz * v, oy = kz * u - kx * w, oz = kx * v - ky * u;
      total[8] -= weight * (std::conj(u) * ox + std::conj(v) * oy + std::conj(w) * oz).imag();
      divergence = std::max(divergence, std::norm(kx * u + ky * v + kz * w));
      for (std::size_t f = 0; f < scalars; ++f) {
        const double variance = weight * std::norm(std::complex<double>(plane[3 + f][at]));
        shell[3 + 2 * f] += variance;
        shell[4 + 2 * f] += 2 * state.viscosity / (*state.scalar_options)[f].schmidt * k2 * variance;
      }
    }
  }
}

}  // namespace

template <class T>
Spectra spectra(const State<T>& state) {
  const trace::Span span("spectra", trace::Category::cpu);
  const SpectralPart& part = state.part;
  const Box& box = part.box;
  const std::vector<std::int32_t> kept = kept_modes(part, *state.truncation);
  std::vector<std::complex<T>*> fields = state.velocity;
  fields.insert(fields.end(), state.scalars.begin(), state.scalars.end());
  const std::size_t scalars = state.scalars.size();
  state.stream.synchronize();
  HostPlanes<T> planes(state.plan.device(), fields, box.sizes[1] * part.x.count);

  Spectra s;
  s.width = shell_width(box);
  s.kmax = state.truncation->largest_wavenumber();
  const auto shells = static_cast<std::size_t>(shell_count(*state.truncation, box));
  // All sums are in one array, for one message: for each shell modes, energy, dissipation and two per scalar; then
  // totals.
  const std::size_t columns = columns_with(scalars), totals = columns * shells;
  // One set of planes per thread; on a GPU their copies share memory.
  const int threads = state.plan.device()->is_host() ? omp_get_max_threads() : 1;
  std::vector<std::vector<double>> sums_of(static_cast<std::size_t>(threads),
                                           std::vector<double>(totals + total_count, 0.0));
  std::vector<double> divergence_of(static_cast<std::size_t>(threads), 0.0);
  const auto cost = [&](std::int64_t z) {
    const auto* const rows = kept.data() + z * box.sizes[1];
    return std::accumulate(rows, rows + box.sizes[1], std::int64_t{0});
  };
  fft::in_shares(fft::shares(part.z.count, threads, 1, cost), [&](int thread, std::int64_t begin, std::int64_t end) {
    for (std::int64_t z = begin; z < end; ++z)
      add_plane(state, kept, z, planes.load(z), s.width, sums_of[static_cast<std::size_t>(thread)],
                divergence_of[static_cast<std::size_t>(thread)]);
  });
  std::vector<double>& sums = sums_of[0];
  for (std::size_t t = 1; t < sums_of.size(); ++t) std::ranges::transform(sums, sums_of[t], sums.begin(), std::plus());
  double divergence = std::ranges::max(divergence_of);
  const mpi::Comm& comm = state.plan.comm();
  comm.sum(sums.data(), static_cast<int>(sums.size()));
  divergence = comm.max(divergence);

  const auto column = [&](std::size_t c) {
    std::vector<double> values(shells);
    for (std::size_t m = 0; m < shells; ++m) values[m] = sums[m * columns + c];
    return values;
  };
  s.modes = column(0);
  s.energy = column(1);
  s.dissipation = column(2);
  for (std::size_t f = 0; f < scalars; ++f) {
    s.scalar_variance.push_back(column(3 + 2 * f));
    s.scalar_dissipation.push_back(column(4 + 2 * f));
  }
  const double* total = sums.data() + totals;
  std::copy_n(total, 3, s.square.begin());
  std::copy_n(total + 3, 3, s.gradient_square.begin());
  s.enstrophy = total[6];
  s.energy_over_wavenumber = total[7];
  s.helicity = total[8];
  s.divergence = s.enstrophy > 0 ? std::sqrt(divergence / s.enstrophy) : 0;
  return s;
}

template Spectra spectra(const State<double>&);
template Spectra spectra(const State<float>&);

}  // namespace weft::turbulence
