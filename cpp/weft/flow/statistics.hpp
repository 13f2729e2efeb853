// Statistics of a flow: energy, enstrophy, dissipation, divergence, extrema, Courant number.
//
// Integrals are sums over the GLL points of the elements. They use the derivatives in each element (not averaged
// between elements): kernels/flow_measures.hpp. They are in double precision and do not depend on the number of ranks,
// up to rounding. Memory: the geometry of the elements (3 values per point if they are curved) and the index.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// Statistics of a field over the whole mesh.
struct FieldStatistics {
  double mean, mean_square, smallest, largest;
};

// Statistics of a velocity, means over the volume.
struct VelocityStatistics {
  double energy;              // <u . u> / 2
  double enstrophy;           // <omega . omega>
  double strain;              // <S : S> with S = (grad u + grad u^T) / 2; the dissipation is 2 nu times this
  double gradient;            // <grad u : grad u>
  double divergence;          // <(div u)^2>^(1/2)
  double largest_divergence;  // maximum of |div u| over the points
};

// T: float or double.
template <class T>
class Statistics {
 public:
  explicit Statistics(space::Space<T>& space);  // the space must outlive this object (collective)

  // Fields are vectors of the space with valid owned entries; their halo entries are filled. Blocking. u: [3][entries].
  // (collective)
  VelocityStatistics velocity(T* u, device::Stream& stream);
  // The maximum, over the points, of the sum over the directions of |u . grad r_a| divided by the spacing of the points
  // in r_a. Multiplied by dt it is the Courant number. The spacing is half the distance between a point's two
  // neighbours, or, at an end of the element, the distance to the only one, as in Nek5000 and Neko. (collective)
  double courant_rate(T* u, device::Stream& stream);
  // fields [count][entries]; only owned entries are read. (collective)
  std::vector<FieldStatistics> fields(const T* fields, int count, device::Stream& stream);

  std::int64_t bytes() const;

 private:
  // Passed to kernels by value: must match Metric of kernels/flow_measures.hpp.
  struct Metric {
    const T *maps, *nodes, *places, *transposed;
  };
  void fill_halo(T* fields, int count, device::Stream& stream);
  // Reduces out [elements][each] over all elements of all ranks: sums for the first `sums` values, maxima for the rest.
  std::vector<double> reduce(int each, int sums, device::Stream& stream);

  space::Space<T>& space_;
  device::Array<T> tables_, maps_, places_;  // tables: D, points and weights, inverse spacing
  device::Array<std::int32_t> index_;        // on the host, the index of the numbering is used instead
  const std::int32_t* points_;               // [E][n^3] entry of each point
  device::Array<double> out_;
  const T* inverse_spacing_;
  Metric metric_;
  device::Kernel<int, Metric, const std::int32_t*, const T*, long, double*> measures_;
  device::Kernel<int, Metric, const T*, const std::int32_t*, const T*, long, double*> courant_;
  device::Kernel<long, long, int, long, const T*, const T*, double*, long> extrema_;
};

}  // namespace weft::flow
