#include "weft/turbulence/real_plane.hpp"

#include <algorithm>

#include "weft/trace/recorder.hpp"

namespace weft::turbulence {
namespace {

constexpr int mode_threads = 256;  // must match kernels/turbulence.hpp
std::int64_t mode_blocks(std::int64_t n) { return (n + mode_threads - 1) / mode_threads; }

std::vector<std::int64_t> plane_places(const SpectralPart& part) {
  std::vector<std::int64_t> places;
  if (part.x.begin == 0 && part.x.count > 0)
    for (std::int64_t row = 0; row < part.rows(); ++row) places.push_back(row * part.x.count);
  return places;
}

}  // namespace

template <class T>
ModeList<T>::ModeList(std::shared_ptr<device::Device> device, const std::vector<std::int64_t>& places, int fields)
    : fields_(fields),
      places_(device, std::span<const std::int64_t>(places)),
      values_(device, places.size() * static_cast<std::size_t>(fields)),
      gather_(device->kernel<T>("turbulence", "gather_modes")),
      scatter_(device->kernel<T>("turbulence", "scatter_modes")) {}

template <class T>
std::vector<std::complex<T>> ModeList<T>::gather(const Complex* fields, std::int64_t stride, device::Stream& stream) {
  if (values_.empty()) return {};
  gather_(stream, mode_blocks(size()), {mode_threads}, size(), fields_, places_.data(), fields, stride, values_.data());
  stream.synchronize();
  return values_.download();
}

template <class T>
void ModeList<T>::scatter(const std::vector<Complex>& values, Complex* fields, std::int64_t stride,
                          device::Stream& stream) {
  if (values.empty()) return;
  stream.synchronize();
  values_.upload(values);
  scatter_(stream, mode_blocks(size()), {mode_threads}, size(), fields_, places_.data(), values_.data(), fields,
           stride);
}

template <class T>
RealPlane<T>::RealPlane(const SpectralPart& part, const fft::Decomposition& decomposition, const mpi::Comm& column,
                        const std::shared_ptr<device::Device>& device)
    : part_(part), column_(column), modes_(device, plane_places(part), 1) {
  const int ranks = decomposition.grid().columns;
  const std::int64_t nz = part.box.sizes[2];
  const auto mirror = [nz](std::int64_t z) { return (nz - z) % nz; };
  arrival_.resize(part.z.count);
  counts_.assign(ranks, 0);
  displacements_.assign(ranks, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const fft::Share theirs = fft::share(nz, ranks, rank);
    displacements_[rank] = static_cast<int>(send_order_.size());
    // In the order of the receiver's planes, which are the mirror images of this rank's.
    for (std::int64_t z = theirs.first; z < theirs.end(); ++z) {
      const std::int64_t mine = mirror(z) - part.z.begin;
      if (mine >= 0 && mine < part.z.count) send_order_.push_back(mine);
    }
    counts_[rank] = static_cast<int>(send_order_.size()) - displacements_[rank];
    // As many come back: those planes of this rank whose mirror images the other has, in this rank's order.
    std::int64_t place = displacements_[rank];
    for (std::int64_t z = 0; z < part.z.count; ++z) {
      const std::int64_t other = mirror(part.z.begin + z);
      if (other >= theirs.first && other < theirs.end()) arrival_[z] = place++;
    }
  }
}

template <class T>
void RealPlane<T>::clean(Complex* fields, int count, device::Stream& stream) {
  if (modes_.size() == 0 && part_.x.begin > 0) return;
  if (part_.x.count == 0) return;
  const std::int64_t ny = part_.box.sizes[1], stride = part_.modes();
  for (int f = 0; f < count; ++f) {
    std::vector<Complex> own = modes_.gather(fields + f * stride, stride, stream);
    std::vector<Complex> sent(own.size()), arrived(own.size());
    for (std::size_t i = 0; i < send_order_.size(); ++i)
      std::copy_n(own.begin() + send_order_[i] * ny, ny, sent.begin() + static_cast<std::int64_t>(i) * ny);
    if (column_.size() == 1) {
      arrived.swap(sent);
    } else {
      const trace::Span span("plane kx = 0", trace::Category::mpi);
      MPI_Datatype line;  // for one kz
      mpi::check(MPI_Type_contiguous(static_cast<int>(ny * sizeof(Complex)), MPI_BYTE, &line), "MPI_Type_contiguous");
      mpi::check(MPI_Type_commit(&line), "MPI_Type_commit");
      mpi::check(MPI_Alltoallv(sent.data(), counts_.data(), displacements_.data(), line, arrived.data(), counts_.data(),
                               displacements_.data(), line, column_.get()),
                 "MPI_Alltoallv");
      mpi::check(MPI_Type_free(&line), "MPI_Type_free");
    }
    for (std::int64_t z = 0; z < part_.z.count; ++z) {
      const Complex* mirrored = arrived.data() + arrival_[z] * ny;
      for (std::int64_t y = 0; y < ny; ++y) {
        Complex& value = own[z * ny + y];
        value = (value + std::conj(mirrored[(ny - y) % ny])) * T(0.5);
      }
    }
    modes_.scatter(own, fields + f * stride, stride, stream);
  }
}

template class ModeList<double>;
template class ModeList<float>;
template class RealPlane<double>;
template class RealPlane<float>;

}  // namespace weft::turbulence
