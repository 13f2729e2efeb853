// Distributed 3-D Fourier transforms of real fields, with pointwise functions between the passes.
//
// Fields are C-ordered with x fastest, in the boxes of Decomposition; physical fields are real, spectral fields
// complex. Backward is y, column exchange, z, row exchange, x (Eq. 3 of GESTS); forward is x, row exchange, z, column
// exchange, y (Eq. 2). On the host a panel of neighbouring lines is copied into cache (from a field, or from received
// bricks), transformed and processed there, and written to its next location (a field, or bricks to send), so that
// packing and unpacking need no extra pass over memory.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/fft/block.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::fft {

// Which direction divides by the number of points (NumPy's `norm`). With forward, the coefficients are those of Eq. 1.
enum class Norm { forward, backward, ortho };

// How a whole field is transformed without pointwise functions. panels: by the passes of a round trip, with lines
// copied into cache on the host, and exchanged as Options say. planes, on the host: in place; on one rank x and y plane
// by plane, then z; on the ranks of a node, with a 1 x P grid, in memory that they share (node_field.hpp). plan_3d: one
// call of the library, on one rank only; backward on the host only with libraries that support it
// (HostLibrary::backward_3d).
enum class Method { panels, planes, plan_3d };
struct Way {
  Method method = Method::panels;
  int library = 0;        // on the host: its number (library.hpp)
  int along_x = library;  // that of the transforms along x, for planes
  auto operator<=>(const Way&) const = default;
};
std::string name(const Way& way);  // "planes, mkl", "planes, fftw, x by mkl"
// One way for each kind of call. `overwriting` is also a backward transform.
struct Ways {
  Way forward = {}, backward = {}, overwriting = {};
  auto operator<=>(const Ways&) const = default;
};

struct Options {
  Sizes sizes = {};
  std::int64_t modes_x =
      0;  // keeps kx < modes_x; 0: all, x / 2 + 1. Forward drops the others, backward treats them as 0
  Grid grid = {};
  int batch = 1;                 // Q: the number of variables per message
  exchange::Asked row = "auto";  // schedule and path of the row exchange, and of the column exchange
  exchange::Asked column = "auto";
  Norm norm = Norm::forward;
  int library = 0;                // on the host: the library used in the passes
  std::optional<Ways> ways = {};  // empty: on one rank by size, and 3-D plans on GPUs; on several ranks panels
};

// A pointwise function modifies the variables of a block in place. It may be called many times per transform, each time
// for other points or modes: on the host with panels that are in cache; on a GPU it enqueues its kernels on the stream.
template <class V>
using Pointwise = std::function<void(const Block<V>&, device::Stream&)>;

// What a plan executes: it transforms spectral fields backward to physical space, applies a function to the values
// there, and transforms forward again. Either half may be omitted.
template <class T>
struct RoundTrip {
  using Complex = std::complex<T>;

  std::vector<const Complex*> from;  // spectral fields, which are preserved
  // from.size() variables -> `backward` variables at each (kx, ky, kz), before the transform in y. Empty: unchanged.
  Pointwise<Complex> before_y;
  // before_y treats each variable separately (Block::first_variable is the index of the first)
  bool before_y_each = false;
  int backward = 0;  // variables transformed backward

  std::vector<const T*> physical_from;  // physical fields passed to `physical` after the transformed ones
  // -> `forward` variables at each point, which come first. Empty: unchanged.
  Pointwise<T> physical;
  std::vector<T*> physical_to;  // where the first variables after `physical` are stored
  // Called once on every rank after `physical` has processed all its points, and before any forward exchange. It is for
  // global values that after_y needs, such as a time step that depends on the largest velocity. May throw, on all
  // ranks.
  std::function<void(device::Stream&)> after_physical;

  int forward = 0;  // variables transformed forward in x and z
  // `forward` -> `spectral` variables at each (kx, y, kz), after the transform in z. Empty: unchanged.
  Pointwise<Complex> after_z;
  int spectral = 0;  // variables transformed in y; 0: as many as forward
  // The function applied to them at each (kx, ky, kz). The first to.size() results are stored.
  Pointwise<Complex> after_y;
  std::vector<Complex*> to;

  // [Nz]: for each kz the number of kx, counted from 0, whose coefficients may be nonzero. Coefficients of `from`
  // beyond that must be 0, and those of forward transforms are not needed, so passes may skip them: after_y is not
  // called for all of them, and `to` is not written there. Empty: all of modes_x.
  std::span<const std::int64_t> kept;

  // Whether the threads of a rank may call a pointwise function at the same time, each for different points or modes.
  // Otherwise passes with functions run on one thread.
  bool concurrent = false;

  // Memory between the stages: work_fields() fields of field_values() each. Field i of `work` may be variable i of
  // `from`, which is then overwritten; otherwise `work` and `from` must be disjoint. `to` may contain fields of `from`
  // and of `work`, physical_to those of physical_from.
  std::vector<Complex*> work;
  // Whether to use the fields of Plan::own_work, for which the same holds, instead of `work`.
  bool own_work = false;

  // If not 0, all runs with this number belong to the same trip and enqueue the same work up to `physical`. On a single
  // GPU this work is recorded in the second of these runs and then replayed as one launch, except while a trace shows
  // the passes.
  int recording = 0;
};

template <class T>
class ExchangeBuffers;

template <class T>
class Plan {
 public:
  using Complex = std::complex<T>;

  // `buffers`: those that plans which run in turn share, for at least `batch` fields of any of them; empty: its own.
  // CollectiveError on all ranks for sizes below 1, a grid that does not have comm.size() ranks, an exchange that does
  // not work here, or a missing FFT library. (collective)
  Plan(const Options& options, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
       std::shared_ptr<ExchangeBuffers<T>> buffers = nullptr);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Transforms any number of variables; the two lists must not share fields. (collective)
  void forward(const std::vector<const T*>& physical, const std::vector<Complex*>& spectral, device::Stream& stream);
  void backward(const std::vector<const Complex*>& spectral, const std::vector<T*>& physical, device::Stream& stream);
  // May overwrite the spectral fields, which is faster on one rank if a field fits into cache.
  void backward_overwriting(const std::vector<Complex*>& spectral, const std::vector<T*>& physical,
                            device::Stream& stream);

  // std::invalid_argument if the numbers of variables are inconsistent or there is too little work memory;
  // std::logic_error from within a pointwise function of this plan. (collective)
  void run(const RoundTrip<T>& trip, device::Stream& stream);
  // Allocates `count` work fields, which are 0, for runs that ask for them; between runs they are the caller's. Slabs
  // on one node's processors share them (work_fields.hpp), and round trips then exchange nothing, unless `column`, the
  // exchange as requested, excludes path ipc. (collective)
  const std::vector<Complex*>& own_work(int count, const exchange::Asked& column);
  // The number of work fields that run() needs: none if `batch` covers all variables of every stage.
  int work_fields(const RoundTrip<T>& trip) const;
  std::int64_t field_values() const;  // complex values per field

  const Options& options() const;  // with modes_x filled in
  const Decomposition& decomposition() const;
  const std::shared_ptr<device::Device>& device() const;
  const mpi::Comm& comm() const;
  const mpi::Comm& row() const;     // Pr ranks
  const mpi::Comm& column() const;  // Pc ranks
  // The chosen exchanges. In a communicator of one rank nothing is exchanged.
  const exchange::Choice& row_choice() const;
  const exchange::Choice& column_choice() const;
  // Largest message of each exchange in bytes, with `variables` variables per message.
  std::int64_t row_message_bytes(int variables) const;
  std::int64_t column_message_bytes(int variables) const;
  // The chosen ways, and whether there is more than one way to transform whole fields here.
  const Ways& ways() const;
  bool has_ways() const;
  // Transforms whole fields by other ways from now on. CollectiveError if they do not work here. (collective)
  void use(const Ways& ways);
  // Memory of this rank in bytes, by name: "exchange buffers", unless they are shared with other plans, "panels",
  // "work".
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  // Whether whole fields are transformed without runs of passes.
  bool whole(const Way& way) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::fft
