// Distributed 3-D Fourier transforms of real fields, and pointwise work in the midst of them.
//
// Fields are C-ordered with x fastest, in the boxes of Decomposition: physical ones real, spectral ones complex.
// Backward is y, column exchange, z, row exchange, x (Eq. 3 of GESTS); forward is x, row exchange, z, column exchange,
// y (Eq. 2). On the host a panel of neighbouring lines is copied into cache from where it lies (a field, or the bricks
// that arrived), transformed and worked on there, and written where it goes next (a field, or the bricks to send), so
// that packing and unpacking cost no pass over memory of their own.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/fft/block.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::fft {

// Which direction divides by the number of points (NumPy's `norm`). forward: coefficients are those of Eq. 1.
enum class Norm { forward, backward, ortho };

struct Options {
  Sizes sizes = {};
  std::int64_t modes_x =
      0;  // kept: kx < modes_x; 0: all, x / 2 + 1. Forward drops the others, backward takes them as 0
  Grid grid = {};
  int batch = 1;                 // Q: variables a message holds
  exchange::Asked row = "auto";  // schedule and path of the row exchange, and of the column exchange
  exchange::Asked column = "auto";
  Norm norm = Norm::forward;
};

// A pointwise function: works on a block's variables in place. It may be called many times in a transform, each time
// for other points or modes, on the host from cache-resident panels; on a GPU it puts its kernels on the stream.
template <class V>
using Pointwise = std::function<void(const Block<V>&, device::Stream&)>;

// What a plan carries out: spectral fields backward to physical space, a function of the values there, and forward
// again. Either half can be left out.
template <class T>
struct RoundTrip {
  using Complex = std::complex<T>;

  std::vector<const Complex*> from;  // spectral fields; they are kept
  // from.size() variables -> `backward` variables at each (kx, ky, kz), before the transform in y. None: as they are.
  Pointwise<Complex> before_y;
  bool before_y_each = false;  // before_y treats each variable alone (Block::first_variable says which it has)
  int backward = 0;            // variables transformed backward

  std::vector<const T*> physical_from;  // physical fields that `physical` finds after those transformed backward
  // -> `forward` variables at each point, in front. None: as they are.
  Pointwise<T> physical;
  std::vector<T*> physical_to;  // where the first variables after `physical` are stored
  // Called once on every rank when `physical` has seen all its points, before any exchange of the way forward: for what
  // after_y needs of all ranks, as a time step that follows from the largest velocity. May throw on all ranks.
  std::function<void(device::Stream&)> after_physical;

  int forward = 0;  // variables transformed forward in x and z
  // `forward` -> `spectral` variables at each (kx, y, kz), after the transform in z. None: as they are.
  Pointwise<Complex> after_z;
  int spectral = 0;  // variables transformed in y; 0: as many as forward
  // What is done with them at each (kx, ky, kz); the first to.size() are then stored.
  Pointwise<Complex> after_y;
  std::vector<Complex*> to;

  // [Nz] of each kz how many kx, from 0 on, have coefficients that are not 0: those of `from` beyond are, and of what
  // is transformed forward none is wanted. So passes may leave them out: after_y is not called for all of them, and
  // `to` is not written there. Empty: all of modes_x.
  std::span<const std::int64_t> kept;

  // Memory between the stages: work_fields() of field_values() each. Field i of `work` may be variable i of `from`,
  // which is then not kept; else none of them is among `from`. `to` may hold fields of `from` and of `work`,
  // physical_to those of physical_from.
  std::vector<Complex*> work;
};

template <class T>
class Plan {
 public:
  using Complex = std::complex<T>;

  // CollectiveError on all ranks for sizes below 1, a grid that is not one of comm.size() ranks, an exchange that does
  // not work here, no FFT library. (collective)
  Plan(const Options& options, std::shared_ptr<device::Device> device, const mpi::Comm& comm);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Whole transforms of any number of variables, of which neither list may hold a field of the other. (collective)
  void forward(const std::vector<const T*>& physical, const std::vector<Complex*>& spectral, device::Stream& stream);
  void backward(const std::vector<const Complex*>& spectral, const std::vector<T*>& physical, device::Stream& stream);
  // May write to the spectral fields: faster on one rank where caches hold a field.
  void backward_overwriting(const std::vector<Complex*>& spectral, const std::vector<T*>& physical,
                            device::Stream& stream);

  // std::invalid_argument if numbers of variables do not fit together or there is too little work memory;
  // std::logic_error from within a pointwise function of this plan. (collective)
  void run(const RoundTrip<T>& trip, device::Stream& stream);
  // How many work fields run() needs: none where `batch` holds all variables of every stage.
  int work_fields(const RoundTrip<T>& trip) const;
  std::int64_t field_values() const;  // complex values in one

  const Options& options() const;  // with modes_x filled in
  const Decomposition& decomposition() const;
  const std::shared_ptr<device::Device>& device() const;
  const mpi::Comm& comm() const;
  const mpi::Comm& row() const;     // Pr ranks
  const mpi::Comm& column() const;  // Pc ranks
  // What was chosen; a communicator of one rank exchanges nothing.
  const exchange::Choice& row_choice() const;
  const exchange::Choice& column_choice() const;
  // Largest message of each exchange for `variables` in one, in bytes.
  std::int64_t row_message_bytes(int variables) const;
  std::int64_t column_message_bytes(int variables) const;
  // What this rank holds, by name: "exchange buffers", "panels", "transforms".
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  bool whole(bool copies) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::fft
