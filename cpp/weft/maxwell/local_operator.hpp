// The portable kernels of Maxwell's equations for a rank's elements, on any device (kernels/maxwell.hpp).
//
// The exchange across faces is in Operator.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "weft/device/device.hpp"
#include "weft/exchange/layout.hpp"
#include "weft/maxwell/geometry.hpp"
#include "weft/maxwell/options.hpp"

namespace weft::maxwell {

// How the materials of an element and its neighbours enter the fluxes and the volume terms (kernels/maxwell.hpp).
struct Coefficients {
  std::vector<double> media;   // [E][4]: 1 / eps, 1 / mu, sigma / eps, 0
  std::vector<double> fluxes;  // [E][6][4]
};

// T: float or double. Fields and residuals: [element][6][k][j][i], Ex Ey Ez Hx Hy Hz. Traces: [element][6][b][a]
// entries with six components, in the layout trace_layout.
template <class T>
class LocalOperator {
 public:
  // std::invalid_argument for thread blocks of points above order 7 on a GPU.
  LocalOperator(const Geometry& geometry, const Coefficients& coefficients, int order, Threads threads,
                std::shared_ptr<device::Device> device);

  // Computes the traces -n x H, -n x E.
  void traces(const T* fields, exchange::View<T> traces, device::Stream& stream) const;
  // residual <- a residual + dt (volume terms).
  void curl(T a, T dt, const T* fields, T* residual, device::Stream& stream) const;
  // residual += dt (lift of summed traces), and fields += b residual unless fields are null.
  void update(T dt, T b, exchange::View<const T> traces, T* fields, T* residual, device::Stream& stream) const;
  // On this rank: the integrals of eps E . E / 2 and mu H . H / 2 by quadrature.
  std::pair<double, double> energy(const T* fields, device::Stream& stream) const;

  device::KernelResources resources() const {
    return threads_ == Threads::points ? curl_points_.resources() : curl_columns_.resources();
  }
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  std::int64_t elements_;
  std::int64_t points_;  // per element
  std::int64_t face_;    // per face
  int tile_ = 1;
  device::Shape shape_;
  std::shared_ptr<device::Device> device_;
  // Passed by value to maxwell_curl_columns: must match Matrix of kernels/maxwell.hpp.
  struct Matrix {
    T d[256];
  };
  Threads threads_;
  Matrix matrix_{};
  device::Array<T> derivative_, weights_, jacobian_, faces_, media_, fluxes_;
  mutable device::Array<double> partials_;
  device::Kernel<long, const T*, const T*, T*, long, long> traces_;
  device::Kernel<int, const T*, const T*, const T*, T, T, const T*, T*> curl_points_;
  device::Kernel<int, Matrix, const T*, const T*, T, T, const T*, T*> curl_columns_;  // one of the two is set
  device::Kernel<long, const T*, const T*, const T*, long, long, T, T, T*, T*> update_;
  device::Kernel<long, const T*, const T*, const T*, const T*, double*> energy_;
};

// On a GPU, neighbouring threads handle neighbouring points; on the host, one thread handles all components of a point.
exchange::Layout trace_layout(const device::Device& device);

// The choice made by Threads::automatic on a GPU, and the number of elements per block of that curl kernel.
Threads threads_for(int order);
int elements_per_block(int order, Threads threads, int scalar_bytes);

}  // namespace weft::maxwell
