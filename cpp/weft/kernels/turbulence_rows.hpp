// Incompressible turbulence between its transforms (GESTS, section 3.1; Rogallo 1981), by rows along x. These formulas
// are only here: the kernels of turbulence.hpp use them with one block per row, the host's passes for lines in cache.
//
// The five products are uu - vv, ww - vv, uv, vw, uw; v^2 on the diagonal goes into the pressure. After the transforms
// in x and z, A_x = i kx (uu - vv) + i kz uw and A_z = i kx uw + i kz (ww - vv) replace the first, second and fifth, so
// that four variables remain for the transform in y:
//   d(u_m u_j)/dx_m = (A_x + i ky uv, i kx uv + i kz vw, A_z + i ky vw), up to a gradient.
#pragma once
#include "weft/kernels/dialect.hpp"

constexpr int row_threads = 128;
constexpr int rows_per_block = 8;  // in the kernel for physical space, which stores one number per block

// The threads of a block, or one host thread with SIMD vectors, divide i = 0, …, n - 1 among them.
#if defined(WEFT_TARGET_GPU) || defined(WEFT_TARGET_FIBER)
#define WEFT_ROW(i, n) WEFT_STRIDED(i, n, row_threads)
#else
#define WEFT_ROW(i, n) _Pragma("omp simd") for (int i = 0; i < (n); ++i)
#endif

// A GPU loads and stores an aligned value as a whole. On the host, arrays are only aligned for a real number.
#if defined(WEFT_TARGET_GPU)
#define WEFT_WHOLE(type) alignas(2 * sizeof(type))
#else
#define WEFT_WHOLE(type)
#endif
template <class R>
struct WEFT_WHOLE(R) complex_value {
  R re, im;
};

template <class R>
WEFT_FUNCTION complex_value<R> times(complex_value<R> a, complex_value<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class R>
WEFT_FUNCTION complex_value<R> conjugate_times(complex_value<R> a, complex_value<R> b) {
  return {a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}

// Several variables at the same points or modes: value x of the row at (y, z) of variable v is
// data[v variable + z z_stride + y y_stride + x]. first: global indices of the block's corner.
template <class V>
struct block_view {
  V* data;
  long variable, y_stride, z_stride;
  int first_x, first_y, first_z, count_x, count_y, count_z;
};

template <class V>
WEFT_FUNCTION V* row_of(const block_view<V>& block, int y, int z) {
  return block.data + z * block.z_stride + y * block.y_stride;
}

// The contribution of one direction to the factor of a mode: the factor is the product of three. Global indices.
template <class V>
struct mode_factors {
  const V *x, *y, *z;
};

// --- physical space
// ---------------------------------------------------------------------------------------------------

template <class R>
struct products_arguments {
  block_view<R> block;  // u, v, w, scalars; then five products, and the flux of each scalar: u phi, v phi, w phi
  int scalars;
  R inverse_dx, inverse_dy, inverse_dz;
};

// The maximum of `largest` and Eq. 8's brackets in the row (for this thread's points); NaN if one is not finite.
template <class R>
WEFT_FUNCTION R products_row(const products_arguments<R>& a, int y, int z, R largest) {
  R* WEFT_RESTRICT u = row_of(a.block, y, z);
  const long variable = a.block.variable;
  R* WEFT_RESTRICT v = u + variable;
  R* WEFT_RESTRICT w = v + variable;
  // A scalar's flux overwrites later scalars only, so the scalars are processed from the last to the first.
  for (int s = a.scalars - 1; s >= 0; --s) {
    const R* phi = u + (3 + s) * variable;
    R* flux = u + (5 + 3 * s) * variable;
    WEFT_ROW(i, a.block.count_x) {
      const R value = phi[i];
      flux[i] = u[i] * value;
      flux[i + variable] = v[i] * value;
      flux[i + 2 * variable] = w[i] * value;
    }
  }
  R* WEFT_RESTRICT vw = w + variable;
  R* WEFT_RESTRICT uw = vw + variable;
  R poison = largest * R(0);  // NaN as soon as anything was not finite; comparisons would lose it
#if !defined(WEFT_TARGET_GPU) && !defined(WEFT_TARGET_FIBER)
  _Pragma("omp simd reduction(max : largest) reduction(+ : poison)") for (int i = 0; i < a.block.count_x; ++i) {
#else
  WEFT_ROW(i, a.block.count_x) {
#endif
    const R p = u[i], q = v[i], r = w[i], square = q * q;
    const R rate = (p < 0 ? -p : p) * a.inverse_dx + (q < 0 ? -q : q) * a.inverse_dy + (r < 0 ? -r : r) * a.inverse_dz;
    largest = largest > rate ? largest : rate;
    poison += rate * R(0);
    u[i] = p * p - square;
    v[i] = r * r - square;
    w[i] = p * q;
    vw[i] = q * r;
    uw[i] = p * r;
  }
  return largest + poison;
}

// --- after the transform in z
// -----------------------------------------------------------------------------------------

template <class R>
struct combine_arguments {
  block_view<complex_value<R>> block;
  int scalars;
  const R *kx, *kz;
};

template <class R>
WEFT_FUNCTION void combine_row(const combine_arguments<R>& a, int y, int z) {
  const long variable = a.block.variable;
  complex_value<R>* row = row_of(a.block, y, z);
  const R* kx = a.kx + a.block.first_x;
  const R kz = a.kz[a.block.first_z + z];
  complex_value<R>* WEFT_RESTRICT xx = row;
  complex_value<R>* WEFT_RESTRICT zz = row + variable;
  const complex_value<R>* WEFT_RESTRICT xz = row + 4 * variable;
  WEFT_ROW(i, a.block.count_x) {
    const R k = kx[i];
    const complex_value<R> p = xx[i], q = zz[i], r = xz[i];
    xx[i] = {-(k * p.im + kz * r.im), k * p.re + kz * r.re};
    zz[i] = {-(k * r.im + kz * q.im), k * r.re + kz * q.re};
  }
  // A = i kx u phi + i kz w phi, and v phi, for one scalar after the other, stored after the four variables of the
  // velocity.
  for (int s = 0; s < a.scalars; ++s) {
    const complex_value<R>* flux = row + (5 + 3 * s) * variable;
    complex_value<R>* to = row + (4 + 2 * s) * variable;
    WEFT_ROW(i, a.block.count_x) {
      const complex_value<R> p = flux[i], q = flux[i + variable], r = flux[i + 2 * variable];
      to[i] = {-(kx[i] * p.im + kz * r.im), kx[i] * p.re + kz * r.re};
      to[i + variable] = q;
    }
  }
}

// --- before and after the transform in y
// ------------------------------------------------------------------------------

// Where a rank's modes are in its fields: [kz][Ny][kx].
struct spectral_part {
  int first_x, first_z, modes, ny;
  const int* kept;  // [rows] how many modes of a row, from the first on, the truncation keeps
};

WEFT_FUNCTION long part_row(const spectral_part& part, int y, int z) {  // global y and z
  return static_cast<long>(z - part.first_z) * part.ny + y;
}

// How many of a block's modes in the row are kept.
WEFT_FUNCTION int kept_of_block(const spectral_part& part, long row, int first_x, int count_x) {
  const int kept = part.kept[row] + part.first_x - first_x;
  return kept < 0 ? 0 : kept < count_x ? kept : count_x;
}

template <class R>
struct shift_arguments {
  block_view<complex_value<R>> block;
  int variables;
  spectral_part part;
  mode_factors<complex_value<R>> shift;
};

template <class R>
WEFT_FUNCTION void shift_row(const shift_arguments<R>& a, int y, int z) {
  const int gy = a.block.first_y + y, gz = a.block.first_z + z;
  const int count = kept_of_block(a.part, part_row(a.part, gy, gz), a.block.first_x, a.block.count_x);
  const complex_value<R> row = times(a.shift.y[gy], a.shift.z[gz]);
  const complex_value<R>* WEFT_RESTRICT x = a.shift.x + a.block.first_x;
  for (int variable = 0; variable < a.variables; ++variable) {
    complex_value<R>* WEFT_RESTRICT value = row_of(a.block, y, z) + variable * a.block.variable;
    WEFT_ROW(i, count) { value[i] = times(times(row, x[i]), value[i]); }
  }
}

// One Runge-Kutta substep with an exact integrating factor. With n the right-hand side without viscosity and h the
// factor of half a step,
//   sum = h^base_power base + beta h^sum_power n,   stage = h^stage_power field + gamma h^rate_power n,
// where the latter, unless gamma is 0, is stored in the block. `base`, `sum` and `field` may be the same.
template <class R>
struct substep {
  int base_power, sum_power, stage_power, rate_power;
  R beta, gamma;
};

template <class R>
WEFT_FUNCTION R power_of(R half, int power) {
  return power == 0 ? R(1) : power == 1 ? half : half * half;
}

template <class R>
WEFT_FUNCTION complex_value<R> weighted(R a, complex_value<R> x, R b, complex_value<R> y) {
  return {a * x.re + b * y.re, a * x.im + b * y.im};
}

template <class R>
struct advance_arguments {
  block_view<complex_value<R>> block;  // A_x, A_z, uv, vw; then the stage's u, v, w
  spectral_part part;
  mode_factors<R> k, half;
  mode_factors<complex_value<R>> shift;  // for this substep's grid; null: no shift
  substep<R> step;
  const complex_value<R>*base, *velocity;  // u, v, w, `field` entries apart
  complex_value<R>* sum;
  long field;
};

template <class R>
WEFT_FUNCTION void advance_row(const advance_arguments<R>& a, int y, int z) {
  using complex = complex_value<R>;
  const int gy = a.block.first_y + y, gz = a.block.first_z + z;
  const long row = part_row(a.part, gy, gz);
  const int count = kept_of_block(a.part, row, a.block.first_x, a.block.count_x);
  const long at = row * a.part.modes + a.block.first_x - a.part.first_x, field = a.field;
  const complex *base = a.base + at, *velocity = a.velocity + at;
  complex* sum = a.sum + at;
  complex* work = row_of(a.block, y, z);
  const long variable = a.block.variable;
  const bool shifted = a.shift.x != nullptr, stage = a.step.gamma != 0;
  complex shift_row{1, 0};
  if (shifted) shift_row = times(a.shift.y[gy], a.shift.z[gz]);
  const complex* shift_x = a.shift.x + (shifted ? a.block.first_x : 0);
  const R *half_x = a.half.x + a.block.first_x, *k_x = a.k.x + a.block.first_x;
  const R half_row = a.half.y[gy] * a.half.z[gz], ky = a.k.y[gy], kz = a.k.z[gz];
  const substep<R> step = a.step;
  WEFT_ROW(i, count) {
    const R kx = k_x[i], half = half_x[i] * half_row, square = kx * kx + ky * ky + kz * kz;
    complex ax = work[i], az = work[i + variable], uv = work[i + 2 * variable], vw = work[i + 3 * variable];
    complex n0{ky * uv.im - ax.re, -ky * uv.re - ax.im};
    complex n1{kx * uv.im + kz * vw.im, -kx * uv.re - kz * vw.re};
    complex n2{ky * vw.im - az.re, -ky * vw.re - az.im};
    // P = 1 - k k / k^2; the mean has n = 0
    const R scale = square > 0 ? R(1) / square : R(0);
    const complex along{(kx * n0.re + ky * n1.re + kz * n2.re) * scale, (kx * n0.im + ky * n1.im + kz * n2.im) * scale};
    n0 = {n0.re - kx * along.re, n0.im - kx * along.im};
    n1 = {n1.re - ky * along.re, n1.im - ky * along.im};
    n2 = {n2.re - kz * along.re, n2.im - kz * along.im};
    if (shifted) {
      const complex shift = times(shift_row, shift_x[i]);
      n0 = conjugate_times(shift, n0);
      n1 = conjugate_times(shift, n1);
      n2 = conjugate_times(shift, n2);
    }
    const complex u0 = velocity[i], u1 = velocity[i + field], u2 = velocity[i + 2 * field];
    const R p = power_of(half, step.base_power), q = step.beta * power_of(half, step.sum_power);
    const complex s0 = weighted(p, base[i], q, n0), s1 = weighted(p, base[i + field], q, n1),
                  s2 = weighted(p, base[i + 2 * field], q, n2);
    sum[i] = s0;
    sum[i + field] = s1;
    sum[i + 2 * field] = s2;
    if (stage) {
      const R g = power_of(half, step.stage_power), d = step.gamma * power_of(half, step.rate_power);
      work[i] = weighted(g, u0, d, n0);
      work[i + variable] = weighted(g, u1, d, n1);
      work[i + 2 * variable] = weighted(g, u2, d, n2);
    }
  }
  if (!stage) return;
  for (int c = 0; c < 3; ++c) {
    complex* rest = work + c * variable + count;
    WEFT_ROW(i, a.block.count_x - count) { rest[i] = {0, 0}; }
  }
}

// The same for scalar `number`, from A and v phi in variables 4 + 2 number and the next one. The stage goes to variable
// 3 + number, after advance_row. A mean gradient g adds -(g . u) to the right-hand side. If it is nonzero, `source`
// holds this part, which gradient_row computes from the velocity of the substep; the velocity in the block is already
// the next one.
template <class R>
struct scalar_arguments {
  block_view<complex_value<R>> block;
  spectral_part part;
  mode_factors<R> k, half;  // half: with the scalar's diffusivity
  mode_factors<complex_value<R>> shift;
  substep<R> step;
  const complex_value<R>*base, *scalar;
  complex_value<R>* sum;
  int number;
  complex_value<R>* source;  // null: no mean gradient
};

template <class R>
WEFT_FUNCTION void scalar_row(const scalar_arguments<R>& a, int y, int z) {
  using complex = complex_value<R>;
  const int gy = a.block.first_y + y, gz = a.block.first_z + z;
  const long row = part_row(a.part, gy, gz);
  const int count = kept_of_block(a.part, row, a.block.first_x, a.block.count_x);
  const long at = row * a.part.modes + a.block.first_x - a.part.first_x;
  const complex *base = a.base + at, *scalar = a.scalar + at, *source = a.source + (a.source == nullptr ? 0 : at);
  complex* sum = a.sum + at;
  const complex* flux = row_of(a.block, y, z) + (4 + 2 * a.number) * a.block.variable;
  complex* to = row_of(a.block, y, z) + (3 + a.number) * a.block.variable;
  const long variable = a.block.variable;
  const bool shifted = a.shift.x != nullptr, stage = a.step.gamma != 0, driven = a.source != nullptr;
  complex shift_row{1, 0};
  if (shifted) shift_row = times(a.shift.y[gy], a.shift.z[gz]);
  const complex* shift_x = a.shift.x + (shifted ? a.block.first_x : 0);
  const R* half_x = a.half.x + a.block.first_x;
  const R half_row = a.half.y[gy] * a.half.z[gz], ky = a.k.y[gy];
  const substep<R> step = a.step;
  WEFT_ROW(i, count) {
    const R half = half_x[i] * half_row;
    const complex p = flux[i], q = flux[i + variable];
    complex n{ky * q.im - p.re, -ky * q.re - p.im};
    if (shifted) n = conjugate_times(times(shift_row, shift_x[i]), n);
    if (driven) n = {n.re + source[i].re, n.im + source[i].im};
    const complex old = scalar[i];
    sum[i] = weighted(power_of(half, step.base_power), base[i], step.beta * power_of(half, step.sum_power), n);
    if (stage) to[i] = weighted(power_of(half, step.stage_power), old, step.gamma * power_of(half, step.rate_power), n);
  }
  if (!stage) return;
  WEFT_ROW(i, a.block.count_x - count) { to[count + i] = {0, 0}; }
}

// source = -(gradient . velocity), with the velocity in the block's first three variables.
template <class R>
struct gradient_arguments {
  block_view<complex_value<R>> block;
  spectral_part part;
  R x, y, z;
  complex_value<R>* source;
};

template <class R>
WEFT_FUNCTION void gradient_row(const gradient_arguments<R>& a, int y, int z) {
  const long row = part_row(a.part, a.block.first_y + y, a.block.first_z + z);
  complex_value<R>* source = a.source + row * a.part.modes + a.block.first_x - a.part.first_x;
  const complex_value<R>* u = row_of(a.block, y, z);
  const complex_value<R>*v = u + a.block.variable, *w = v + a.block.variable;
  WEFT_ROW(i, a.block.count_x) {
    source[i] = {-(a.x * u[i].re + a.y * v[i].re + a.z * w[i].re), -(a.x * u[i].im + a.y * v[i].im + a.z * w[i].im)};
  }
}

// After fields were set from outside: modes that are not kept become 0, and if there are three variables, the component
// along k is removed.
template <class R>
struct clean_arguments {
  block_view<complex_value<R>> block;
  spectral_part part;
  mode_factors<R> k;
  int variables;  // 3: a velocity, 1: a scalar
};

template <class R>
WEFT_FUNCTION void clean_row(const clean_arguments<R>& a, int y, int z) {
  const int gy = a.block.first_y + y, gz = a.block.first_z + z;
  const int count = kept_of_block(a.part, part_row(a.part, gy, gz), a.block.first_x, a.block.count_x);
  complex_value<R>* u = row_of(a.block, y, z);
  const long variable = a.block.variable;
  if (a.variables == 3) {
    const R *k_x = a.k.x + a.block.first_x, ky = a.k.y[gy], kz = a.k.z[gz];
    WEFT_ROW(i, count) {
      const R kx = k_x[i], square = kx * kx + ky * ky + kz * kz, scale = square > 0 ? R(1) / square : R(0);
      complex_value<R>&p = u[i], &q = u[i + variable], &r = u[i + 2 * variable];
      const R re = (kx * p.re + ky * q.re + kz * r.re) * scale, im = (kx * p.im + ky * q.im + kz * r.im) * scale;
      p = {p.re - kx * re, p.im - kx * im};
      q = {q.re - ky * re, q.im - ky * im};
      r = {r.re - kz * re, r.im - kz * im};
    }
  }
  for (int v = 0; v < a.variables; ++v) {
    complex_value<R>* rest = u + v * variable + count;
    WEFT_ROW(i, a.block.count_x - count) { rest[i] = {0, 0}; }
  }
}
