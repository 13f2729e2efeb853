// Inner products of distributed vectors, several per all-reduce, for Krylov methods.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/device/vector.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::solver {

// Sums over the first `unknowns` entries on all ranks, in double precision and in an order that does not depend on
// threads.
template <class T>
class InnerProducts {
 public:
  // weights: [unknowns] in device memory; null: ones (assembled vectors). At most `most` products per call.
  InnerProducts(std::shared_ptr<device::Device> device, const mpi::Comm& comm, std::int64_t unknowns, const T* weights,
                int most);

  // Waits for the stream, once for all pairs. (collective)
  double operator()(const T* x, const T* y, device::Stream& stream);
  std::vector<double> operator()(std::span<const std::pair<const T*, const T*>> pairs, device::Stream& stream);
  // The sum of the entries, weighted like the products.
  double total(const T* x, device::Stream& stream);
  // r -= a y; returns |r|, in the same pass if there are no weights.
  double subtract(double a, const T* y, T* r, device::Stream& stream);
  // |x|; NaN and Inf are returned as they are.
  double norm(const T* x, device::Stream& stream);

 private:
  // Passed to kernels by value: must match Pairs in kernels/vector.hpp.
  struct Pairs {
    std::array<const T*, device::most_vectors> x, y;
  };

  // The first `count` sums, each of the partial sums of all blocks, over all ranks.
  std::vector<double> all_sums(std::size_t count, device::Stream& stream);

  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  long unknowns_;
  const T* weights_;
  std::int64_t blocks_;
  device::Array<double> partials_, sums_;
  device::Buffer host_;
  device::Kernel<long, int, Pairs, const T*, double*> dots_;
  device::Kernel<long, const double*, double*> sum_;
  device::Kernel<long, const T*, double*> total_;
  device::Kernel<long, T, const T*, T*, double*> subtract_;
  device::Kernel<long, T, const T*, T*> axpy_;
};

}  // namespace weft::solver
