// What the flow's terms cost, by formulas: docs/flow-terms.md states them.
#pragma once

#include <cstdint>

namespace weft::flow {

enum class Term { convect, convect_skew, gradient, weak_divergence, divergence, curl };

struct Work {
  double bytes;  // that must pass between memory and cache
  double flops;  // floating-point operations
};

// A rank's share of a mesh and how the terms are computed there.
struct WorkOptions {
  int order;
  int scalar_bytes;
  bool simd;                         // lines by even and odd parts, straight between assembled vectors
  double affine, trilinear, curved;  // elements, the spare lanes of blocks left out
  double unknowns;
};
// count: fields of a convection, u itself if same.
Work work(Term term, int count, bool same, const WorkOptions& options);

}  // namespace weft::flow
