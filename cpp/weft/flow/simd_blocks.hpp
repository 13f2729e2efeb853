// What the flow's block kernels read besides the numbering's own blocks, and the terms an order has.
#pragma once

#include <array>
#include <cstdint>

#include "weft/mesh/shape.hpp"
#include "weft/space/block_index.hpp"

namespace weft::flow {

using mesh::Shape;

// Matrices by even and odd parts (element/even_odd.hpp), n GLL and m dealiasing points.
template <class T>
struct SimdTables {
  const T *derivative, *transposed;  // D, D^T [n][n]
  const T* conservative;             // W D W^-1 [n][n]
  const T *value, *slope;            // to the fine points [m][n]
  const T* project;                  // value^T times the weights there [n][m]
  const T *points, *weights;         // [n]
  const T* fine_points;              // [m]
};

template <class T>
struct SimdGeometry {
  const Shape* shape;    // [blocks]: the most general of a block's elements
  const T* maps;         // affine and trilinear: [blocks][8][3][lanes], mesh/trilinear.hpp
  const T* coordinates;  // curved: [blocks][3][columns j n + i][k][lanes]
};

// One call of a term: u [3][entries] (convection), f [count][entries], out; f may be u.
template <class T>
struct SimdCall {
  const space::BlockIndex& blocks;
  const space::Plan& plan;
  const SimdTables<T>& tables;
  const SimdGeometry<T>& geometry;
  const T* u;
  const T* f;
  T* out;
  std::int64_t entries;
  int count;
};

// The terms of one order on a chunk of blocks, by Term; scratch has scratch_values values.
template <class T>
struct SimdFunctions {
  using Function = void (*)(const SimdCall<T>&, space::Range chunk, T* scratch);
  std::array<Function, 6> terms;
  std::int64_t scratch_values;
};

// std::invalid_argument outside orders 1..15.
template <class T>
const SimdFunctions<T>& simd_functions(int order);

}  // namespace weft::flow
