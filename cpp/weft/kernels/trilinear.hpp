// Derivatives of a trilinear map x = sum_c a[c] r^i s^j t^k, a[8][3] in the order 1, r, s, t, rs, rt, st, rst; and the
// cofactors from the derivatives of any map.
#pragma once
#include "weft/kernels/cross.hpp"
#include "weft/kernels/dialect.hpp"

// xr, xs, xt = dx/dr, dx/ds, dx/dt at (r, s, t).
template <class T>
WEFT_FUNCTION void trilinear_derivatives(const T* a, T r, T s, T t, T (&xr)[3], T (&xs)[3], T (&xt)[3]) {
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    xr[d] = a[3 + d] + s * a[12 + d] + t * (a[15 + d] + s * a[21 + d]);
    xs[d] = a[6 + d] + r * a[12 + d] + t * (a[18 + d] + r * a[21 + d]);
    xt[d] = a[9 + d] + r * a[15 + d] + s * (a[18 + d] + r * a[21 + d]);
  }
}

template <class T>
struct Three {
  T x, y, z;
};
template <class T>
WEFT_FUNCTION void scaled_cross(const T (&a)[3], const T (&b)[3], T scale, T* out) {
  const Three<T> c = weft::cross(Three<T>{a[0], a[1], a[2]}, Three<T>{b[0], b[1], b[2]});
  out[0] = scale * c.x;
  out[1] = scale * c.y;
  out[2] = scale * c.z;
}

// c = scale J grad r, scale J grad s, scale J grad t: the cofactors of dx/dr.
template <class T>
WEFT_FUNCTION void cofactors_of(const T (&xr)[3], const T (&xs)[3], const T (&xt)[3], T scale, T (&c)[9]) {
  scaled_cross(xs, xt, scale, c);
  scaled_cross(xt, xr, scale, c + 3);
  scaled_cross(xr, xs, scale, c + 6);
}
