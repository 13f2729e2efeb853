// The cost of the flow's terms, by the formulas in docs/flow-terms.md.
#pragma once

#include <cstdint>

namespace weft::flow {

enum class Term { convect, convect_skew, gradient, weak_divergence, divergence, curl };

struct Work {
  double bytes;  // minimum traffic between memory and cache
  double flops;  // floating-point operations
};

// A rank's share of a mesh, and how the terms are computed on it.
struct WorkOptions {
  int order;
  int scalar_bytes;
  bool simd;                         // directly between assembled vectors
  double affine, trilinear, curved;  // number of elements, excluding spare lanes of blocks
  double unknowns;
};
// count: number of fields in a convection term; same: the field is u itself.
Work work(Term term, int count, bool same, const WorkOptions& options);

}  // namespace weft::flow
