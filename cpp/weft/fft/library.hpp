// The host's libraries for Fourier transforms: Intel MKL and FFTW, opened at run time, both through FFTW3's interface,
// and weft's own SIMD transforms (simd_lines.hpp). They transform batches of lines, and the opened ones whole fields.
//
// They do not transpose, scale or use threads. A plan runs on the calling thread. Forward transforms use exp(-2 pi i
// jk/n), and no transform divides by n (FFTW 3 manual, section 4.8.1).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::fft {

// r2c: n real numbers to n/2 + 1 coefficients. c2r: the reverse. forward, backward: n complex numbers to n.
enum class Kind { r2c, c2r, forward, backward };

// `count` lines of one transform. Element j of line i is at i * distance + j * stride, counted in elements of that
// side: real numbers on the real side of r2c and c2r, complex numbers otherwise.
struct LinesShape {
  Kind kind = Kind::forward;
  int n = 0;
  std::int64_t count = 1;
  std::int64_t stride_in = 1, distance_in = 0;
  std::int64_t stride_out = 1, distance_out = 0;
  bool in_place = false;    // forward and backward only: input and output are the same memory, with the same strides
  bool overwrites = false;  // c2r only: may overwrite its input, which is faster with some libraries

  // Contiguous lines: distance n, or n/2 + 1 on the complex side of r2c and c2r.
  static LinesShape contiguous(Kind kind, int n, std::int64_t count, bool in_place = false);
  // `count` neighbouring columns: distance 1 between columns, strides `stride_in` and `stride_out` along them.
  static LinesShape columns(Kind kind, int n, std::int64_t count, std::int64_t stride_in, std::int64_t stride_out,
                            bool in_place = false);

  std::int64_t elements_in() const { return kind == Kind::c2r ? n / 2 + 1 : n; }  // per line
  std::int64_t elements_out() const { return kind == Kind::r2c ? n / 2 + 1 : n; }
  // From the first element to one past the last: the size to allocate.
  std::int64_t extent_in() const;
  std::int64_t extent_out() const;

  // std::invalid_argument for sizes below 1, for in_place with r2c or c2r, and for overwrites with anything but c2r.
  void check() const;
  auto operator<=>(const LinesShape&) const = default;
};

// A 3-D transform of a real field, [nz][ny][nx], to its coefficients, [nz][ny][nx / 2 + 1], or the reverse, which
// overwrites its input.
struct FieldShape {
  std::int64_t nx = 0, ny = 0, nz = 0;
  Kind kind = Kind::r2c;

  std::int64_t extent_in() const { return kind == Kind::r2c ? points() : modes(); }
  std::int64_t extent_out() const { return kind == Kind::r2c ? modes() : points(); }
  std::int64_t points() const { return nx * ny * nz; }
  std::int64_t modes() const { return (nx / 2 + 1) * ny * nz; }
  // std::invalid_argument for sizes below 1, and for kinds other than r2c and c2r.
  void check() const;
  auto operator<=>(const FieldShape&) const = default;
};

// An open library, or why there is none.
struct HostLibrary {
  std::string name;       // "mkl", "fftw", "fftw-measured" or "weft"
  std::string version;    // "2026.2", "3.3.10-sse2-avx"
  std::string path;       // of the file
  std::string problem;    // why there is no library, and what to install; empty if there is one
  bool measured = false;  // like the previous one, but with plans by measurement (wisdom.hpp)
  // Whether its 3-D c2r gives the same result as transforms line by line for all coefficients, including those that do
  // not belong to a real field. True for FFTW, not for MKL.
  bool backward_3d = false;
  // weft's own transforms, which take lines in groups of group_bytes, one value of each; the first library takes the
  // lines for which there are none. Not for whole fields.
  bool own = false;
  static constexpr std::int64_t group_bytes = 64;
};
// Opened by the first call, and kept open. The environment variable WEFT_FFT chooses: auto (the default: MKL and FFTW,
// in this order, if installed, then weft's own), mkl, fftw, or the file of a library (without weft's own). Libraries
// are searched in the folders of WEFT_FFT_PATH (separated by colons; the Python package adds its own), then by the
// loader. Never throws: check `problem`, which only the first library has.
const HostLibrary& host_library(int which = 0);
int host_libraries();  // how many there are

// A measured library makes larger plans by estimate: measuring one would take many seconds (600,000 points: a minute).
constexpr std::int64_t measured_bytes = 32 << 20;

// FFTW uses SIMD instructions only for addresses that are multiples of this (in bytes), and then rounds differently.
constexpr std::uintptr_t simd_alignment = 16;
inline bool simd_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % simd_alignment == 0;
}

// How long this process has been making plans so far.
double planning_seconds();

namespace detail {
struct HostPlan {
  void *aligned, *anywhere;  // for SIMD-aligned addresses on both sides, and for any; the same for MKL
  void (*execute)(void* plan, void* in, void* out);
};
// Creates or finds the plan. std::runtime_error if there is no library, or if it rejects the shape.
const HostPlan& host_plan(const LinesShape& shape, bool single, int library);
const HostPlan& host_plan(const FieldShape& shape, bool single, int library);
}  // namespace detail

// A plan, which may be executed on any memory, and by several threads at once; copies share it. Plans are created one
// at a time (FFTW's planner is not thread-safe) and kept until the process ends, so that each shape is planned only
// once. They are created without timing (FFTW_ESTIMATE) or kept on disk, so that runs are bit-identical. The input of
// c2r is preserved, unless the shape says otherwise. Addresses need only the alignment of their type; multiples of
// simd_alignment are faster, and multiples of 64 bytes faster still.
template <class T, class Shape>
class HostTransform {
 public:
  HostTransform() = default;
  explicit HostTransform(const Shape& shape, int library = 0)
      : shape_(shape), plan_(&detail::host_plan(shape, sizeof(T) == sizeof(float), library)) {}

  void operator()(const void* in, void* out) const {
    plan_->execute(simd_aligned(in) && simd_aligned(out) ? plan_->aligned : plan_->anywhere, const_cast<void*>(in),
                   out);
  }
  const Shape& shape() const { return shape_; }
  explicit operator bool() const { return plan_ != nullptr; }

 private:
  Shape shape_;
  const detail::HostPlan* plan_ = nullptr;
};
template <class T>
using HostLines = HostTransform<T, LinesShape>;
template <class T>
using HostField = HostTransform<T, FieldShape>;

}  // namespace weft::fft
