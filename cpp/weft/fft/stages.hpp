// The passes of a transform: one interface for host and GPU. Between passes, variables are stored in fields or in
// bricks.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/node_field.hpp"
#include "weft/fft/plan.hpp"

namespace weft::fft {

// Lines along y or z of all variables together; a panel holds neighbouring kx.
template <class T>
struct LinesPass {
  using Complex = std::complex<T>;
  std::size_t direction = 1;  // 1: y, 2: z
  Kind kind = Kind::forward;
  Box box;  // this rank's pencil
  int first_variable = 0;
  std::vector<Pieces<Complex>> from;
  const Pointwise<Complex>* before = nullptr;
  int transforms = 0;
  const Pointwise<Complex>* after = nullptr;
  std::vector<Pieces<Complex>> to;
  T scale_from = 1, scale_to = 1;
  std::span<const std::int64_t> kept;  // as in RoundTrip; GPUs transform all
  bool concurrent = false;             // as in RoundTrip
  bool plain = false;                  // part of a run in one direction, on whole fields, without any function
};

// The backward transform in x, the pointwise function, and the forward transform in x.
template <class T>
struct PhysicalPass {
  using Complex = std::complex<T>;
  Box box;                            // this rank's points
  std::vector<Pieces<Complex>> from;  // of the variables transformed backward
  std::vector<const T*> physical_from;
  const Pointwise<T>* physical = nullptr;
  std::vector<T*> physical_to;
  int forward = 0;
  std::vector<Pieces<Complex>> to;
  // If z is not divided either (Pr = 1), this pass includes the transforms in z; `from` and `to` are then pencils along
  // z.
  bool with_z = false;
  const Pointwise<Complex>* after_z = nullptr;
  T scale_from = 1, scale_to = 1;
  std::span<const std::int64_t> kept;
  bool concurrent = false;
  bool plain = false;  // as in LinesPass
};

// The largest number of variables that a pass of a run holds at once, as modes and as points.
struct Held {
  int modes = 0, points = 0;
  auto operator<=>(const Held&) const = default;
};

template <class T>
class Stages {
 public:
  using Complex = std::complex<T>;

  virtual ~Stages() = default;
  // Allocates what passes with that many variables need; the passes themselves allocate nothing. Called on all ranks
  // before the first run with that many.
  virtual void prepare(const Held& /*held*/) {}
  // Transforms of a whole field with all of its modes at once, on one rank and without pointwise functions, by planes
  // or by a 3-D plan: the ways that suit the size of the field. prepare_whole() makes the plans, and throws if this is
  // not possible.
  virtual Ways ways_by_size() const { return {}; }
  virtual void prepare_whole(const Ways& /*ways*/) {}
  virtual void whole_forward(const Way& /*way*/, const T* /*points*/, Complex* /*modes*/, T /*scale*/,
                             device::Stream& /*stream*/) {}
  // Overwrites `work`, a field that may be the modes themselves.
  virtual void whole_backward(const Way& /*way*/, const Complex* /*modes*/, Complex* /*work*/, T* /*points*/,
                              T /*scale*/, device::Stream& /*stream*/) {}
  // The same by planes on the ranks of a node, in a field that they share.
  virtual void node_forward(const Way& /*way*/, NodeField<T>& /*field*/, const T* /*points*/, Complex* /*modes*/,
                            T /*scale*/, device::Stream& /*stream*/) {}
  virtual void node_backward(const Way& /*way*/, NodeField<T>& /*field*/, const Complex* /*modes*/, T* /*points*/,
                             T /*scale*/, device::Stream& /*stream*/) {}
  virtual void lines(const LinesPass<T>& pass, device::Stream& stream) = 0;
  virtual void physical(const PhysicalPass<T>& pass, device::Stream& stream) = 0;
  // Copies variables between pieces of the same boxes; `what` is the name shown on the timeline.
  virtual void copy(const char* what, const std::vector<Pieces<Complex>>& from, const std::vector<Pieces<Complex>>& to,
                    device::Stream& stream) = 0;
  virtual std::int64_t memory_bytes() const = 0;
  // Changes whenever work enqueued earlier would now use different memory.
  virtual std::int64_t generation() const { return 0; }
};

}  // namespace weft::fft
