// One-dimensional operators of overlapping subdomains, and their eigenvectors: fast diagonalisation.
//
// Sources: R. E. Lynch, J. R. Rice, D. H. Thomas, Numer. Math. 6 (1964); J. W. Lottes, P. F. Fischer, "Hybrid
// multigrid/Schwarz algorithms for the spectral element method", J. Sci. Comput. 24 (2005) 45-78.
#pragma once

#include <vector>

namespace weft::element {

// What lies beyond an end of an element: a neighbour (its point next to the shared one belongs to the subdomain, and
// the solution is 0 at the following point); a boundary with value 0 (the end point is not an unknown); or a natural
// boundary.
enum class End { neighbor, dirichlet, natural };

struct Interval {
  double length;  // length of the element
  End left, right;
  double left_length = 0;  // lengths of the neighbours
  double right_length = 0;
};

// Solves A v = lambda B v for stiffness and mass (lumped at the points) on n + 2 points: one of the left neighbour, the
// n of the element, one of the right neighbour. With V^T B V = I, A x B x B + B x A x B + B x B x A (x: Kronecker) has
// the inverse (V x V x V) diag(1 / (lambda_i + lambda_j + lambda_k)) (V x V x V)^T. Points that are not unknowns have
// zero rows, and as many columns are zero, with lambda above 0. A zero eigenvalue is exactly 0.
struct FastDiagonalisation {
  std::vector<double> vectors;  // [n + 2][n + 2] row-major, columns are eigenvectors
  std::vector<double> values;   // [n + 2]
};
// std::invalid_argument for an order outside 1..15 or a length that is not positive.
FastDiagonalisation fast_diagonalisation(int order, const Interval& interval);

}  // namespace weft::element
