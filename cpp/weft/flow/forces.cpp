#include "weft/flow/forces.hpp"

#include <algorithm>
#include <span>

#include "weft/element/gll.hpp"

namespace weft::flow {

template <class T>
Forces<T>::Forces(space::Space<T>& space, const std::vector<std::string>& boundaries)
    : space_(space), boundaries_(boundaries) {
  const mesh::Mesh& mesh = space.mesh();
  for (const std::string& name : boundaries) {
    if (std::ranges::find(mesh.boundary_names, name) != mesh.boundary_names.end()) continue;
    std::string known;
    for (const std::string& other : mesh.boundary_names) known += (known.empty() ? "" : ", ") + other;
    throw mpi::CollectiveError("flow: force on \"" + name + "\", which is no boundary of " + mesh.source +
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
  for (const space::BoundaryFace& face : faces_)
    index_.insert(index_.end(), index.begin() + face.element * points, index.begin() + (face.element + 1) * points);
}

template <class T>
std::vector<Force> Forces<T>::compute(T* u, T* p, double viscosity, device::Stream& stream) {
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
  for (std::size_t f = 0; f < faces_.size(); ++f) {
    const std::int32_t* at = index_.data() + f * face * n;
    const int side = faces_[f].side;
    Force& force = forces[which_[f]];
    for (int b = 0; b < n; ++b) {
      for (int a = 0; a < n; ++a) {
        const std::size_t point = static_cast<std::size_t>(b) * n + a;
        double slope[3][3] = {};  // du_c/dr, du_c/da, du_c/db; r into the element
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
        for (int c = 0; c < 3; ++c) {
          force.pressure[c] += pressure * geometry_.normals[(f * 3 + c) * face + point];
          for (int d = 0; d < 3; ++d)
            force.viscous[c] -=
                viscosity * (gradient[c][d] + gradient[d][c]) * geometry_.normals[(f * 3 + d) * face + point];
        }
      }
    }
  }
  std::vector<double> sums;
  for (const Force& force : forces) {
    sums.insert(sums.end(), force.pressure.begin(), force.pressure.end());
    sums.insert(sums.end(), force.viscous.begin(), force.viscous.end());
  }
  space_.comm().sum(sums.data(), static_cast<int>(sums.size()));
  for (std::size_t i = 0; i < forces.size(); ++i) {
    std::copy_n(sums.begin() + 6 * i, 3, forces[i].pressure.begin());
    std::copy_n(sums.begin() + 6 * i + 3, 3, forces[i].viscous.begin());
  }
  return forces;
}

template class Forces<float>;
template class Forces<double>;

}  // namespace weft::flow
