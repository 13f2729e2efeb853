// What the flow's block kernels read besides the blocks of the numbering, and the table of terms of one order.
#pragma once

#include <array>
#include <cstdint>

#include "weft/mesh/shape.hpp"
#include "weft/space/block_index.hpp"

namespace weft::flow {

using mesh::Shape;

// Matrices by even and odd parts (element/even_odd.hpp), for n GLL points and m dealiasing points.
template <class T>
struct SimdTables {
  const T *derivative, *transposed;  // D, D^T [n][n]
  const T* conservative;             // W D W^-1 [n][n]
  const T *value, *slope;            // interpolation and derivative at the fine points [m][n]
  const T* project;                  // value^T times the weights of the fine points [n][m]
  const T *points, *weights;         // [n]
  const T* fine_points;              // [m]
};

template <class T>
struct SimdGeometry {
  const Shape* shape;    // [blocks]: the most general shape among a block's elements
  const T* maps;         // affine and trilinear: [blocks][8][3][lanes], mesh/trilinear.hpp
  const T* coordinates;  // curved: [blocks][3][columns j n + i][k][lanes]
};

// The arguments of one call of a term: u [3][entries] (convection only), f [count][entries], out. f may be u.
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

// The terms of one order on a chunk of blocks, indexed by Term; scratch holds scratch_values values.
template <class T>
struct SimdFunctions {
  using Function = void (*)(const SimdCall<T>&, space::Range chunk, T* scratch);
  std::array<Function, 6> terms;
  std::int64_t scratch_values;
};

// std::invalid_argument for orders outside 1..15.
template <class T>
const SimdFunctions<T>& simd_functions(int order);

}  // namespace weft::flow
