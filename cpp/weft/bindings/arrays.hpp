// Arrays of NumPy, CuPy and other libraries that support DLPack, and calls whose arguments all ranks check before any
// rank sends.
#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::bindings {

// The return type of functions that return a NumPy array of D dimensions: the stub then shows element type and shape.
template <class T, std::size_t D>
using Numpy = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<D>>;

// A NumPy array that owns its values.
template <class T, std::size_t D>
Numpy<T, D> to_numpy(std::vector<T>&& values, const std::size_t (&shape)[D]) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const nanobind::capsule keeper(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Numpy<T, D>(data, D, shape, keeper);
}
template <class T>
Numpy<T, 1> to_numpy(std::vector<T>&& values) {
  const std::size_t size = values.size();
  return to_numpy(std::move(values), {size});
}

// "3 x 4 x 5"
template <class... A>
std::string shape_text(const nanobind::ndarray<A...>& array) {
  if (array.ndim() == 0) return "()";
  std::string text;
  for (std::size_t i = 0; i < array.ndim(); ++i) text += (i == 0 ? "" : " x ") + std::to_string(array.shape(i));
  return text;
}

// Raises ValueError, with the remedy, unless the values are contiguous in C order and aligned for their type.
template <class... A>
void require_contiguous(const nanobind::ndarray<A...>& array, const std::string& name) {
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.size() > 0 && array.shape(i) > 1 && array.stride(i) != stride) {
      throw nanobind::value_error(
          (name + " is not contiguous: pass a copy, such as numpy.ascontiguousarray(x)").c_str());
    }
    stride *= static_cast<std::int64_t>(array.shape(i));
  }
  if (array.size() > 0 && reinterpret_cast<std::uintptr_t>(array.data()) % array.itemsize() != 0) {
    throw nanobind::value_error((name + " is not aligned to its type: pass a copy, such as x.copy()").c_str());
  }
}

// The device that holds an array with DLPack's device type and number. TypeError for a device that weft has no backend
// for.
std::shared_ptr<device::Device> device_of(int type, int number, const std::string& name);

// DLPack's number for the type of the device.
int dlpack_device(const device::Device& device);

// Makes the stream wait for the device's default stream: DLPack hands over arrays in the order of that stream.
void after_default_stream(device::Stream& stream);

// Runs `check` on all ranks; it returns a number that identifies the operation. If it throws on any rank, all throw
// CollectiveError with that text; if the numbers differ, with `difference`. Costs one reduction. On a single rank the
// exception of `check` itself is passed on. (collective)
void agree_on_call(const mpi::Comm& comm, const std::function<std::int64_t()>& check, const char* difference);

}  // namespace weft::bindings
