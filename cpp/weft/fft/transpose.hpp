// One of the two exchanges between pencils: the bricks, their location in memory, and their transfer.
//
// A brick is the intersection of one rank's pencil with another's: [variable][z][y][x]. The brick of a rank for itself
// is not sent: the reading stage finds it where the writing stage put it.
//
// The two exchanges of a plan share one pair of buffers (GESTS, section 3.2). On the host a stage reads received bricks
// while it writes those to send next. So bricks are received in one buffer and sent from the other, and a rank's own
// brick goes to the first buffer in exchanges towards the middle, and to the second in those towards an end.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/exchange/ipc.hpp"
#include "weft/fft/block.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::fft {

// row: pencils along x (the end) and along z (the middle); column: along y (the end) and along z.
enum class Direction { row, column };
enum class Toward { middle, end };

// For `batch` variables each; allocated when first used or reserved.
template <class T>
class ExchangeBuffers {
 public:
  using Complex = std::complex<T>;
  ExchangeBuffers(std::shared_ptr<device::Device> device, std::int64_t values)
      : device_(std::move(device)), values_(values) {}
  std::int64_t values() const { return values_; }
  Complex* sent() { return allocated(sent_); }
  Complex* arrived() { return allocated(arrived_); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(sent_.bytes() + arrived_.bytes()); }

 private:
  Complex* allocated(device::Array<Complex>& array) {
    if (array.empty()) array = device::Array<Complex>(device_, static_cast<std::size_t>(values_));
    return array.data();
  }
  std::shared_ptr<device::Device> device_;
  std::int64_t values_;
  device::Array<Complex> sent_, arrived_;
};

template <class T>
class Transpose {
 public:
  using Complex = std::complex<T>;

  // `comm`: this rank's row or column. `batch`: maximum number of variables per exchange. The buffers must outlive this
  // object. CollectiveError on all ranks of `comm`. (collective)
  Transpose(const Decomposition& decomposition, Direction direction, int batch, const exchange::Asked& asked,
            std::shared_ptr<device::Device> device, const mpi::Comm& comm, ExchangeBuffers<T>& buffers);
  ~Transpose();

  // Whether path ipc was chosen and all ranks are on this rank's node (given by their numbers in the plan). Then bricks
  // can be read in place, from slots that both exchanges share and that the ranks of the plan have created.
  bool on_one_node(const std::vector<int>& node) const;
  void use(exchange::Ipc& slots);

  // Allocates the parts of the shared buffers that exchanges of `variables` need, so that later exchanges allocate
  // nothing.
  void reserve(int variables);

  bool trivial() const;  // one rank: both pencils are the same, and data are read where they were written
  const exchange::Choice& choice() const;
  std::int64_t largest_message(int variables) const;  // in bytes, on this rank
  std::int64_t own_bytes() const;                     // for its channels, in addition to the shared buffers (path ipc)

  // The pencils' boxes on the two sides.
  Box box(Toward side) const;

  // The sequence of calls: the previous stage writes outgoing(), variable by variable; carry(); the next stage reads
  // incoming(); drained(). One sequence per direction may be in progress.
  std::vector<Pieces<Complex>> outgoing(Toward toward, int variables, device::Stream& stream);
  void carry(Toward toward, int variables, device::Stream& stream);
  std::vector<Pieces<Complex>> incoming(Toward toward, int variables);
  void drained(Toward toward, int variables, device::Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::fft
