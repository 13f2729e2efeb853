// Access of the host to planes of kz of a rank's spectral fields: to the fields themselves on the host, to a copy of
// one plane of each on a GPU.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::turbulence {

template <class T>
class HostPlanes {
 public:
  using Complex = std::complex<T>;

  // `fields` are in memory of `device`, with `plane_values` values per plane. All work on the fields must have
  // completed.
  HostPlanes(std::shared_ptr<device::Device> device, std::vector<Complex*> fields, std::int64_t plane_values)
      : device_(std::move(device)), stream_(device_), fields_(std::move(fields)), values_(plane_values) {
    if (!device_->is_host()) copies_.resize(fields_.size() * static_cast<std::size_t>(values_));
  }

  // Loads one plane of every field, in order.
  std::vector<Complex*> load(std::int64_t plane) {
    std::vector<Complex*> planes = at(plane);
    if (!copies_.empty()) {
      for (std::size_t f = 0; f < fields_.size(); ++f)
        device_->copy(planes[f], fields_[f] + plane * values_, bytes(), device::CopyKind::device_to_host, stream_);
      stream_.synchronize();
    }
    return planes;
  }
  // A buffer for a plane that will be overwritten completely, and the copy of this plane to the fields.
  std::vector<Complex*> at(std::int64_t plane) {
    std::vector<Complex*> planes;
    for (std::size_t f = 0; f < fields_.size(); ++f)
      planes.push_back(copies_.empty() ? fields_[f] + plane * values_
                                       : copies_.data() + static_cast<std::int64_t>(f) * values_);
    return planes;
  }
  void store(std::int64_t plane) {
    if (copies_.empty()) return;
    for (std::size_t f = 0; f < fields_.size(); ++f)
      device_->copy(fields_[f] + plane * values_, copies_.data() + static_cast<std::int64_t>(f) * values_, bytes(),
                    device::CopyKind::host_to_device, stream_);
    stream_.synchronize();
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(values_) * sizeof(Complex); }

  std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  std::vector<Complex*> fields_;
  std::int64_t values_;
  std::vector<Complex> copies_;
};

}  // namespace weft::turbulence
