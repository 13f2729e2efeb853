// A field of modes that the ranks of a node share; each rank maps all of it. Transforms read and write it in place, so
// the exchange between two passes moves no data.
//
// It is the field between the passes in x and y of slabs (1 x P). On the side of x a rank accesses its rows in all
// planes, on the side of y its planes. The planes lie an odd number of cache lines apart, so that the values of a line
// along z do not compete for a few of the cache's sets. This class does not transform.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>

#include "weft/device/device.hpp"
#include "weft/fft/block.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::fft {

template <class T>
class NodeField {
 public:
  using Complex = std::complex<T>;
  enum class Side { rows, planes };

  // CollectiveError on all ranks unless the grid is 1 x P, all modes are kept, and all ranks are on one node whose
  // memory they can share. (collective)
  NodeField(const Decomposition& decomposition, std::shared_ptr<device::Device> device, const mpi::Comm& comm);
  ~NodeField();

  // This rank's rows, [nz][y over P][nx / 2 + 1], and its planes, [kz over P][ny][nx / 2 + 1].
  Piece<Complex> rows() const;
  Piece<Complex> planes() const;

  // The steps of a transform: begin() on the side that it writes first; pass() once that is written, after which the
  // other side may be read and written; end(). (collective)
  void begin(Side first, device::Stream& stream);
  void pass(device::Stream& stream);
  void end(device::Stream& stream);

  std::int64_t bytes() const;  // of this rank's part

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::fft
