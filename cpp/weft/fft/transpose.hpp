// One of the two exchanges between pencils: which bricks go to whom, where they lie, and their way there.
//
// A rank's brick for another is what its pencil has of the other's: [variable][z][y][x]. The brick for itself is not
// sent: the stage that reads finds it where the stage that wrote put it.
//
// The two exchanges of a plan share one pair of buffers (GESTS, section 3.2). On the host a stage reads what arrived
// while it writes what is sent next; so that neither destroys the other, bricks arrive in one buffer and are sent from
// the other, and the own brick of an exchange toward the middle is written to the one, toward an end to the other.
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

// `batch` variables each, allocated when first used.
template <class T>
class ExchangeBuffers {
 public:
  using Complex = std::complex<T>;
  ExchangeBuffers(std::shared_ptr<device::Device> device, std::int64_t values)
      : device_(std::move(device)), values_(values) {}
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

  // `comm`: this rank's row or column. `batch`: most variables of an exchange. The buffers outlive it. CollectiveError
  // on all ranks of `comm`. (collective)
  Transpose(const Decomposition& decomposition, Direction direction, int batch, const exchange::Asked& asked,
            std::shared_ptr<device::Device> device, const mpi::Comm& comm, ExchangeBuffers<T>& buffers);
  ~Transpose();

  // Whether path ipc was chosen and all ranks are among those of this rank's node, in the plan's numbers. Then bricks
  // can be read where they lie, in slots that both exchanges share, which the ranks of the plan made.
  bool on_one_node(const std::vector<int>& node) const;
  void use(exchange::Ipc& slots);

  bool trivial() const;  // one rank: both pencils are one, and what is written is what is read
  const exchange::Choice& choice() const;
  std::int64_t largest_message(int variables) const;  // bytes, of this rank
  std::int64_t own_bytes() const;                     // of its channels, beside the shared buffers (path ipc)

  // The pencils' boxes on the two sides.
  Box box(Toward side) const;

  // A cycle: the stage before writes outgoing(), variable by variable; carry(); the stage after reads incoming();
  // drained(). One of each direction may be under way.
  std::vector<Pieces<Complex>> outgoing(Toward toward, int variables, device::Stream& stream);
  void carry(Toward toward, int variables, device::Stream& stream);
  std::vector<Pieces<Complex>> incoming(Toward toward, int variables);
  void drained(Toward toward, int variables, device::Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::fft
