// A flow with all features, for tests: all boundary conditions, a scalar with buoyancy, a force, variable steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coarse_solver.hpp"
#include "mesh_checks.hpp"
#include "weft/flow/solver.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/program/program.hpp"

namespace weft::test {

// A program given by the names of its operations; "c" takes the next constant.
inline program::Code code(const std::vector<std::string>& names, std::vector<double> constants = {}) {
  std::vector<std::int32_t> operations;
  for (const std::string& name : names) {
    const auto& known = program::operations();
    const auto found = std::ranges::find(known, name == "c" ? "constant" : name, &program::Operation::name);
    operations.push_back(static_cast<std::int32_t>(found - known.begin()));
  }
  return {std::move(operations), std::move(constants)};
}

template <class T>
flow::Function<T> function(const std::vector<program::Code>& codes, const std::shared_ptr<device::Device>& device) {
  std::vector<std::shared_ptr<program::Program<T>>> programs;
  for (const program::Code& one : codes) programs.push_back(std::make_shared<program::Program<T>>(one, device));
  return
      [programs](const T* places, std::int64_t stride, std::int64_t n, double time, T* values, device::Stream& stream) {
        for (std::size_t c = 0; c < programs.size(); ++c)
          programs[c]->evaluate(places, stride, n, time, values + static_cast<std::int64_t>(c) * stride, stream);
      };
}

// The space of a small box, without tuning.
inline poisson::Options space_options(const mesh::Mesh& mesh, int order, const char* device,
                                      const char* exchange = "pairwise:direct") {
  poisson::Options options;
  options.order = order;
  options.geometry = mesh.straight() ? poisson::Geometry::trilinear : poisson::Geometry::stored;
  options.device = device::open(device);
  options.exchange = exchange;
  return options;
}

// x-: an inflow that grows with time; x+: outflow; y-: wall; y+: symmetry; z-, z+: moving and resting walls. The scalar
// is fixed at x- and has a flux through y-.
template <class T>
flow::Options<T> flow_options(const std::shared_ptr<device::Device>& device) {
  using namespace flow;
  Options<T> options;
  options.viscosity = 0.05;
  const program::Code zero = code({"c"}, {0.0}), one = code({"c"}, {1.0});
  // y (1 + t)
  const program::Code inflow = code({"y", "c", "t", "add", "multiply"}, {1.0});
  options.boundaries["x-"] = {Kind::velocity, function<T>({inflow, zero, zero}, device), false};
  options.boundaries["x+"] = {Kind::outflow};
  options.boundaries["y-"] = {Kind::wall};
  options.boundaries["y+"] = {Kind::symmetry};
  options.boundaries["z-"] = {Kind::wall};
  options.boundaries["z+"] = {Kind::velocity, function<T>({inflow, zero, zero}, device), false};
  ScalarOptions<T> heat{.name = "heat", .diffusivity = 0.02};
  heat.boundaries["x-"] = {ScalarKind::value, function<T>({code({"z"})}, device)};
  heat.boundaries["y-"] = {ScalarKind::flux, function<T>({one}, device)};
  heat.source = function<T>({code({"x", "t", "multiply"})}, device);
  options.scalars.push_back(std::move(heat));
  options.force = function<T>({zero, code({"x", "sin"}), one}, device);
  options.buoyancy = {{"heat", {0, 0, 0.7}, 0.1}};
  options.filter = {0.05, 1};
  options.pressure.single = false;
  options.pressure_tolerance = options.velocity_tolerance = options.scalar_tolerance = 1e-10;
  return options;
}

template <class T>
void set_coarse(flow::Solver<T>& solver) {
  auto& pressure = solver.pressure();
  if (pressure.orders().size() == 1) return;
  pressure.set_coarse(exact_coarse_solver(pressure.coarse_matrix(), solver.space().comm(), pressure.coarse_unknowns(),
                                          pressure.singular()));
}

// [element] velocity, scalars and pressure of all ranks at the points, by global element.
template <class T>
std::map<std::int64_t, std::vector<T>> fields_by_element(flow::Solver<T>& solver) {
  solver.stream().synchronize();
  auto& space = solver.space();
  const int count = solver.state().components();
  std::vector<T> values = space.to_points(solver.state().fields(), count);
  const std::vector<T> pressure = space.to_points(solver.state().pressure(), 1);
  values.insert(values.end(), pressure.begin(), pressure.end());
  const auto own = static_cast<std::size_t>(space.mesh().elements());
  const std::size_t fields = static_cast<std::size_t>(count) + 1;
  const std::size_t each = static_cast<std::size_t>((space.order() + 1) * (space.order() + 1) * (space.order() + 1));
  std::vector<T> by_element;
  for (std::size_t e = 0; e < own; ++e)
    for (std::size_t f = 0; f < fields; ++f)
      by_element.insert(by_element.end(), values.begin() + static_cast<std::ptrdiff_t>((f * own + e) * each),
                        values.begin() + static_cast<std::ptrdiff_t>((f * own + e + 1) * each));
  const auto all = all_gather(by_element, space.comm());
  const auto ids = all_gather(space.mesh().element_ids.get(), space.comm());
  std::map<std::int64_t, std::vector<T>> result;
  for (std::size_t e = 0; e < ids.size(); ++e)
    result[ids[e]].assign(all.begin() + static_cast<std::ptrdiff_t>(e * fields * each),
                          all.begin() + static_cast<std::ptrdiff_t>((e + 1) * fields * each));
  return result;
}

// The fields after steps of several lengths.
template <class T>
std::map<std::int64_t, std::vector<T>> flow_trajectory(const mesh::Mesh& mesh, const poisson::Options& space,
                                                       const flow::Options<T>& options, int steps) {
  flow::Solver<T> solver(mesh, space, options);
  set_coarse(solver);
  for (int s = 0; s < steps; ++s) solver.step(s % 3 == 1 ? 0.01 : 0.008);
  return fields_by_element(solver);
}

}  // namespace weft::test
