// Kernels with the faults that the fiber device must find.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;

// A correct sum over the block, as a tree in shared memory.
WEFT_KERNEL(tree_sum, 64, (const real* x, real* sums)) {
  WEFT_SHARED(real, shared[64]);
  WEFT_THREADS(t, 64) { shared[t] = x[WEFT_BLOCK * 64 + t]; }
  for (int half = 32; half > 0; half /= 2) {
    WEFT_BARRIER();
    WEFT_THREADS(t, half) {
      if (t < half) shared[t] += shared[t + half];
    }
  }
  WEFT_THREADS(t, 1) {
    if (t == 0) sums[WEFT_BLOCK] = shared[0];
  }
}

// The same without barriers between the steps of the tree.
WEFT_KERNEL(tree_sum_without_barrier, 64, (const real* x, real* sums)) {
  WEFT_SHARED(real, shared[64]);
  WEFT_THREADS(t, 64) { shared[t] = x[WEFT_BLOCK * 64 + t]; }
  WEFT_BARRIER();
  for (int half = 32; half > 0; half /= 2) {
    WEFT_THREADS(t, half) {
      if (t < half) shared[t] += shared[t + half];
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(t, 1) {
    if (t == 0) sums[WEFT_BLOCK] = shared[0];
  }
}

#if defined(WEFT_TARGET_FIBER)
WEFT_KERNEL(leaves_early, 64, (int)) {
  if (threadIdx.x == 5) return;
  WEFT_BARRIER();
}

WEFT_KERNEL(waits_elsewhere, 64, (int)) {
  if (threadIdx.x == 5)
    WEFT_BARRIER();
  else
    WEFT_BARRIER();
}

// The next block must not find this block's values.
template <class T>
WEFT_FUNCTION T read_then_write(int t) {
  WEFT_SHARED(T, shared[2][32]);
  const T value = shared[t / 32][t % 32];
  WEFT_BARRIER();
  shared[t / 32][t % 32] = 1;
  return value;
}
WEFT_KERNEL(reads_what_it_never_wrote, 64, (real * out)) {
  const int t = threadIdx.x;
  out[WEFT_BLOCK * 64 + t] = read_then_write<real>(t);
}

WEFT_KERNEL(order_of_arrival, 64, (int* counter, int* order)) { order[threadIdx.x] = (*counter)++; }
#endif
