// Definitions shared by kernels on elements of one order: the type of their values and the numbers of points.
#pragma once
#include "weft/kernels/dialect.hpp"

#ifndef WEFT_TILE_ELEMENTS
#define WEFT_TILE_ELEMENTS 1
#endif

namespace {

using real = WEFT_REAL;
constexpr int n = WEFT_N + 1;  // points per direction
constexpr int face = n * n;
constexpr int points = n * n * n;
constexpr int tile = WEFT_TILE_ELEMENTS;  // elements per block

}  // namespace
