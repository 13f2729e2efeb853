#include "weft/bindings/arrays.hpp"

#include <cstdint>
#include <stdexcept>

#include "weft/mpi/finalized.hpp"

namespace nb = nanobind;

namespace weft::bindings {

std::shared_ptr<device::Device> device_of(int type, int number, const std::string& name) {
  if (type == nb::device::cpu::value) return device::open("host");
  if (type != nb::device::cuda::value && type != nb::device::rocm::value) {
    throw nb::type_error((name + " is on a device weft has no backend for").c_str());
  }
  const char* backend = type == nb::device::cuda::value ? "cuda" : "hip";
  try {
    return device::open(backend, number);
  } catch (const std::exception& error) {
    throw std::runtime_error(name + " is on " + backend + " device " + std::to_string(number) +
                             ", which weft cannot use here: " + error.what());
  }
}

int dlpack_device(const device::Device& device) {
  if (device.backend() == device::Backend::cuda) return nb::device::cuda::value;
  if (device.backend() == device::Backend::hip) return nb::device::rocm::value;
  return nb::device::cpu::value;
}

void after_default_stream(device::Stream& stream) {
  device::Device& device = stream.device();
  if (device.is_host()) return;
  void* event = device.create_event();
  device.record_event(event, nullptr);
  device.stream_wait_event(stream.handle(), event);
  device.destroy_event(event);
}

void agree_on_call(const mpi::Comm& comm, const std::function<std::int64_t()>& check, const char* difference) {
  if (comm.size() == 1) {
    check();
    return;
  }
  mpi::require_not_finalized();
  std::string failure;
  std::int64_t code = 0;
  try {
    code = check();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "an error without text";
  }
  std::int64_t least[3] = {failure.empty() ? 1 : 0, code, -code};
  const nb::gil_scoped_release release;
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, least, 3, MPI_INT64_T, MPI_MIN, comm.get()), "MPI_Allreduce");
  if (least[0] == 1 && least[1] == -least[2]) return;
  comm.together([&] {
    if (!failure.empty()) throw std::runtime_error(failure);
  });
  throw mpi::CollectiveError(difference);
}

}  // namespace weft::bindings
