// The vector work of a time step of a flow: the pointwise operations between the element terms and the solvers.
//
// Fields are stored `stride` entries apart. Launched like kernels/vector.hpp over the n owned entries of one field, so
// that mass matrices are read once for all components; words moved per entry are in brackets. Kernels over lists of
// entries (boundaries) process flow_list_threads entries per block.
#include "weft/kernels/vector_entries.hpp"

constexpr int flow_list_threads = 256;

// The explicit part of BDFk/EXTk (Karniadakis, Israeli and Orszag 1991, Eqs. 2.2 to 2.4). With N = (v, (u . grad) u -
// f),
//   F = -(a0 N0 + a1 N1 + a2 N2) - B (b0 u0 + b1 u1 + b2 u2)   overwrites the oldest N
//   u* = a0 u0 + a1 u1 + a2 u2                                 overwrites the oldest u
// and the acceleration is B^-1 F for the first three components. `levels` is the number of existing levels, the oldest
// one last; the pointers of other levels are null.   [6 levels + 9 for three components, and 2]
WEFT_KERNEL(flow_extrapolate, vector_threads,
            (long n, long stride, int components, int levels, real a0, real a1, real a2, real b0, real b1, real b2,
             const real* WEFT_RESTRICT mass, const real* WEFT_RESTRICT inverse_mass, const real* WEFT_RESTRICT n_new,
             const real* WEFT_RESTRICT n_mid, real* WEFT_RESTRICT n_old, const real* WEFT_RESTRICT u_new,
             const real* WEFT_RESTRICT u_mid, real* WEFT_RESTRICT u_old, real* WEFT_RESTRICT acceleration)) {
  for (int c = 0; c < components; ++c) {
    const long first = c * stride;
    real* f = n_old + first;
    real* u = u_old + first;
    if (levels == 1) {
      WEFT_ENTRIES(i, n, f[i] = -a0 * f[i] - mass[i] * (b0 * u[i]); u[i] = a0 * u[i])
    } else if (levels == 2) {
      const real *f0 = n_new + first, *v0 = u_new + first;
      WEFT_ENTRIES(i, n, f[i] = -(a0 * f0[i] + a1 * f[i]) - mass[i] * (b0 * v0[i] + b1 * u[i]);
                   u[i] = a0 * v0[i] + a1 * u[i])
    } else {
      const real *f0 = n_new + first, *v0 = u_new + first, *f1 = n_mid + first, *v1 = u_mid + first;
      WEFT_ENTRIES(i, n,
                   f[i] = -(a0 * f0[i] + a1 * f1[i] + a2 * f[i]) - mass[i] * (b0 * v0[i] + b1 * v1[i] + b2 * u[i]);
                   u[i] = a0 * v0[i] + a1 * v1[i] + a2 * u[i])
    }
    if (c < 3) {
      real* g = acceleration + first;
      WEFT_ENTRIES(i, n, g[i] = inverse_mass[i] * f[i])
    }
  }
}

// y_c -= x_c   [3 a component]
WEFT_KERNEL(flow_subtract, vector_threads,
            (long n, long stride, int components, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  for (int c = 0; c < components; ++c) {
    WEFT_ENTRIES(i, n, y[c * stride + i] -= x[c * stride + i])
  }
}

// N_c -= B f_c: a force or a source given at the points   [3 a component, and 1]
WEFT_KERNEL(flow_force, vector_threads,
            (long n, long stride, int components, const real* WEFT_RESTRICT mass, const real* WEFT_RESTRICT f,
             real* WEFT_RESTRICT terms)) {
  for (int c = 0; c < components; ++c) {
    WEFT_ENTRIES(i, n, terms[c * stride + i] -= mass[i] * f[c * stride + i])
  }
}

// N -= B g (s - s0): buoyancy   [8]
WEFT_KERNEL(flow_buoyancy, vector_threads,
            (long n, long stride, real gx, real gy, real gz, real reference, const real* WEFT_RESTRICT mass,
             const real* WEFT_RESTRICT s, real* WEFT_RESTRICT terms)) {
  WEFT_ENTRIES(i, n, const real weight = mass[i] * (s[i] - reference); terms[i] -= gx * weight;
               terms[stride + i] -= gy * weight; terms[2 * stride + i] -= gz * weight)
}

// y_c += a x_c, the same a for all   [3 a component]
WEFT_KERNEL(flow_axpy, vector_threads,
            (long n, long stride, int components, real a, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  for (int c = 0; c < components; ++c) {
    WEFT_ENTRIES(i, n, y[c * stride + i] += a * x[c * stride + i])
  }
}

// out_c = d_c   [1 a component]
WEFT_KERNEL(flow_constant, vector_threads, (long n, long stride, real dx, real dy, real dz, real* WEFT_RESTRICT out)) {
  WEFT_ENTRIES(i, n, out[i] = dx; out[stride + i] = dy; out[2 * stride + i] = dz)
}

// y_c = B d_c - y_c: a uniform force d less a pressure gradient   [2 a component, and 1]
WEFT_KERNEL(flow_uniform_force, vector_threads,
            (long n, long stride, real dx, real dy, real dz, const real* WEFT_RESTRICT mass, real* WEFT_RESTRICT y)) {
  WEFT_ENTRIES(i, n, y[i] = mass[i] * dx - y[i]; y[stride + i] = mass[i] * dy - y[stride + i];
               y[2 * stride + i] = mass[i] * dz - y[2 * stride + i])
}

// x[list] = values; list and values [count]
WEFT_KERNEL(flow_put, flow_list_threads,
            (int count, const int* WEFT_RESTRICT list, const real* WEFT_RESTRICT values, real* WEFT_RESTRICT x)) {
  WEFT_THREADS(t, flow_list_threads) {
    const int i = WEFT_BLOCK * flow_list_threads + t;
    if (i < count) x[list[i]] = values[i];
  }
}

// x[list] = value
WEFT_KERNEL(flow_fill, flow_list_threads,
            (int count, const int* WEFT_RESTRICT list, real value, real* WEFT_RESTRICT x)) {
  WEFT_THREADS(t, flow_list_threads) {
    const int i = WEFT_BLOCK * flow_list_threads + t;
    if (i < count) x[list[i]] = value;
  }
}

// rhs[list] += values weights: a flux through the boundary, whose area is given by weights [count]
WEFT_KERNEL(flow_flux, flow_list_threads,
            (int count, const int* WEFT_RESTRICT list, const real* WEFT_RESTRICT weights,
             const real* WEFT_RESTRICT values, real* WEFT_RESTRICT rhs)) {
  WEFT_THREADS(t, flow_list_threads) {
    const int i = WEFT_BLOCK * flow_list_threads + t;
    if (i < count) rhs[list[i]] += weights[i] * values[i];
  }
}

// Adds a (q, n . u) on the boundary to rhs. normals [3][count] are the boundary's quadrature weights times n.
WEFT_KERNEL(flow_boundary_flux, flow_list_threads,
            (int count, const int* WEFT_RESTRICT list, const real* WEFT_RESTRICT normals, long stride, real a,
             const real* WEFT_RESTRICT u, real* WEFT_RESTRICT rhs)) {
  WEFT_THREADS(t, flow_list_threads) {
    const int i = WEFT_BLOCK * flow_list_threads + t;
    if (i < count) {
      const int e = list[i];
      rhs[e] +=
          a * (normals[i] * u[e] + normals[count + i] * u[stride + e] + normals[2 * count + i] * u[2 * stride + e]);
    }
  }
}

// Directional do-nothing at an outflow (Braack and Mucha 2014): (v, min(n . u, 0) u / 2) on the boundary, added to F.
WEFT_KERNEL(flow_backflow, flow_list_threads,
            (int count, const int* WEFT_RESTRICT list, const real* WEFT_RESTRICT normals, long stride,
             const real* WEFT_RESTRICT u, real* WEFT_RESTRICT f)) {
  WEFT_THREADS(t, flow_list_threads) {
    const int i = WEFT_BLOCK * flow_list_threads + t;
    if (i < count) {
      const int e = list[i];
      const real flux =
          normals[i] * u[e] + normals[count + i] * u[stride + e] + normals[2 * count + i] * u[2 * stride + e];
      if (flux < 0) {
        f[e] += real(0.5) * flux * u[e];
        f[stride + e] += real(0.5) * flux * u[stride + e];
        f[2 * stride + e] += real(0.5) * flux * u[2 * stride + e];
      }
    }
  }
}

// rhs[list[i]] += the sum of points[columns[offsets[i] .. offsets[i + 1])], in that order
WEFT_KERNEL(flow_add_rows, flow_list_threads,
            (int count, const int* WEFT_RESTRICT list, const int* WEFT_RESTRICT offsets,
             const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, real* WEFT_RESTRICT rhs)) {
  WEFT_THREADS(t, flow_list_threads) {
    const int i = WEFT_BLOCK * flow_list_threads + t;
    if (i < count) {
      real sum = 0;
      for (int q = offsets[i]; q < offsets[i + 1]; ++q) sum += points[columns[q]];
      rhs[list[i]] += sum;
    }
  }
}

// y_c = x_c where the mask is 1 (everywhere without a mask); prescribed values are kept   [4 per component]
WEFT_KERNEL(flow_replace, vector_threads,
            (long n, long stride, int components, const real* WEFT_RESTRICT mask, const real* WEFT_RESTRICT x,
             real* WEFT_RESTRICT y)) {
  for (int c = 0; c < components; ++c) {
    WEFT_ENTRIES(i, n, if (mask == nullptr || mask[c * stride + i] != real(0)) y[c * stride + i] = x[c * stride + i])
  }
}
