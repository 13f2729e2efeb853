// A flow and its solver as Python objects: shared by the files that bind parts of them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/flow/solver.hpp"
#include "weft/program/program.hpp"

namespace weft::bindings {

// A Python function of NumPy arrays ([3][n], t) that returns [components][n], evaluated on the host.
template <class T>
flow::Function<T> host_function(nanobind::object callable, int components,
                                const std::shared_ptr<device::Device>& device) {
  // Deleted with Python's lock held, no matter which thread drops the last reference.
  const std::shared_ptr<nanobind::object> held(new nanobind::object(std::move(callable)), [](nanobind::object* object) {
    nanobind::gil_scoped_acquire acquire;
    delete object;
  });
  return [held, components, device](const T* places, std::int64_t stride, std::int64_t n, double time, T* values,
                                    device::Stream& stream) {
    std::vector<T> at(3 * n);
    for (int c = 0; c < 3; ++c)
      device->copy(at.data() + c * n, places + c * stride, n * sizeof(T), device::CopyKind::device_to_host, stream);
    stream.synchronize();
    std::vector<T> result(components * n);
    {
      nanobind::gil_scoped_acquire acquire;
      const auto count = static_cast<std::size_t>(n);
      const nanobind::object given =
          (*held)(nanobind::ndarray<nanobind::numpy, T>(at.data(), {3, count}).cast(nanobind::rv_policy::copy), time);
      const auto array =
          nanobind::cast<nanobind::ndarray<const T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>>(
              given);
      if (array.shape(0) != static_cast<std::size_t>(components) || array.shape(1) != count)
        throw std::invalid_argument("flow: a function gave [" + std::to_string(array.shape(0)) + "][" +
                                    std::to_string(array.shape(1)) + "] values instead of [" +
                                    std::to_string(components) + "][" + std::to_string(n) + "]");
      std::copy_n(array.data(), result.size(), result.begin());
    }
    for (int c = 0; c < components; ++c)
      device->copy(values + c * stride, result.data() + c * n, n * sizeof(T), device::CopyKind::host_to_device, stream);
    stream.synchronize();
  };
}

// From None, a list of programs (weft.program.compiled) with one per component, or a callable, whose attribute `steady`
// says whether its values are constant in time.
template <class T>
flow::Function<T> function_of(const nanobind::object& given, int components,
                              const std::shared_ptr<device::Device>& device, bool* steady = nullptr) {
  if (steady != nullptr) *steady = true;
  if (given.is_none()) return {};
  if (!nanobind::isinstance<nanobind::list>(given)) {
    if (steady != nullptr) *steady = nanobind::cast<bool>(given.attr("steady"));
    return host_function<T>(given, components, device);
  }
  std::vector<std::shared_ptr<program::Program<T>>> programs;
  for (const nanobind::handle code : nanobind::cast<nanobind::list>(given)) {
    programs.push_back(std::make_shared<program::Program<T>>(nanobind::cast<program::Code>(code), device));
    if (steady != nullptr) *steady = *steady && !programs.back()->code().depends_on_time();
  }
  return
      [programs](const T* places, std::int64_t stride, std::int64_t n, double time, T* values, device::Stream& stream) {
        for (std::size_t c = 0; c < programs.size(); ++c)
          programs[c]->evaluate(places, stride, n, time, values + static_cast<std::int64_t>(c) * stride, stream);
      };
}

template <class T>
class Flow {
 public:
  using HostFields = nanobind::ndarray<const T, nanobind::ndim<5>, nanobind::c_contig, nanobind::device::cpu>;
  using HostField = nanobind::ndarray<const T, nanobind::ndim<4>, nanobind::c_contig, nanobind::device::cpu>;

  Flow(const mesh::Mesh& mesh, const poisson::Options& stiffness, const flow::Options<T>& options)
      : solver_(mesh, stiffness, options) {}
  flow::Solver<T>& solver() { return solver_; }

  void set_velocity(const HostFields& values, int level) {
    check(values.ndim(), [&](std::size_t axis) { return values.shape(axis); }, level);
    set(std::span<const T>(values.data(), values.size()), 3, solver_.state().velocity(level));
  }
  Numpy<T, 5> velocity(int level) {
    check_level(level);
    return fields(3, solver_.state().velocity(level));
  }
  void set_scalar(int number, const HostField& values, int level) {
    check(values.ndim(), [&](std::size_t axis) { return values.shape(axis); }, level);
    set(std::span<const T>(values.data(), values.size()), 1, solver_.state().scalar(number, level));
  }
  Numpy<T, 4> scalar(int number, int level) {
    check_level(level);
    return field(solver_.state().scalar(number, level));
  }
  void set_pressure(const HostField& values) {
    check(values.ndim(), [&](std::size_t axis) { return values.shape(axis); }, 0);
    set(std::span<const T>(values.data(), values.size()), 1, solver_.state().pressure());
  }
  Numpy<T, 4> pressure() { return field(solver_.state().pressure()); }

  // A function of position and time, evaluated at the points: [components][E][n][n][n].
  Numpy<T, 5> evaluate(const nanobind::object& given, int components, double time) {
    const auto& space = solver_.space();
    const flow::Function<T> function = function_of<T>(given, components, space.device());
    device::Array<T> values(space.device(), static_cast<std::size_t>(components * space.entries()));
    {
      nanobind::gil_scoped_release release;
      values.zero();
      const device::Array<T> places(space.device(), space.coordinates());
      function(places.data(), space.entries(), space.unknowns(), time, values.data(), solver_.stream());
      solver_.stream().synchronize();
    }
    return fields(components, values.data());
  }

 private:
  void check_level(int level) {
    if (level < 0 || level >= solver_.state().order)
      throw std::invalid_argument("flow: there are levels 0 to " + std::to_string(solver_.state().order - 1) +
                                  ", not " + std::to_string(level));
  }
  template <class Shape>
  void check(std::size_t dimensions, const Shape& shape, int level) {
    check_level(level);
    const auto n = static_cast<std::size_t>(solver_.space().order() + 1);
    const auto elements = static_cast<std::size_t>(solver_.space().mesh().elements());
    bool right = dimensions == 4 || shape(0) == 3;
    right = right && shape(dimensions - 4) == elements;
    for (std::size_t axis = dimensions - 3; axis < dimensions; ++axis) right = right && shape(axis) == n;
    if (right) return;
    const std::string side = "[" + std::to_string(n) + "]";
    throw std::invalid_argument(std::string("flow: values are ") + (dimensions == 5 ? "[3]" : "") + "[" +
                                std::to_string(elements) + "]" + side + side + side + " on this rank");
  }
  void set(std::span<const T> values, int fields, T* vectors) {
    nanobind::gil_scoped_release release;
    solver_.stream().synchronize();
    solver_.space().to_vectors(values, fields, vectors);
  }
  // Converts vectors [fields][entries] to [fields][E][n][n][n], and a single vector to [E][n][n][n].
  Numpy<T, 5> fields(int count, const T* vectors) {
    std::vector<T> values = at_points(count, vectors);
    return to_numpy(std::move(values), {static_cast<std::size_t>(count), elements(), side(), side(), side()});
  }
  Numpy<T, 4> field(const T* vector) {
    std::vector<T> values = at_points(1, vector);
    return to_numpy(std::move(values), {elements(), side(), side(), side()});
  }
  std::vector<T> at_points(int count, const T* vectors) {
    nanobind::gil_scoped_release release;
    solver_.stream().synchronize();
    return solver_.space().to_points(vectors, count);
  }
  std::size_t elements() { return static_cast<std::size_t>(solver_.space().mesh().elements()); }
  std::size_t side() { return static_cast<std::size_t>(solver_.space().order() + 1); }

  flow::Solver<T> solver_;
};

}  // namespace weft::bindings
