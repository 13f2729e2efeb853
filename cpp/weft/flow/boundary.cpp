#include "weft/flow/boundary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/flow/faces.hpp"
#include "weft/mesh/conditions.hpp"

namespace weft::flow {
namespace {

constexpr device::Shape list_shape{256};
std::int64_t list_blocks(std::int64_t count) { return (count + 255) / 256; }
constexpr double axis_tolerance = 1e-6;  // relative; loose enough for geometry from files in single precision
constexpr const char* condition_words = "wall, velocity, outflow, symmetry";

template <class T>
device::LoadedKernel flow_kernel(device::Device& device, const char* name) {
  return device.kernel<T>("flow", name);
}

// The owned entries for which `wanted` is true.
template <class Wanted>
std::vector<std::int32_t> owned_where(std::int64_t unknowns, const Wanted& wanted) {
  std::vector<std::int32_t> list;
  for (std::int64_t i = 0; i < unknowns; ++i)
    if (wanted(static_cast<std::size_t>(i))) list.push_back(static_cast<std::int32_t>(i));
  return list;
}

// The axis that a side is normal to; -1 if there is none.
int axis_of(const double* normals, std::size_t points) {
  double total[3] = {};
  for (std::size_t p = 0; p < points; ++p)
    for (int c = 0; c < 3; ++c) total[c] += normals[c * points + p];
  const int axis =
      static_cast<int>(std::ranges::max_element(total, {}, [](double v) { return std::abs(v); }) - std::begin(total));
  for (std::size_t p = 0; p < points; ++p)
    for (int c = 0; c < 3; ++c)
      if (c != axis && !(std::abs(normals[c * points + p]) <= axis_tolerance * std::abs(normals[axis * points + p])))
        return -1;
  return axis;
}

template <class T>
std::vector<T> gathered(const std::vector<T>& values, const std::vector<std::int32_t>& list, int components) {
  const std::size_t stride = values.size() / components;
  std::vector<T> result;
  for (int c = 0; c < components; ++c)
    for (const std::int32_t entry : list) result.push_back(values[c * stride + entry]);
  return result;
}

}  // namespace

std::string name(Kind kind) {
  return kind == Kind::wall       ? "wall"
         : kind == Kind::velocity ? "velocity"
         : kind == Kind::outflow  ? "outflow"
                                  : "symmetry";
}

std::string name(ScalarKind kind) {
  return kind == ScalarKind::value ? "value" : kind == ScalarKind::flux ? "flux" : "insulated";
}

template <class T>
Prescribed<T>::Prescribed(const space::Space<T>& space, const std::vector<std::int32_t>& entries, Function<T> function,
                          int components, bool steady)
    : function_(std::move(function)),
      steady_(steady),
      list_(space.device(), entries),
      values_(space.device(), components * entries.size()) {
  places_ = device::Array<T>(space.device(), gathered(space.coordinates(), entries, 3));
}

template <class T>
void Prescribed<T>::evaluate(double time, device::Stream& stream) {
  if (count() == 0 || (steady_ && evaluated_)) return;
  function_(places_.data(), count(), count(), time, values_.data(), stream);
  evaluated_ = true;
}

template <class T>
Boundaries<T>::Boundaries(space::Space<T>& space, const std::map<std::string, Condition<T>>& conditions)
    : space_(space) {
  const mesh::Mesh& mesh = space.mesh();
  const auto& device = space.device();
  const auto size = static_cast<std::size_t>(space.entries());
  const auto points = static_cast<std::size_t>((space.order() + 1) * (space.order() + 1));
  {
    std::vector<std::string> given;
    for (const auto& [name, condition] : conditions) given.push_back(name);
    mesh::check_conditions(mesh, given, "flow", condition_words);
  }
  const auto condition_of = [&](const space::BoundaryFace& face) -> const Condition<T>& {
    return conditions.at(mesh.boundary_names[face.boundary]);
  };
  const std::vector<space::BoundaryFace> faces = space.faces();
  const std::vector<std::int32_t> face_entries = space.face_entries();
  const auto entries_of = [&](std::size_t face) { return std::span(face_entries).subspan(face * points, points); };
  const FaceGeometry geometry = face_geometry(mesh, space.order(), faces);

  // The condition of each entry, no matter which rank holds the side: 0 is free; larger values take precedence.
  constexpr std::int32_t wall = std::numeric_limits<std::int32_t>::max();
  const auto strength = [&](std::int32_t boundary) {
    return static_cast<std::int32_t>(mesh.boundary_names.size()) - boundary;
  };
  std::vector<std::int32_t> fixed(size), out(size);
  std::array<std::vector<std::int32_t>, 3> mirrored;
  for (auto& component : mirrored) component.assign(size, 0);
  mesh.comm.together([&] {
    for (std::size_t f = 0; f < faces.size(); ++f) {
      const Kind kind = condition_of(faces[f]).kind;
      const int axis = kind == Kind::symmetry ? axis_of(geometry.normals.data() + f * 3 * points, points) : 0;
      if (axis < 0) {
        std::ostringstream text;
        text << "flow: the boundary \"" << mesh.boundary_names[faces[f].boundary] << "\" cannot be a symmetry plane: "
             << "its side of element " << mesh.element_ids[faces[f].element]
             << " (counting from 0) is not normal to an axis; only planes of constant x, y or z can";
        throw std::invalid_argument(text.str());
      }
      for (const std::int32_t entry : entries_of(f)) {
        if (kind == Kind::wall) fixed[entry] = wall;
        if (kind == Kind::velocity) fixed[entry] = std::max(fixed[entry], strength(faces[f].boundary));
        if (kind == Kind::outflow) out[entry] = 1;
        if (kind == Kind::symmetry) mirrored[axis][entry] = 1;
      }
    }
  });
  space.combine(fixed, exchange::Op::max);
  space.combine(out, exchange::Op::max);
  for (auto& component : mirrored) space.combine(component, exchange::Op::max);

  if (std::ranges::any_of(conditions, [](const auto& named) { return named.second.kind != Kind::outflow; })) {
    std::vector<T> mask(3 * size);
    for (int c = 0; c < 3; ++c)
      for (std::size_t i = 0; i + 1 < size; ++i)
        mask[c * size + i] = fixed[i] == 0 && mirrored[c][i] == 0 ? T(1) : T(0);
    velocity_mask_ = device::Array<T>(device, mask);
  }

  const std::int64_t unknowns = space.unknowns();
  for (int c = 0; c < 3; ++c)
    zeros_[c] = device::Array<std::int32_t>(
        device, owned_where(unknowns, [&](std::size_t i) { return fixed[i] == wall || mirrored[c][i] != 0; }));
  for (std::size_t b = 0; b < mesh.boundary_names.size(); ++b) {
    const auto found = conditions.find(mesh.boundary_names[b]);
    if (found == conditions.end()) continue;  // a boundary without sides
    const auto& [name, condition] = *found;
    if (condition.kind == Kind::outflow) outflow_.push_back(name);
    if (condition.kind != Kind::velocity) continue;
    const std::int32_t own = strength(static_cast<std::int32_t>(b));
    inflows_.emplace_back(space, owned_where(unknowns, [&](std::size_t i) { return fixed[i] == own; }),
                          condition.velocity, 3, condition.steady);
  }

  if (!outflow_.empty()) {
    std::vector<T> mask(size);
    for (std::size_t i = 0; i + 1 < size; ++i) mask[i] = out[i] == 0 ? T(1) : T(0);
    pressure_mask_ = device::Array<T>(device, mask);
  }

  // Quadrature weights times normals: of the sides where the velocity is known, and of outflow sides. The former use
  // only entries with a nonzero velocity.
  std::array<std::vector<T>, 2> normals;
  for (int which = 0; which < 2; ++which) {
    for (int c = 0; c < 3; ++c) {
      std::vector<double> sums(size);
      for (std::size_t f = 0; f < faces.size(); ++f) {
        if ((condition_of(faces[f]).kind == Kind::outflow) != (which == 1)) continue;
        const auto entries = entries_of(f);
        for (std::size_t p = 0; p < points; ++p) sums[entries[p]] += geometry.normals[(f * 3 + c) * points + p];
      }
      std::vector<T> values(sums.begin(), sums.end());
      space.combine(values, exchange::Op::add);
      normals[which].insert(normals[which].end(), values.begin(), values.end());
    }
  }
  const auto weighted = [&](const std::vector<std::int32_t>& list, const std::vector<T>& all) {
    return Weighted{device::Array<std::int32_t>(device, list), device::Array<T>(device, gathered(all, list, 3))};
  };
  flux_ = weighted(owned_where(unknowns, [&](std::size_t i) { return fixed[i] > 0 && fixed[i] < wall; }), normals[0]);
  backflow_ = weighted(owned_where(unknowns, [&](std::size_t i) { return out[i] != 0 && fixed[i] == 0; }), normals[1]);

  std::vector<space::BoundaryFace> rigid;
  for (const space::BoundaryFace& face : faces) {
    const Kind kind = condition_of(face).kind;
    if (kind == Kind::wall || kind == Kind::velocity) rigid.push_back(face);
  }
  std::array<std::int64_t, 3> counts{std::ranges::count_if(out, [](auto v) { return v != 0; }),
                                     static_cast<std::int64_t>(rigid.size()),
                                     static_cast<std::int64_t>(flux_.list.size())};
  mesh.comm.sum(counts.data(), 3);
  pressure_singular_ = counts[0] == 0;
  has_vorticity_ = counts[1] > 0;
  has_inflow_ = counts[2] > 0;
  put_ = flow_kernel<T>(*device, "flow_put");
  fill_ = flow_kernel<T>(*device, "flow_fill");
  boundary_flux_ = flow_kernel<T>(*device, "flow_boundary_flux");
  backflow_kernel_ = flow_kernel<T>(*device, "flow_backflow");
  if (has_vorticity_) set_up_vorticity(rigid);
}

template <class T>
void Boundaries<T>::set_up_vorticity(const std::vector<space::BoundaryFace>& faces) {
  const auto& device = space_.device();
  const int n = space_.order() + 1;
  const std::size_t points = static_cast<std::size_t>(n) * n;
  vorticity_faces_ = std::ssize(faces);
  const FaceGeometry geometry = face_geometry(space_.mesh(), space_.order(), faces);
  const auto upload = [&](const std::vector<double>& values) {
    return device::Array<T>(device, std::vector<T>(values.begin(), values.end()));
  };
  derivative_ = upload(element::gll(space_.order()).derivative);
  metric_ = upload(geometry.metric);
  tangents_ = upload(geometry.tangents);
  face_values_ = device::Array<T>(device, faces.size() * points);

  const std::vector<std::int32_t> index = space_.point_index();
  std::vector<std::int32_t> layers;
  std::vector<std::vector<std::int32_t>> of_entry(space_.entries());
  for (std::size_t f = 0; f < faces.size(); ++f) {
    const std::size_t element = static_cast<std::size_t>(faces[f].element) * points * n;
    for (int layer = 0; layer < n; ++layer) {
      for (int b = 0; b < n; ++b) {
        for (int a = 0; a < n; ++a) {
          const std::int32_t entry = index[element + space::point_of_side(faces[f].side, a, b, n, layer)];
          if (layer == 0) of_entry[entry].push_back(static_cast<std::int32_t>(layers.size() - f * points * (n - 1)));
          layers.push_back(entry);
        }
      }
    }
  }
  face_index_ = device::Array<std::int32_t>(device, layers);
  std::vector<std::int32_t> rows, offsets{0}, columns;
  for (std::size_t entry = 0; entry < of_entry.size(); ++entry) {
    if (of_entry[entry].empty()) continue;
    rows.push_back(static_cast<std::int32_t>(entry));
    columns.insert(columns.end(), of_entry[entry].begin(), of_entry[entry].end());
    offsets.push_back(static_cast<std::int32_t>(columns.size()));
  }
  rows_ = device::Array<std::int32_t>(device, rows);
  offsets_ = device::Array<std::int32_t>(device, offsets);
  columns_ = device::Array<std::int32_t>(device, columns);
  wall_vorticity_ =
      device->template kernel<T>("flow_faces", "flow_wall_vorticity", {{"WEFT_N", std::to_string(space_.order())}});
  add_rows_ = flow_kernel<T>(*device, "flow_add_rows");
}

template <class T>
void Boundaries<T>::prescribe(double time, T* u, device::Stream& stream) {
  const std::int64_t stride = space_.entries();
  for (int c = 0; c < 3; ++c) {
    const auto count = static_cast<std::int64_t>(zeros_[c].size());
    fill_(stream, list_blocks(count), list_shape, count, zeros_[c].data(), 0, u + c * stride);
  }
  bool changed = !flux_checked_;
  for (Prescribed<T>& inflow : inflows_) {
    changed = changed || !inflow.steady();
    inflow.evaluate(time, stream);
    for (int c = 0; c < 3; ++c)
      put_(stream, list_blocks(inflow.count()), list_shape, inflow.count(), inflow.list(), inflow.values(c),
           u + c * stride);
  }
  if (has_inflow_ && pressure_singular_ && changed) check_net_flux(u, stream);
}

// Inflow and outflow must balance; otherwise no solenoidal velocity has these boundary values.
template <class T>
void Boundaries<T>::check_net_flux(const T* u, device::Stream& stream) {
  flux_checked_ = true;
  const auto& device = space_.device();
  const std::int64_t stride = space_.entries();
  std::vector<T> all(3 * stride);
  device->copy(all.data(), u, all.size() * sizeof(T), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  const std::vector<std::int32_t> list = flux_.list.download();
  const std::vector<T> normals = flux_.normals.download();
  double flux[2] = {0, 0};
  for (std::size_t i = 0; i < list.size(); ++i) {
    double sum = 0, area = 0, speed = 0;
    for (int c = 0; c < 3; ++c) {
      const auto n = static_cast<double>(normals[c * list.size() + i]);
      const auto v = static_cast<double>(all[c * stride + list[i]]);
      sum += n * v;
      area += n * n;
      speed += v * v;
    }
    flux[0] += sum;
    flux[1] += std::sqrt(area * speed);  // stays meaningful if all velocities are tangential up to rounding
  }
  space_.comm().sum(flux, 2);
  const double allowed = std::is_same_v<T, double> ? 1e-6 : 1e-4;
  if (std::abs(flux[0]) <= allowed * flux[1]) return;
  std::ostringstream text;
  text << "flow: the prescribed velocities let " << std::abs(flux[0]) << (flux[0] < 0 ? " in" : " out")
       << " in all (volume per unit of time), but no boundary is an outflow, so no incompressible flow has these "
       << "boundary values; make one boundary \"outflow\" or balance the velocities";
  throw mpi::CollectiveError(text.str());
}

template <class T>
void Boundaries<T>::add_flux(T a, const T* u, T* rhs, device::Stream& stream) const {
  const int count = static_cast<int>(flux_.list.size());
  boundary_flux_(stream, list_blocks(count), list_shape, count, flux_.list.data(), flux_.normals.data(),
                 space_.entries(), a, u, rhs);
}

template <class T>
void Boundaries<T>::add_backflow(const T* u, T* f, device::Stream& stream) const {
  const int count = static_cast<int>(backflow_.list.size());
  backflow_kernel_(stream, list_blocks(count), list_shape, count, backflow_.list.data(), backflow_.normals.data(),
                   space_.entries(), u, f);
}

template <class T>
void Boundaries<T>::add_wall_vorticity(T viscosity, T* u, T* rhs, device::Stream& stream) {
  if (!has_vorticity_) return;
  space_.fill_halo(u, stream, 3);
  const std::int64_t owned = space_.unknowns();
  space_.device()->fill_zero(rhs + owned, (space_.entries() - owned) * sizeof(T), stream);
  const auto n = static_cast<unsigned>(space_.order() + 1);
  wall_vorticity_(stream, vorticity_faces_, {n, n}, space_.entries(), viscosity, derivative_.data(), face_index_.data(),
                  metric_.data(), tangents_.data(), u, face_values_.data());
  const auto count = static_cast<std::int64_t>(rows_.size());
  add_rows_(stream, list_blocks(count), list_shape, count, rows_.data(), offsets_.data(), columns_.data(),
            face_values_.data(), rhs);
  space_.add_halo(rhs, stream);
}

template <class T>
std::int64_t Boundaries<T>::bytes() const {
  std::size_t sum = velocity_mask_.bytes() + pressure_mask_.bytes() + derivative_.bytes() + metric_.bytes() +
                    tangents_.bytes() + face_values_.bytes() + face_index_.bytes() + rows_.bytes() + offsets_.bytes() +
                    columns_.bytes();
  return static_cast<std::int64_t>(sum);
}

template <class T>
ScalarBoundaries<T>::ScalarBoundaries(space::Space<T>& space, const std::string& scalar,
                                      const std::map<std::string, ScalarCondition<T>>& conditions) {
  const mesh::Mesh& mesh = space.mesh();
  const auto& device = space.device();
  const auto size = static_cast<std::size_t>(space.entries());
  const auto points = static_cast<std::size_t>((space.order() + 1) * (space.order() + 1));
  {
    std::vector<std::string> given(mesh.boundary_names);
    for (const auto& [name, condition] : conditions)
      if (std::ranges::find(given, name) == given.end()) given.push_back(name);
    mesh::check_conditions(mesh, given, "flow: scalar \"" + scalar + "\"", "value, flux, insulated");
  }
  const auto kind_of = [&](std::size_t boundary) {
    const auto found = conditions.find(mesh.boundary_names[boundary]);
    return found == conditions.end() ? ScalarKind::insulated : found->second.kind;
  };
  const std::vector<space::BoundaryFace> faces = space.faces();
  const std::vector<std::int32_t> face_entries = space.face_entries();
  const auto entries_of = [&](std::size_t face) { return std::span(face_entries).subspan(face * points, points); };
  const FaceGeometry geometry = face_geometry(mesh, space.order(), faces);
  std::vector<std::int32_t> fixed(size);
  const auto names = static_cast<std::int32_t>(mesh.boundary_names.size());
  for (std::size_t f = 0; f < faces.size(); ++f)
    if (kind_of(faces[f].boundary) == ScalarKind::value)
      for (const std::int32_t entry : entries_of(f)) fixed[entry] = std::max(fixed[entry], names - faces[f].boundary);
  space.combine(fixed, exchange::Op::max);
  if (std::ranges::any_of(conditions, [](const auto& named) { return named.second.kind == ScalarKind::value; })) {
    std::vector<T> mask(size);
    for (std::size_t i = 0; i + 1 < size; ++i) mask[i] = fixed[i] == 0 ? T(1) : T(0);
    mask_ = device::Array<T>(device, mask);
  }

  for (std::int32_t b = 0; b < names; ++b) {
    const ScalarKind kind = kind_of(b);
    if (kind == ScalarKind::insulated) continue;
    const ScalarCondition<T>& condition = conditions.at(mesh.boundary_names[b]);
    if (kind == ScalarKind::value) {
      values_.emplace_back(space, owned_where(space.unknowns(), [&](std::size_t i) { return fixed[i] == names - b; }),
                           condition.values, 1, condition.steady);
      continue;
    }
    std::vector<T> area(size);
    for (std::size_t f = 0; f < faces.size(); ++f) {
      if (faces[f].boundary != b) continue;
      const double* normal = geometry.normals.data() + f * 3 * points;
      const auto entries = entries_of(f);
      for (std::size_t p = 0; p < points; ++p)
        area[entries[p]] += static_cast<T>(std::hypot(normal[p], normal[points + p], normal[2 * points + p]));
    }
    space.combine(area, exchange::Op::add);
    const auto list = owned_where(space.unknowns(), [&](std::size_t i) { return area[i] > 0 && fixed[i] == 0; });
    fluxes_.emplace_back(space, list, condition.values, 1, condition.steady);
    areas_.emplace_back(device, gathered(area, list, 1));
  }
  put_ = flow_kernel<T>(*device, "flow_put");
  flux_ = flow_kernel<T>(*device, "flow_flux");
}

template <class T>
void ScalarBoundaries<T>::prescribe(double time, T* s, device::Stream& stream) {
  for (Prescribed<T>& value : values_) {
    value.evaluate(time, stream);
    put_(stream, list_blocks(value.count()), list_shape, value.count(), value.list(), value.values(0), s);
  }
}

template <class T>
void ScalarBoundaries<T>::add_fluxes(double time, T* f, device::Stream& stream) {
  for (std::size_t k = 0; k < fluxes_.size(); ++k) {
    fluxes_[k].evaluate(time, stream);
    flux_(stream, list_blocks(fluxes_[k].count()), list_shape, fluxes_[k].count(), fluxes_[k].list(), areas_[k].data(),
          fluxes_[k].values(0), f);
  }
}

template class Prescribed<float>;
template class Prescribed<double>;
template class Boundaries<float>;
template class Boundaries<double>;
template class ScalarBoundaries<float>;
template class ScalarBoundaries<double>;

}  // namespace weft::flow
