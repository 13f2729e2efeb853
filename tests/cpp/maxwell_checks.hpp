// Maxwell's equations with all features, for tests: three materials, every boundary, a wave, a dipole, a layer.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mesh_checks.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/maxwell/solver.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"

namespace weft::test {

// Materials by global element, conditions by boundary in turn. driven: with a plane wave, a dipole at `dipole`, and
// damping in the first two elements.
inline maxwell::Options maxwell_options(const mesh::Mesh& mesh, int order, const char* device, bool driven,
                                        std::array<double, 3> dipole = {0.3, 0.4, 0.2}) {
  using namespace maxwell;
  Options options;
  options.order = order;
  options.device = device::open(device);
  options.exchange = options.device->is_host() ? "pairwise:direct" : "pairwise:staged";  // no tuning
  constexpr std::array<Condition, 3> conditions{Condition::pec, Condition::pmc, Condition::absorbing};
  for (std::size_t b = 0; b < mesh.boundary_names.size(); ++b)
    options.boundaries[mesh.boundary_names[b]] = conditions[(b + 2) % conditions.size()];
  options.materials = {{"vacuum", {1, 1, 0}}, {"glass", {2.25, 1, 0}}, {"mud", {5, 1.5, 0.7}}};
  for (const std::int64_t id : mesh.element_ids) options.regions.push_back(static_cast<std::int32_t>(id % 3));
  if (!driven) return options;
  options.waves = {{.direction = {1, 2, 0}, .field = {2, -1, 0.5}, .pulse = {.frequency = 2, .ramp = 0.5}}};
  for (const std::int64_t id : mesh.element_ids) options.total_field.push_back(id % 2 == 0);
  options.dipoles = {{.position = dipole, .moment = {1, -1, 2}, .pulse = {.frequency = 1, .delay = 0.1, .width = 0.2}}};
  const std::size_t each = 3 * static_cast<std::size_t>((order + 1) * (order + 1) * (order + 1));
  options.damping.resize(mesh.element_ids.size() * each);
  for (std::size_t e = 0; e < mesh.element_ids.size(); ++e)
    for (std::size_t i = 0; i < each && mesh.element_ids[e] < 2; ++i)
      options.damping[e * each + i] = 0.1 * static_cast<double>(i % 7);
  return options;
}

// Smooth fields without symmetry at the mesh's points.
template <class T>
std::vector<T> smooth_fields(const mesh::Mesh& mesh, int order) {
  const std::vector<double> x = mesh::point_coordinates(mesh, order);
  const std::size_t each = static_cast<std::size_t>(order + 1) * (order + 1) * (order + 1);
  std::vector<T> fields(x.size() * 2);
  for (std::size_t p = 0; p < x.size() / 3; ++p)
    for (std::size_t c = 0; c < 6; ++c)
      fields[(p / each * 6 + c) * each + p % each] =
          static_cast<T>(std::sin(1.3 * x[3 * p] + (0.7 + 0.2 * c) * x[3 * p + 1] - 1.1 * x[3 * p + 2] + c));
  return fields;
}

// The fields of all ranks after some steps, by global element.
template <class T>
std::map<std::int64_t, std::vector<T>> trajectory(const mesh::Mesh& mesh, const maxwell::Options& options, int steps,
                                                  double dt) {
  maxwell::Operator<T> op(mesh, options);
  maxwell::Solver<T> solver(op);
  solver.fields().upload(smooth_fields<T>(mesh, options.order));
  solver.fields_changed();
  solver.step(1, dt);
  solver.step(steps - 1, dt);
  const auto all = all_gather(solver.fields().download(), mesh.comm);
  const auto ids = all_gather(mesh.element_ids.get(), mesh.comm);
  const std::size_t each = ids.empty() ? 0 : all.size() / ids.size();
  std::map<std::int64_t, std::vector<T>> result;
  for (std::size_t e = 0; e < ids.size(); ++e)
    result[ids[e]].assign(all.begin() + static_cast<std::ptrdiff_t>(e * each),
                          all.begin() + static_cast<std::ptrdiff_t>((e + 1) * each));
  return result;
}

}  // namespace weft::test
