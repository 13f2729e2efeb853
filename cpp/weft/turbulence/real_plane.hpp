// Copies of some modes between device and host; and the plane kx = 0, in which the modes k and -k of a real field are
// conjugates.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// Modes at given positions of `fields` fields, which are `stride` apart. Values are [field][mode].
template <class T>
class ModeList {
 public:
  using Complex = std::complex<T>;
  ModeList() = default;
  ModeList(std::shared_ptr<device::Device> device, const std::vector<std::int64_t>& places, int fields);

  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  std::vector<Complex> gather(const Complex* fields, std::int64_t stride, device::Stream& stream);
  void scatter(const std::vector<Complex>& values, Complex* fields, std::int64_t stride, device::Stream& stream);

 private:
  int fields_ = 0;
  device::Array<std::int64_t> places_;
  device::Array<Complex> values_;
  device::Kernel<long, int, const std::int64_t*, const Complex*, long, Complex*> gather_;
  device::Kernel<long, int, const std::int64_t*, const Complex*, Complex*, long> scatter_;
};

template <class T>
class RealPlane {
 public:
  using Complex = std::complex<T>;
  // `column`: the ranks that share each kx.
  RealPlane(const SpectralPart& part, const fft::Decomposition& decomposition, const mpi::Comm& column,
            const std::shared_ptr<device::Device>& device);

  // Replaces every mode of the plane by the mean of itself and the conjugate of the mode at -k. (collective)
  void clean(Complex* fields, int count, device::Stream& stream);

 private:
  SpectralPart part_;
  mpi::Comm column_;
  std::vector<int> counts_, displacements_;  // values to send to each rank of the column, and to receive
  std::vector<std::int64_t> send_order_;     // planes of kz in sending order
  std::vector<std::int64_t> arrival_;        // by plane: which of the arriving planes is its mirror image
  ModeList<T> modes_;
};

}  // namespace weft::turbulence
