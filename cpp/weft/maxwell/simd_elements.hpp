// The element and face data that the SIMD kernels of Maxwell's equations read, built by SimdOperator.
#pragma once

#include <cstdint>

namespace weft::maxwell {

// How the kernels treat an element. box: edges along x, y, z. affine: a parallelepiped, with one frame for all points.
// curved: one frame per point, read from memory, also for trilinear elements (mesh/shape.hpp).
enum class Shape : std::uint8_t { box, affine, curved };

// How the points and tangents of a face map to those of the face that it meets: value q of this face is value index[q]
// of the other; its component along this face's a is sign_a times the other's component along its a (along its b if
// swapped), and likewise for b.
template <class T>
struct FaceMatch {
  const std::int32_t* index;  // [face_stride]
  int swap;
  T sign_a, sign_b;
};

// Values of an element of any shape, each multiplied by the factor that turns the kernel's result into rates. box: the
// factors of derivatives and traces already give rates. affine, curved: the result is J times contravariant curls.
inline constexpr int frame_values = 9;
template <class T>
struct ElementValues {
  T frame[frame_values];  // x_r, x_s, x_t (box: their only components in 0, 1, 2); curved: unused
  T inverse_jacobian;
  T inverse_eps, minus_inverse_mu, loss;
  T d_t[4], d_s[4], d_r[4];  // factors of D_t (h_s, h_r, e_s, e_r), D_s (h_t, h_r, e_t, e_r), D_r (h_t, h_s, e_t, e_s)
  // [side]: what a face adds; see Kernel::lift
  struct Face {
    T hb_ea, ea_ea, ha_eb, eb_eb;  // to E: factors of the jump of H along b and of E along a in the a-component, ...
    T eb_ha, ha_ha, ea_hb, hb_hb;  // to H
    T g_aa, g_ab, g_bb;            // surface metric over area, not for box; for curved: given per point instead
  } faces[6];
};

// Views of all data. n = order + 1. A trace is [4][face_stride]: E along a, E along b, H along a, H along b, covariant.
template <class T>
struct SimdElements {
  const T* even_odd;               // D by even and odd parts
  const T* rows;                   // [n + 2][row vectors]: D^T by rows, then the unit vectors of a row's two ends
  const std::int32_t* row_starts;  // [row stride]: j n
  const Shape* shapes;             // [E]
  const ElementValues<T>* values;  // [E]
  const std::int64_t* metric;      // [E]: index among the curved elements
  const T* jacobians;              // [curved][9][n^3]
  const T* face_metrics;           // [curved][6][3][face_stride]: g_aa, g_ab, g_bb over area
  const std::int64_t* neighbors;   // [E][6]: offset of the trace that the face meets
  const std::int16_t* matches;     // [E][6]: index in `match`, -1 for the same orientation
  const FaceMatch<T>* match;
};

// The arguments of one Runge-Kutta stage.
template <class T>
struct StageArguments {
  T a, b, dt;
  T* fields;
  T* residual;
  const T* traces;  // of the current fields
  T* next_traces;   // of the fields after the stage; nullptr: not needed
  bool update;      // fields += b residual
};

// Runs elements order[begin, end).
template <class T>
using StageFunction = void (*)(const SimdElements<T>&, const StageArguments<T>&, const std::int64_t* order,
                               std::int64_t begin, std::int64_t end, T* scratch);
// Computes next_traces from the fields.
template <class T>
struct SimdFunctions {
  StageFunction<T> stage, traces;
  std::int64_t row_stride, scratch_values;  // of SimdElements::rows; per thread
};

// The padded length of one component of a trace: whole cache lines.
template <class T>
constexpr std::int64_t face_stride(int order) {
  constexpr std::int64_t line = 64 / sizeof(T);
  return (std::int64_t{order + 1} * (order + 1) + line - 1) / line * line;
}

}  // namespace weft::maxwell
