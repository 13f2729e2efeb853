#include "weft/bindings/arrays.hpp"

#include <cstdint>
#include <stdexcept>

namespace nb = nanobind;

namespace weft::bindings {

std::shared_ptr<device::Device> device_of(int type, int number, const std::string& name) {
  switch (type) {
    case nb::device::cpu::value:
      return device::open("host");
    case nb::device::cuda::value:
      return device::open("cuda", number);
    case nb::device::rocm::value:
      return device::open("hip", number);
    default:
      throw nb::type_error((name + " is on a device weft has no backend for").c_str());
  }
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
  std::string failure;
  std::int64_t code = 0;
  try {
    code = check();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "an error without text";
  }
  std::int64_t least[3] = {failure.empty() ? 1 : 0, code, -code};
  {
    const nb::gil_scoped_release release;
    mpi::check(MPI_Allreduce(MPI_IN_PLACE, least, 3, MPI_INT64_T, MPI_MIN, comm.get()), "MPI_Allreduce");
  }
  if (least[0] == 1 && least[1] == -least[2]) return;
  comm.together([&] {
    if (!failure.empty()) throw std::runtime_error(failure);
  });
  throw mpi::CollectiveError(difference);
}

}  // namespace weft::bindings
