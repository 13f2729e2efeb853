// heFFTe's real transform on FFTW, from slabs in z to slabs in y, so that one exchange suffices: heffte PREFIX N.
// Compiled with -DSINGLE for floats. Its exchanges are tried, with and without reordering, and the fastest is taken.
#include <heffte.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <vector>

#include "turns.h"

#ifdef SINGLE
using Real = float;
#else
using Real = double;
#endif
using Transform = heffte::fft3d_r2c<heffte::backend::fftw>;

namespace {

// Rank's share of n planes along `axis` of a box (heFFTe's order: axis 0 is the fastest).
heffte::box3d<> slab(std::array<int, 3> n, int axis, int rank, int ranks) {
  std::array<int, 3> low{0, 0, 0}, high{n[0] - 1, n[1] - 1, n[2] - 1};
  low[axis] = static_cast<int>(static_cast<long>(n[axis]) * rank / ranks);
  high[axis] = static_cast<int>(static_cast<long>(n[axis]) * (rank + 1) / ranks) - 1;
  return {low, high};
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int n = std::atoi(argv[2]);
  turns_open(argv[1]);
  {
    const auto in = slab({n, n, n}, 2, rank, ranks), out = slab({n / 2 + 1, n, n}, 1, rank, ranks);
    std::vector<Real> physical;
    std::vector<std::complex<Real>> spectral, work;
    std::unique_ptr<Transform> best;
    std::string name;
    double least = 1e300;
    const double begin = MPI_Wtime();
    const std::pair<const char*, heffte::reshape_algorithm> ways[] = {
        {"alltoall", heffte::reshape_algorithm::alltoall},
        {"alltoallv", heffte::reshape_algorithm::alltoallv},
        {"p2p", heffte::reshape_algorithm::p2p},
        {"p2p_plined", heffte::reshape_algorithm::p2p_plined}};
    for (const auto& [way, algorithm] : ways) {
      for (const bool reorder : {true, false}) {
        heffte::plan_options options = heffte::default_options<heffte::backend::fftw>();
        options.algorithm = algorithm;
        options.use_reorder = reorder;
        options.use_pencils = false;
        auto plan = std::make_unique<Transform>(in, out, 0, MPI_COMM_WORLD, options);
        physical.assign(plan->size_inbox(), Real(0));
        spectral.assign(plan->size_outbox(), Real(0));
        work.assign(plan->size_workspace(), Real(0));
        double seconds = 1e300;
        for (int i = 0; i < 2; ++i) {  // the first one plans
          const double start = turns_begin();
          plan->forward(physical.data(), spectral.data(), work.data());
          plan->backward(spectral.data(), physical.data(), work.data());
          seconds = std::min(seconds, MPI_Wtime() - start);
        }
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (seconds < least) {
          least = seconds;
          best = std::move(plan);
          name = std::string("slabs, ") + way + (reorder ? ", reorder" : "");
        }
      }
    }
    const double setup = MPI_Wtime() - begin;
    physical.assign(best->size_inbox(), Real(0));
    spectral.assign(best->size_outbox(), Real(0));
    work.assign(best->size_workspace(), Real(0));
    const auto field = [&](std::size_t i) {
      const long x = static_cast<long>(i) % n, y = static_cast<long>(i) / n % n, z = static_cast<long>(i) / n / n;
      return static_cast<Real>(turns_field(x, y, z + in.low[2]));
    };
    for (std::size_t i = 0; i < physical.size(); ++i) physical[i] = field(i);
    best->forward(physical.data(), spectral.data(), work.data());
    best->backward(spectral.data(), physical.data(), work.data());
    double error = 0;
    const double points = static_cast<double>(n) * n * n;
    for (std::size_t i = 0; i < physical.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(physical[i]) / points - static_cast<double>(field(i))));
    const std::string version = "heFFTe " + std::to_string(Heffte_VERSION_MAJOR) + "." +
                                std::to_string(Heffte_VERSION_MINOR) + "." + std::to_string(Heffte_VERSION_PATCH);
    turns_ready(setup, error, (version + ", " + name).c_str());
    for (int pairs; (pairs = turns_next()) > 0;) {
      std::fill(physical.begin(), physical.end(), Real(0));  // no pair divides by n^3
      const double start = turns_begin();
      for (int i = 0; i < pairs; ++i) {
        best->forward(physical.data(), spectral.data(), work.data());
        best->backward(spectral.data(), physical.data(), work.data());
      }
      turns_end(start, pairs);
    }
  }
  MPI_Finalize();
  return 0;
}
