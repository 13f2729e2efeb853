// Curved sides blended into elements.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mesh/tensor.hpp"
#include "weft/mesh/whole.hpp"

namespace weft::mesh {
namespace {

using Point = std::array<double, 3>;

Point operator+(const Point& a, const Point& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Point operator-(const Point& a, const Point& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Point operator*(double s, const Point& a) { return {s * a[0], s * a[1], s * a[2]}; }
double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
double length(const Point& a) { return std::sqrt(dot(a, a)); }

// The nodes of one element at order `order`, and the curves that displace them.
class Element {
 public:
  Element(double* nodes, const std::vector<double>& x, std::int64_t id)
      : nodes_(nodes), x_(x), n1_(static_cast<int>(x.size())), id_(id), strides_{1, n1_, n1_ * n1_} {}

  void apply(std::span<const Curve> curves) {
    std::array<std::vector<Point>, 12> edges;  // displacements of the points of an edge
    for (const Curve& c : curves) {
      if (c.kind == Curve::arc) edges[c.side] = arc(c.side, c.values[0]);
      if (c.kind == Curve::midpoint) edges[c.side] = parabola(c.side, {c.values[0], c.values[1], c.values[2]});
    }
    for (const Curve& c : curves) {
      if (c.kind != Curve::sphere) continue;
      for (int edge : face_edges[c.side]) edges[edge] = great_circle(edge, c);
    }
    for (int edge = 0; edge < 12; ++edge) {
      if (!edges[edge].empty()) blend_edge(edge, edges[edge]);
    }
    for (const Curve& c : curves) {
      if (c.kind == Curve::sphere) blend_sphere(c);
    }
  }

 private:
  Point get(int index) const { return {nodes_[3 * index], nodes_[3 * index + 1], nodes_[3 * index + 2]}; }
  void add(int index, const Point& by) {
    for (int d = 0; d < 3; ++d) nodes_[3 * index + d] += by[d];
  }
  int corner(int c) const {
    return (n1_ - 1) * ((c & 1) * strides_[0] + (c >> 1 & 1) * strides_[1] + (c >> 2) * strides_[2]);
  }
  // Weight of side 0 (x = -1) or 1 of a direction at point i.
  double weight(int i, int side) const { return 0.5 * (side == 0 ? 1 - x_[i] : 1 + x_[i]); }
  std::runtime_error bad(const char* what, int side, const std::string& why) const {
    std::ostringstream text;
    text << what << " " << side << " of element " << id_ << " (counting from 0) " << why;
    return std::runtime_error(text.str());
  }

  std::vector<Point> displacement(int edge, auto&& target) const {
    const int from = corner(edge_corners[edge][0]), stride = strides_[edge / 4];
    std::vector<Point> moves(n1_, Point{});
    for (int p = 1; p + 1 < n1_; ++p) moves[p] = target(x_[p]) - get(from + p * stride);
    return moves;
  }

  // Parametrised by the angle about the centre of the circle, which varies linearly along the edge.
  std::vector<Point> arc(int edge, double radius) const {
    const Point a = get(corner(edge_corners[edge][0])), b = get(corner(edge_corners[edge][1]));
    const double chord = std::hypot(b[0] - a[0], b[1] - a[1]), r = std::abs(radius);
    if (!(chord > 0) || !(2 * r >= chord)) {
      std::ostringstream why;
      why << "is an arc of radius " << r << ", too small for its chord of " << chord << " in the x-y plane";
      throw bad("edge", edge, why.str());
    }
    const double half = std::asin(std::min(1.0, 0.5 * chord / r)), sign = radius > 0 ? 1 : -1;
    // unit vector towards the bulge
    const double rx = sign * (b[1] - a[1]) / chord, ry = -sign * (b[0] - a[0]) / chord;
    const double cx = 0.5 * (a[0] + b[0]) - rx * r * std::cos(half), cy = 0.5 * (a[1] + b[1]) - ry * r * std::cos(half);
    const double tx = (b[0] - a[0]) / chord, ty = (b[1] - a[1]) / chord;
    return displacement(edge, [&](double at) {
      const double s = r * std::sin(at * half), c = r * std::cos(at * half);
      return Point{cx + c * rx + s * tx, cy + c * ry + s * ty, 0.5 * ((1 - at) * a[2] + (1 + at) * b[2])};
    });
  }

  std::vector<Point> parabola(int edge, const Point& middle) const {
    const Point a = get(corner(edge_corners[edge][0])), b = get(corner(edge_corners[edge][1]));
    return displacement(
        edge, [&](double at) { return 0.5 * at * (at - 1) * a + (1 - at * at) * middle + 0.5 * at * (at + 1) * b; });
  }

  static Point centre(const Curve& c) { return {c.values[0], c.values[1], c.values[2]}; }

  // Corners keep their positions from the file, which often has single precision, so the radius varies along the edge
  // from that of one corner to that of the other.
  std::vector<Point> great_circle(int edge, const Curve& c) const {
    const Point o = centre(c);
    const Point a = get(corner(edge_corners[edge][0])) - o, b = get(corner(edge_corners[edge][1])) - o;
    for (const Point& p : {a, b}) {
      if (!(std::abs(length(p) - c.values[3]) <= 0.01 * std::abs(c.values[3]))) {
        std::ostringstream why;
        why << "is on a sphere of radius " << c.values[3] << ", but one of its corners is " << length(p)
            << " from the centre";
        throw bad("face", c.side, why.str());
      }
    }
    const double angle = std::acos(std::clamp(dot(a, b) / (length(a) * length(b)), -1.0, 1.0));
    if (!(angle > 1e-12 && angle < 3.1)) throw bad("face", c.side, "is on a sphere, but spans half of it");
    return displacement(edge, [&](double at) {
      const double u = 0.5 * (1 - at), v = 0.5 * (1 + at);
      const Point direction = (std::sin(u * angle) / length(a) / std::sin(angle)) * a +
                              (std::sin(v * angle) / length(b) / std::sin(angle)) * b;
      return o + (u * length(a) + v * length(b)) * direction;
    });
  }

  void blend_edge(int edge, const std::vector<Point>& moves) {
    const int along = edge / 4, a = along == 0 ? 1 : 0, b = along == 2 ? 1 : 2;
    const int side_a = edge & 1, side_b = edge >> 1 & 1;
    for (int q = 0; q < n1_; ++q) {
      for (int p = 0; p < n1_; ++p) {
        const double share = weight(p, side_a) * weight(q, side_b);
        for (int i = 0; i < n1_; ++i) add(i * strides_[along] + p * strides_[a] + q * strides_[b], share * moves[i]);
      }
    }
  }

  // With the edges in place, the inner points of the face are moved radially onto the sphere.
  void blend_sphere(const Curve& c) {
    const int normal = c.side / 2, side = c.side % 2, a = normal == 0 ? 1 : 0, b = normal == 2 ? 1 : 2;
    const Point o = centre(c);
    const int base = side * (n1_ - 1) * strides_[normal];
    std::array<double, 4> radii;
    for (int m = 0; m < 4; ++m) radii[m] = length(get(corner(face_corners[c.side][m])) - o);
    for (int q = 1; q + 1 < n1_; ++q) {
      for (int p = 1; p + 1 < n1_; ++p) {
        const int on_face = p * strides_[a] + q * strides_[b];
        const Point at = get(base + on_face) - o;
        const double radius = weight(q, 0) * (weight(p, 0) * radii[0] + weight(p, 1) * radii[1]) +
                              weight(q, 1) * (weight(p, 0) * radii[2] + weight(p, 1) * radii[3]);
        const Point move = (radius / length(at) - 1) * at;
        for (int i = 0; i < n1_; ++i) add(on_face + i * strides_[normal], weight(i, side) * move);
      }
    }
  }

  double* nodes_;
  const std::vector<double>& x_;
  int n1_;
  std::int64_t id_;
  std::array<int, 3> strides_;
};

}  // namespace

std::vector<double> curved_nodes(std::span<const double> nodes, int node_order, std::span<const Curve> curves,
                                 int order, std::span<const std::int64_t> element_ids) {
  const auto& x = element::gll(order).points;
  const int q1 = node_order + 1, n1 = order + 1;
  const auto matrix = element::interpolation(element::gll(node_order).points, x);
  const std::int64_t count = std::ssize(element_ids);
  std::vector<double> result(count * n1 * n1 * n1 * 3), once(q1 * q1 * n1 * 3), twice(q1 * n1 * n1 * 3);
  for (std::int64_t e = 0; e < count; ++e) {
    apply_along(matrix.data(), n1, q1, q1 * q1, 3, nodes.data() + e * q1 * q1 * q1 * 3, once.data());
    apply_along(matrix.data(), n1, q1, q1, n1 * 3, once.data(), twice.data());
    apply_along(matrix.data(), n1, q1, 1, n1 * n1 * 3, twice.data(), result.data() + e * n1 * n1 * n1 * 3);
  }
  // Sorted, so that the curves of an element are contiguous. At order 1 there are only corners, which no curve moves.
  std::vector<Curve> sorted(curves.begin(), curves.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Curve& a, const Curve& b) { return a.element < b.element; });
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end].element == sorted[i].element) ++end;
    const std::int64_t e = sorted[i].element;
    Element(result.data() + e * n1 * n1 * n1 * 3, x, element_ids[e]).apply({sorted.data() + i, end - i});
    i = end;
  }
  return result;
}

}  // namespace weft::mesh
