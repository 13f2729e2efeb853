// Corners, edges and faces of the reference hexahedron, and the 8 ways in which a face can meet its neighbour.
//
// Corner c = i + 2 j + 4 k is at (r, s, t) = (2i-1, 2j-1, 2k-1). Edges 0..3 run along r at (s, t) = (-,-), (+,-),
// (-,+), (+,+), edges 4..7 along s at (r, t) in that order, edges 8..11 along t at (r, s). Faces 0..5 are r-, r+, s-,
// s+, t-, t+. A face has the axes (a, b): the other two directions in ascending order.
#pragma once

#include <array>
#include <cstdint>

namespace weft::mesh {

// The two corners of an edge, in the direction of the edge.
inline constexpr std::array<std::array<int, 2>, 12> edge_corners{
    {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}}};

// The four corners of a face, in lexicographic order of (a, b), a fastest.
inline constexpr std::array<std::array<int, 4>, 6> face_corners{
    {{0, 2, 4, 6}, {1, 3, 5, 7}, {0, 1, 4, 5}, {2, 3, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}}};

// The four edges of a face: along a at b-, along a at b+, along b at a-, along b at a+.
inline constexpr std::array<std::array<int, 4>, 6> face_edges{
    {{4, 6, 8, 10}, {5, 7, 9, 11}, {0, 2, 8, 9}, {1, 3, 10, 11}, {0, 1, 4, 5}, {2, 3, 6, 7}}};

// The corners, by position 0..3 in face_corners, of each edge of face_edges.
inline constexpr std::array<std::array<int, 2>, 4> face_edge_corners{{{0, 1}, {2, 3}, {0, 2}, {1, 3}}};

inline constexpr std::array<const char*, 6> face_names{"r-", "r+", "s-", "s+", "t-", "t+"};

// Maps a point (a, b) of an element's face to the canonical frame of the face. Bit 0 of the orientation reverses a, bit
// 1 reverses b, and bit 2 then swaps the two.
constexpr std::array<int, 2> to_canonical(int orientation, int a, int b, int last) {
  if (orientation & 1) a = last - a;
  if (orientation & 2) b = last - b;
  if (orientation & 4) return {b, a};
  return {a, b};
}

// The orientation of a face whose corners, in lexicographic order of (a, b), have four different labels. The canonical
// frame has its origin at the smallest label, and its first axis points to the smaller of the two adjacent labels.
constexpr int orientation_from_labels(const std::array<std::int64_t, 4>& labels) {
  int origin = 0;
  for (int corner = 1; corner < 4; ++corner) {
    if (labels[corner] < labels[origin]) origin = corner;
  }
  return origin | (labels[origin ^ 2] < labels[origin ^ 1] ? 4 : 0);
}

}  // namespace weft::mesh
