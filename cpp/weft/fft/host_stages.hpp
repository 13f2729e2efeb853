// The passes of a transform on the host: lines are copied into cache, transformed and worked on there, and written
// where they go next. Each variable's source and destination is a list of pieces.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/plan.hpp"

namespace weft::fft {

// Lines along y or z of all variables together, neighbouring kx in a panel.
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
};

// Backward in x, the pointwise function, forward in x.
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
  // Where z is whole too (Pr = 1), the transforms in z go with it: from and to are then pencils along z.
  bool with_z = false;
  const Pointwise<Complex>* after_z = nullptr;
  T scale_from = 1, scale_to = 1;
};

template <class T>
class HostStages {
 public:
  using Complex = std::complex<T>;
  explicit HostStages(const Decomposition& decomposition);

  void lines(const LinesPass<T>& pass, device::Stream& stream);
  void physical(const PhysicalPass<T>& pass, device::Stream& stream);
  std::int64_t memory_bytes() const;

 private:
  // The rows of `points` in one plane of z or of y: modes, of as many rows, to modes.
  void rows(const PhysicalPass<T>& pass, const Block<Complex>& modes, const Box& points, device::Stream& stream);
  void columns(Kind kind, Block<Complex> modes, int variable);
  const HostLines<T>& plan(const LinesShape& shape);
  template <class V>
  V* at_least(device::Array<V>& memory, std::int64_t values);

  const Decomposition& decomposition_;
  std::shared_ptr<device::Device> host_;
  std::map<LinesShape, HostLines<T>> plans_;
  device::Array<Complex> modes_;  // a panel, or the planes of all variables
  device::Array<T> points_;       // rows of all variables
};

}  // namespace weft::fft
