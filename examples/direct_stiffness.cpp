// Direct-stiffness summation with weft in C++: the dimension-by-dimension Laplacian of a periodic row of spectral
// elements, applied matrix-free and assembled by a gather-scatter that hides its messages behind local work.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numbers>
#include <vector>

#include "weft/weft.hpp"

namespace ex = weft::exchange;

int main() {
  const weft::mpi::Comm comm;  // MPI_COMM_WORLD; initialises MPI
  constexpr int elements = 12, side = 5;
  constexpr double x[side] = {-1, -0.654653670707977144, 0, 0.654653670707977144, 1};
  constexpr double w[side] = {0.1, 49. / 90, 32. / 45, 49. / 90, 0.1};

  // Derivatives of the Lagrange polynomials through the points.
  double d[side][side] = {};
  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      for (int m = 0; m < side; ++m) {
        if (m == j) continue;
        double product = 1 / (x[j] - x[m]);
        for (int l = 0; l < side; ++l) {
          if (l != j && l != m) product *= (x[i] - x[l]) / (x[j] - x[l]);
        }
        d[i][j] += product;
      }
    }
  }

  const int first = elements * comm.rank() / comm.size(), last = elements * (comm.rank() + 1) / comm.size();
  std::vector<std::int64_t> ids;
  std::vector<double> u, at;
  const double h = 2 * std::numbers::pi / elements;
  for (int e = first; e < last; ++e) {
    for (int i = 0; i < side; ++i) {
      ids.push_back(1 + (e * (side - 1) + i) % (elements * (side - 1)));
      at.push_back(h * (e + (x[i] + 1) / 2));
      u.push_back(std::sin(at.back()));
    }
  }

  const auto host = weft::device::open("host");
  weft::device::Stream stream(host);
  // two fields per point: the stiffness matrix applied to u, and the mass matrix
  ex::GatherScatter<double> gs(ids, comm, host, "auto", 2);
  std::vector<double> fields(2 * ids.size(), 0.0);
  for (std::size_t e = 0; e < ids.size() / side; ++e) {
    for (int q = 0; q < side; ++q) {
      double slope = 0;
      for (int j = 0; j < side; ++j) slope += d[q][j] * u[e * side + static_cast<std::size_t>(j)];
      for (int i = 0; i < side; ++i) {
        fields[2 * (e * side + static_cast<std::size_t>(i))] += d[q][i] * w[q] * slope * 2 / h;
      }
      fields[2 * (e * side + static_cast<std::size_t>(q)) + 1] = w[q] * h / 2;
    }
  }
  gs.start(fields.data(), ex::Op::add, stream);
  // … work that does not touch `fields` …
  gs.finish(stream);

  double worst = 0;  // -u'' = sin: the assembled stiffness over the assembled mass
  for (std::size_t p = 0; p < ids.size(); ++p) {
    worst = std::max(worst, std::abs(fields[2 * p] / fields[2 * p + 1] - std::sin(at[p])));
  }
  worst = comm.max(worst);
  const bool right = worst < 2e-3;  // the accuracy of order 4 on 12 elements
  if (comm.rank() == 0) {
    std::printf("%d elements on %d rank(s), %s: -u'' of sin is off by %.2g, %s\n", elements, comm.size(),
                ex::name(gs.tuning().chosen).c_str(), worst, right ? "right" : "WRONG");
  }
  return right ? 0 : 1;
}
