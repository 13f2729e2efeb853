// Maxwell's equations and their solver as Python objects: shared by the files that bind parts of them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/maxwell/solver.hpp"

namespace weft::bindings {

// An operator with its solver.
template <class T>
class Maxwell {
 public:
  using HostFields = nanobind::ndarray<const T, nanobind::ndim<5>, nanobind::c_contig, nanobind::device::cpu>;

  Maxwell(const mesh::Mesh& mesh, const maxwell::Options& options)
      : device_(options.device), op_(mesh, options), solver_(op_) {}

  maxwell::Operator<T>& op() { return op_; }
  maxwell::Solver<T>& solver() { return solver_; }

  void set_fields(const HostFields& values) {
    check(values);
    solver_.stream().synchronize();
    solver_.fields().upload(std::span<const T>(values.data(), values.size()));
    op_.rest();
    solver_.fields_changed();
  }

  std::pair<double, double> energy() {
    nanobind::gil_scoped_release release;
    return op_.energy(solver_.fields().data(), solver_.stream());
  }
  std::pair<double, double> divergence() {
    nanobind::gil_scoped_release release;
    if (device_->is_host()) return op_.divergence(std::span<const T>(solver_.fields().data(), solver_.fields().size()));
    return op_.divergence(solver_.fields().download());
  }

  // A copy of the rates of the given fields; the solver's own fields are unchanged.
  Numpy<T, 5> rates(double time, const HostFields& values) {
    check(values);
    std::vector<T> result;
    {
      nanobind::gil_scoped_release release;
      const device::Array<T> fields(device_, std::span<const T>(values.data(), values.size()));
      device::Array<T> rates(device_, values.size());
      op_.apply(time, fields.data(), rates.data(), solver_.stream());
      solver_.stream().synchronize();
      result = rates.download();
    }
    return to_numpy(std::move(result), {shape(0), 6, shape(2), shape(3), shape(4)});
  }

  // The fields themselves: a NumPy array on the host, an array with __dlpack__ on a GPU. `owner` keeps them alive.
  nanobind::any view(nanobind::handle owner) {
    T* data = solver_.fields().data();
    const auto device_type = dlpack_device(*device_);
    if (device_->is_host()) return nanobind::cast<nanobind::any>(nanobind::cast(own(owner)));
    return nanobind::cast<nanobind::any>(nanobind::cast(
        nanobind::ndarray<nanobind::array_api, T>(data, {shape(0), 6, shape(2), shape(3), shape(4)}, owner, {},
                                                  nanobind::dtype<T>(), device_type, device_->info().ordinal)));
  }

  // The fields as a NumPy array: the fields themselves on the host, a copy on a GPU.
  Numpy<T, 5> host_fields(nanobind::handle owner) {
    if (device_->is_host()) return own(owner);
    std::vector<T> copy;
    {
      nanobind::gil_scoped_release release;
      solver_.stream().synchronize();
      copy = solver_.fields().download();
    }
    return to_numpy(std::move(copy), {shape(0), 6, shape(2), shape(3), shape(4)});
  }

  void step(std::int64_t count, double dt) {
    nanobind::gil_scoped_release release;
    solver_.step(count, dt);
  }

  std::map<std::string, std::int64_t> memory_bytes() const {
    auto bytes = op_.memory_bytes();
    bytes.merge(solver_.memory_bytes());
    return bytes;
  }

 private:
  Numpy<T, 5> own(nanobind::handle owner) {  // host only
    return Numpy<T, 5>(solver_.fields().data(), {shape(0), 6, shape(2), shape(3), shape(4)}, owner);
  }
  std::size_t shape(int axis) const {
    return axis == 0 ? static_cast<std::size_t>(op_.elements()) : static_cast<std::size_t>(op_.options().order + 1);
  }
  void check(const HostFields& values) const {
    bool right = values.shape(0) == shape(0) && values.shape(1) == 6;
    for (int axis = 2; axis < 5; ++axis) right = right && values.shape(axis) == shape(axis);
    if (right) return;
    const std::string n = std::to_string(shape(2));
    throw std::invalid_argument("maxwell: fields are [" + std::to_string(shape(0)) + "][6][" + n + "][" + n + "][" + n +
                                "] on this rank");
  }

  std::shared_ptr<device::Device> device_;
  maxwell::Operator<T> op_;
  maxwell::Solver<T> solver_;
};

}  // namespace weft::bindings
