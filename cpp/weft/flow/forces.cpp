#include "weft/flow/forces.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "weft/element/gll.hpp"
#include "weft/kernels/cross.hpp"
#include "weft/mesh/points.hpp"

namespace weft::flow {

template <class T>
Forces<T>::Forces(space::Space<T>& space, const std::vector<std::string>& boundaries)
    : space_(space), boundaries_(boundaries) {
  const mesh::Mesh& mesh = space.mesh();
  for (const std::string& name : boundaries) {
    if (std::ranges::find(mesh.boundary_names, name) != mesh.boundary_names.end()) continue;
    std::string known;
    for (const std::string& other : mesh.boundary_names) known += (known.empty() ? "" : ", ") + other;
    throw mpi::CollectiveError("flow: force on \"" + name + "\", which is not a boundary of " + mesh.source +
                               "; it has: " + (known.empty() ? "none" : known));
  }
  for (const space::BoundaryFace& face : space.faces()) {
    const auto found = std::ranges::find(boundaries, mesh.boundary_names[face.boundary]);
    if (found == boundaries.end()) continue;
    faces_.push_back(face);
    which_.push_back(static_cast<int>(found - boundaries.begin()));
  }
  geometry_ = face_geometry(mesh, space.order(), faces_);
  const std::vector<std::int32_t> index = space.point_index();
  const auto n = static_cast<std::int64_t>(space.order() + 1);
  const std::int64_t points = n * n * n;
  set_places();
  for (const space::BoundaryFace& face : faces_)
    index_.insert(index_.end(), index.begin() + face.element * points, index.begin() + (face.element + 1) * points);
}

template <class T>
void Forces<T>::set_places() {
  if (faces_.empty()) return;
  const int n = space_.order() + 1;
  const std::size_t face = static_cast<std::size_t>(n) * n;
  const std::vector<double> coordinates = mesh::point_coordinates(space_.mesh(), space_.order());
  places_.resize(faces_.size() * 3 * face);
  heights_.resize(faces_.size() * face);
  for (std::size_t f = 0; f < faces_.size(); ++f) {
    const double* x = coordinates.data() + static_cast<std::size_t>(faces_[f].element) * face * n * 3;
    for (int b = 0; b < n; ++b) {
      for (int a = 0; a < n; ++a) {
        const std::size_t point = static_cast<std::size_t>(b) * n + a;
        const std::size_t at = 3 * space::point_of_side(faces_[f].side, a, b, n);
        const std::size_t next = 3 * space::point_of_side(faces_[f].side, a, b, n, 1);
        const Vector normal = normal_of(f, point);
        double height = 0;
        for (int c = 0; c < 3; ++c) {
          places_[(f * 3 + c) * face + point] = x[at + c];
          height += normal[c] * (x[at + c] - x[next + c]);
        }
        heights_[f * face + point] = height / std::hypot(normal[0], normal[1], normal[2]);
      }
    }
  }
}

template <class T>
Vector Forces<T>::normal_of(std::size_t face, std::size_t point) const {
  const std::size_t n = static_cast<std::size_t>(space_.order() + 1);
  Vector normal{};
  for (std::size_t c = 0; c < 3; ++c) normal[c] = geometry_.normals[(face * 3 + c) * n * n + point];
  return normal;
}

template <class T>
std::vector<Force> Forces<T>::compute(T* u, T* p, double viscosity, const Vector& centre, device::Stream& stream) {
  const std::int64_t entries = space_.entries();
  const std::array<T*, 4> fields{u, u + entries, u + 2 * entries, p};
  for (T* field : fields) space_.fill_halo(field, stream);
  std::vector<T> copies;
  std::array<const T*, 4> values{fields[0], fields[1], fields[2], fields[3]};
  if (!space_.device()->is_host()) {
    copies.resize(static_cast<std::size_t>(4 * entries));
    for (int f = 0; f < 4; ++f) {
      space_.device()->copy(copies.data() + f * entries, fields[f], entries * sizeof(T),
                            device::CopyKind::device_to_host, stream);
      values[f] = copies.data() + f * entries;
    }
  }
  stream.synchronize();

  const int n = space_.order() + 1;
  const std::size_t face = static_cast<std::size_t>(n) * n;
  const std::vector<double>& derivative = element::gll(space_.order()).derivative;
  std::vector<Force> forces(boundaries_.size());
  std::vector<double> areas(boundaries_.size());
  for (std::size_t f = 0; f < faces_.size(); ++f) {
    const std::int32_t* at = index_.data() + f * face * n;
    const int side = faces_[f].side;
    Force& force = forces[which_[f]];
    for (int b = 0; b < n; ++b) {
      for (int a = 0; a < n; ++a) {
        const std::size_t point = static_cast<std::size_t>(b) * n + a;
        double slope[3][3] = {};  // du_c/dr, du_c/da, du_c/db; r points into the element
        for (int c = 0; c < 3; ++c) {
          for (int m = 0; m < n; ++m) {
            slope[c][0] += derivative[m] * values[c][at[space::point_of_side(side, a, b, n, m)]];
            slope[c][1] += derivative[a * n + m] * values[c][at[space::point_of_side(side, m, b, n)]];
            slope[c][2] += derivative[b * n + m] * values[c][at[space::point_of_side(side, a, m, n)]];
          }
        }
        double gradient[3][3] = {};  // du_c/dx_d
        for (int c = 0; c < 3; ++c)
          for (int d = 0; d < 3; ++d)
            for (int q = 0; q < 3; ++q)
              gradient[c][d] += slope[c][q] * geometry_.metric[(f * 9 + 3 * q + d) * face + point];
        const double pressure = values[3][at[space::point_of_side(side, a, b, n)]];
        const Vector normal = normal_of(f, point);
        const double area = std::hypot(normal[0], normal[1], normal[2]);
        Vector arm{}, push{}, drag{};  // lever arm, pressure and viscous parts of w t dA
        double across = 0;             // the component of drag along the normal
        for (int c = 0; c < 3; ++c) {
          arm[c] = places_[(f * 3 + c) * face + point] - centre[c];
          push[c] = pressure * normal[c];
          for (int d = 0; d < 3; ++d) drag[c] -= viscosity * (gradient[c][d] + gradient[d][c]) * normal[d];
          across += drag[c] * normal[c] / area;
        }
        const Vector push_moment = cross(arm, push), drag_moment = cross(arm, drag);
        double square = 0;
        for (int c = 0; c < 3; ++c) {
          force.pressure[c] += push[c];
          force.viscous[c] += drag[c];
          force.pressure_moment[c] += push_moment[c];
          force.viscous_moment[c] += drag_moment[c];
          square += std::pow(drag[c] - across * normal[c] / area, 2);
        }
        const double shear = std::sqrt(square) / area;
        const double y_plus = heights_[f * face + point] * std::sqrt(shear) / viscosity;
        areas[which_[f]] += area;
        force.mean_shear += shear * area;
        force.mean_y_plus += y_plus * area;
        force.largest_shear = std::max(force.largest_shear, shear);
        force.largest_y_plus = std::max(force.largest_y_plus, y_plus);
      }
    }
  }
  std::vector<double> sums;
  for (std::size_t i = 0; i < forces.size(); ++i) {
    Force& force = forces[i];
    for (const Vector* part : {&force.pressure, &force.viscous, &force.pressure_moment, &force.viscous_moment})
      sums.insert(sums.end(), part->begin(), part->end());
    sums.insert(sums.end(), {force.mean_shear, force.mean_y_plus, areas[i]});
  }
  space_.comm().sum(sums.data(), static_cast<int>(sums.size()));
  const double* sum = sums.data();
  for (Force& force : forces) {
    for (Vector* part : {&force.pressure, &force.viscous, &force.pressure_moment, &force.viscous_moment}) {
      std::copy_n(sum, 3, part->begin());
      sum += 3;
    }
    force.mean_shear = sum[0] / sum[2];
    force.mean_y_plus = sum[1] / sum[2];
    sum += 3;
    force.largest_shear = space_.comm().max(force.largest_shear);
    force.largest_y_plus = space_.comm().max(force.largest_y_plus);
  }
  return forces;
}

template class Forces<float>;
template class Forces<double>;

}  // namespace weft::flow
