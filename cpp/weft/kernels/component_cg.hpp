// Conjugate gradients for k components of a vector field in lock-step, except the operator S: A_c = m_c (h1 S + h2 B)
// m_c with the diagonal B, masks m_c of 0 and 1 (null: ones), and the pointwise preconditioner d.
//
// Vectors of components are [k][entries]; sums and updates use the first n entries of each. The blocks for the same
// entries of all components are consecutive, so that B and d come from memory once. Launched with k vector_blocks(n)
// blocks; partials [kind][component][block of entries]. Words moved per entry and component are in brackets, without B,
// d.
#include "weft/kernels/vector_entries.hpp"

constexpr int max_components = 4;
struct Scalars {
  double alpha[max_components], beta[max_components];
};
// a[c]. An index unknown at compile time would move the kernel's parameters to the stack.
WEFT_FUNCTION real of_component(const double (&a)[max_components], int c) {
  double value = a[0];
  WEFT_UNROLL
  for (int m = 1; m < max_components; ++m) value = m == c ? a[m] : value;
  return static_cast<real>(value);
}

// d = 1 / (h1 diagonal + h2 b)
WEFT_KERNEL(component_diagonal, vector_threads,
            (long n, real h1, real h2, const real* WEFT_RESTRICT diagonal, const real* WEFT_RESTRICT b,
             real* WEFT_RESTRICT d)){WEFT_ENTRIES(i, n, d[i] = real(1) / (h1 * diagonal[i] + h2 * b[i]))}

// r = m (r - h1 w - h2 b x), p = d r; partials: r . r, r . d r. w = S x; null where x = 0.   [5]
WEFT_KERNEL(component_start, vector_threads,
            (long n, long entries, int components, real h1, real h2, const real* WEFT_RESTRICT b,
             const real* WEFT_RESTRICT d, const real* WEFT_RESTRICT mask, const real* WEFT_RESTRICT w,
             const real* WEFT_RESTRICT x, real* WEFT_RESTRICT r, real* WEFT_RESTRICT p,
             double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  const int c = WEFT_BLOCK % components, block = WEFT_BLOCK / components;
  const long blocks = (n + vector_chunk - 1) / vector_chunk, first = c * entries;
  double rr[WEFT_SLOTS(vector_threads)] = {}, rz[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES_OF(block, i, n, const long q = first + i; real next = r[q];
                  if (w != nullptr) next -= h1 * w[q] + h2 * (b[i] * x[q]); if (mask != nullptr) next *= mask[q];
                  const real z = d[i] * next; r[q] = next; p[q] = z;
                  rr[WEFT_SLOT(weft_t)] += static_cast<double>(next) * static_cast<double>(next);
                  rz[WEFT_SLOT(weft_t)] += static_cast<double>(next) * static_cast<double>(z))
  block_sum<vector_threads>(rr, shared, partials + c * blocks + block);
  WEFT_BARRIER();
  block_sum<vector_threads>(rz, shared, partials + (components + c) * blocks + block);
}

// v = m (h1 v + h2 b p), where v was S p; partials: p . v, r . d v, v . d v, r . v, v . v, stored after the two kinds
// of the kernels that compute r.   [4]
WEFT_KERNEL(component_products, vector_threads,
            (long n, long entries, int components, real h1, real h2, const real* WEFT_RESTRICT b,
             const real* WEFT_RESTRICT d, const real* WEFT_RESTRICT mask, const real* WEFT_RESTRICT r,
             const real* WEFT_RESTRICT p, real* WEFT_RESTRICT v, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  const int c = WEFT_BLOCK % components, block = WEFT_BLOCK / components;
  const long blocks = (n + vector_chunk - 1) / vector_chunk, first = c * entries;
  double pv[WEFT_SLOTS(vector_threads)] = {}, zv[WEFT_SLOTS(vector_threads)] = {};
  double vdv[WEFT_SLOTS(vector_threads)] = {}, rv[WEFT_SLOTS(vector_threads)] = {};
  double vv[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES_OF(block, i, n, const long q = first + i; const real pi = p[q]; real vi = h1 * v[q] + h2 * (b[i] * pi);
                  if (mask != nullptr) vi *= mask[q]; v[q] = vi; const double value = vi;
                  const double scaled = static_cast<double>(d[i]) * value; const double ri = r[q];
                  pv[WEFT_SLOT(weft_t)] += static_cast<double>(pi) * value; zv[WEFT_SLOT(weft_t)] += ri * scaled;
                  vdv[WEFT_SLOT(weft_t)] += value * scaled; rv[WEFT_SLOT(weft_t)] += ri * value;
                  vv[WEFT_SLOT(weft_t)] += value * value)
  double* const to = partials + (2 * components + c) * blocks + block;
  const long kind = components * blocks;
  block_sum<vector_threads>(pv, shared, to);
  WEFT_BARRIER();
  block_sum<vector_threads>(zv, shared, to + kind);
  WEFT_BARRIER();
  block_sum<vector_threads>(vdv, shared, to + 2 * kind);
  WEFT_BARRIER();
  block_sum<vector_threads>(rv, shared, to + 3 * kind);
  WEFT_BARRIER();
  block_sum<vector_threads>(vv, shared, to + 4 * kind);
}

// x += alpha p, r -= alpha v, p = d r + beta p; partials: r . r, r . d r.   [7]
WEFT_KERNEL(component_update, vector_threads,
            (long n, long entries, int components, Scalars scalars, const real* WEFT_RESTRICT d,
             const real* WEFT_RESTRICT v, real* WEFT_RESTRICT x, real* WEFT_RESTRICT r, real* WEFT_RESTRICT p,
             double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  const int c = WEFT_BLOCK % components, block = WEFT_BLOCK / components;
  const long blocks = (n + vector_chunk - 1) / vector_chunk, first = c * entries;
  const real alpha = of_component(scalars.alpha, c), beta = of_component(scalars.beta, c);
  double rr[WEFT_SLOTS(vector_threads)] = {}, rz[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES_OF(block, i, n, const long q = first + i; const real direction = p[q];
                  const real next = r[q] - alpha * v[q]; const real z = d[i] * next; x[q] += alpha * direction;
                  r[q] = next; p[q] = z + beta * direction;
                  rr[WEFT_SLOT(weft_t)] += static_cast<double>(next) * static_cast<double>(next);
                  rz[WEFT_SLOT(weft_t)] += static_cast<double>(next) * static_cast<double>(z))
  block_sum<vector_threads>(rr, shared, partials + c * blocks + block);
  WEFT_BARRIER();
  block_sum<vector_threads>(rz, shared, partials + (components + c) * blocks + block);
}

// x += alpha p   [3]
WEFT_KERNEL(component_solution, vector_threads,
            (long n, long entries, int components, Scalars scalars, const real* WEFT_RESTRICT p,
             real* WEFT_RESTRICT x)) {
  const int c = WEFT_BLOCK % components, block = WEFT_BLOCK / components;
  const long first = c * entries;
  const real alpha = of_component(scalars.alpha, c);
  WEFT_ENTRIES_OF(block, i, n, x[first + i] += alpha * p[first + i])
}

// sums[s] = sum of partials[s][0 .. count), one block per s
WEFT_KERNEL(component_sums, vector_threads,
            (long count, const double* WEFT_RESTRICT partials, double* WEFT_RESTRICT sums)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double mine[WEFT_SLOTS(vector_threads)] = {};
  for (long begin = 0; begin < count; begin += vector_threads) {
    WEFT_THREADS(t, vector_threads) {
      if (begin + t < count) mine[WEFT_SLOT(t)] += partials[WEFT_BLOCK * count + begin + t];
    }
  }
  block_sum<vector_threads>(mine, shared, sums + WEFT_BLOCK);
}
