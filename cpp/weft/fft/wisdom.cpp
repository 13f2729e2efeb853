#include "weft/fft/wisdom.hpp"

#include <cstdlib>
#include <memory>

#include "weft/device/device.hpp"
#include "weft/device/disk_cache.hpp"

namespace weft::fft {
namespace {

constexpr unsigned measure = 0, wisdom_only = 1U << 21;  // fftw3.h

const device::DiskCache& cache() {
  static const device::DiskCache kept("wisdom", 1);
  return kept;
}

}  // namespace

void* measured_plan(const WisdomFunctions& fftw, const std::string& key,
                    const std::function<void*(unsigned flags)>& plan) {
  const device::Info& processor = device::open("host")->info();
  const std::string kept_as = key + "\nprocessor " + processor.name + " " + processor.architecture + "\n";
  const device::CacheLock lock("wisdom");  // otherwise two ranks might measure the same shape and find different plans
  const auto known = [&](const std::string& wisdom) {
    fftw.forget();
    fftw.import_from_string(wisdom.c_str());
    return plan(wisdom_only);
  };
  const std::string before = cache().read(kept_as).value.value_or("");
  void* found = known(before);
  if (found == nullptr) {
    if (void* measured = plan(measure)) {
      const std::unique_ptr<char, decltype(&std::free)> text(fftw.export_to_string(), &std::free);
      cache().write(kept_as, text.get());
      fftw.destroy_plan(measured);
      found = known(text.get());  // made the same way as in later runs
    }
  }
  fftw.forget();
  return found;
}

}  // namespace weft::fft
