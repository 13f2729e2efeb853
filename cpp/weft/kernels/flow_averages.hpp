// Running means and covariances of a flow's fields. Launched like kernels/vector.hpp; words moved per entry are in
// brackets.
//
// With the weight a = (this sample's) / (all samples'): d = x - m, m <- m + a d, C_ij <- (1 - a) (C_ij + a d_i d_j),
// which loses no digits even if the fluctuation is small (D. H. D. West, Comm. ACM 22, 1979).
#include "weft/kernels/vector_entries.hpp"

// x [4][n] velocity (3) and pressure, m their means; c [7][n]: uu, vv, ww, uv, uw, vw, pp.   [26]
WEFT_KERNEL(average_flow, vector_threads,
            (long n, real a, const real* WEFT_RESTRICT velocity, const real* WEFT_RESTRICT pressure,
             real* WEFT_RESTRICT m, real* WEFT_RESTRICT c)) {
  const real b = real(1) - a;
  WEFT_ENTRIES(i, n, const real u = velocity[i] - m[i]; const real v = velocity[i + n] - m[i + n];
               const real w = velocity[i + 2 * n] - m[i + 2 * n]; const real p = pressure[i] - m[i + 3 * n];
               m[i] += a * u; m[i + n] += a * v; m[i + 2 * n] += a * w; m[i + 3 * n] += a * p;
               c[i] = b * (c[i] + a * u * u); c[i + n] = b * (c[i + n] + a * v * v);
               c[i + 2 * n] = b * (c[i + 2 * n] + a * w * w); c[i + 3 * n] = b * (c[i + 3 * n] + a * u * v);
               c[i + 4 * n] = b * (c[i + 4 * n] + a * u * w); c[i + 5 * n] = b * (c[i + 5 * n] + a * v * w);
               c[i + 6 * n] = b * (c[i + 6 * n] + a * p * p))
}

// A scalar s and its fluxes; must run before average_flow changes the velocity's means m. For s, c [4][n]: ss, us, vs,
// ws.   [17]
WEFT_KERNEL(average_scalar, vector_threads,
            (long n, real a, const real* WEFT_RESTRICT velocity, const real* WEFT_RESTRICT m,
             const real* WEFT_RESTRICT scalar, real* WEFT_RESTRICT mean, real* WEFT_RESTRICT c)) {
  const real b = real(1) - a;
  WEFT_ENTRIES(i, n, const real s = scalar[i] - mean[i]; mean[i] += a * s; c[i] = b * (c[i] + a * s * s);
               c[i + n] = b * (c[i + n] + a * (velocity[i] - m[i]) * s);
               c[i + 2 * n] = b * (c[i + 2 * n] + a * (velocity[i + n] - m[i + n]) * s);
               c[i + 3 * n] = b * (c[i + 3 * n] + a * (velocity[i + 2 * n] - m[i + 2 * n]) * s))
}
