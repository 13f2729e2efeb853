#include "weft/mpi/gpu_aware.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "weft/mpi/comm.hpp"
#include "weft/mpi/probe.hpp"

namespace weft::mpi {
namespace {

constexpr double probe_seconds = 30.0;

std::filesystem::path file_of(const void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  return std::filesystem::canonical(info.dli_fname, error);
}

// Looks up an optional function of the MPI library.
template <class F>
F* mpi_function(const char* name) {
  // dlopen of the file that contains MPI_Init: the symbols of MPI extensions are not global.
  void* library = dlopen(file_of(reinterpret_cast<const void*>(&MPI_Init)).c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<F*>(dlsym(library != nullptr ? library : RTLD_DEFAULT, name));
}

std::string probe_program() {
  if (const char* named = std::getenv("WEFT_MPI_PROBE")) return named;
  const std::filesystem::path folder = file_of(reinterpret_cast<const void*>(&gpu_aware)).parent_path();
  const std::filesystem::path beside = folder / "weft_mpi_probe";
  // In a wheel, the extension module for AVX-512 has its own folder.
  return (std::filesystem::exists(beside) ? beside : folder.parent_path() / "weft_mpi_probe").string();
}

GpuAware find_out(const device::Device& device) {
  const device::Backend backend = device.backend();
  const std::string library = library_version();
  GpuAware result;
  result.asked = gpu_support_asked(backend);
  if (result.asked == "no") {
    result.reason = library + " reports that it does not accept " + device::name(backend) + " memory";
    return result;
  }
  const ProbeResult proof =
      run_probe({probe_program(), device::name(backend), std::to_string(device.info().ordinal)}, probe_seconds);
  result.usable = proof.succeeded;
  const std::string says = result.asked == "yes" ? " reports that it accepts " : " does not report whether it accepts ";
  result.reason =
      library + says + device::name(backend) + " memory; " +
      (proof.succeeded ? "a test transfer succeeded" : "a test transfer in a child process failed: " + proof.reason);
  return result;
}

}  // namespace

std::string gpu_support_asked(device::Backend backend) {
  const bool cuda = backend == device::Backend::cuda;
  // MPICH: MPIX_GPU_query_support(type, *flag), with types CUDA 0, Level Zero 1, HIP 2.
  if (auto* query = mpi_function<int(int, int*)>("MPIX_GPU_query_support")) {
    int supported = 0;
    if (query(cuda ? 0 : 2, &supported) == MPI_SUCCESS) return supported != 0 ? "yes" : "no";
  }
  // Open MPI, and older versions of MPICH.
  for (const char* name : {cuda ? "MPIX_Query_cuda_support" : "MPIX_Query_rocm_support",
                           cuda ? "MPIX_Query_cuda_support" : "MPIX_Query_hip_support"}) {
    if (auto* query = mpi_function<int()>(name)) return query() != 0 ? "yes" : "no";
  }
  return "does not say";
}

const GpuAware& gpu_aware(const device::Device& device) {
  static const GpuAware host{true, "", "no GPU, so not needed"};
  if (device.is_host()) return host;
  if (device.backend() != device::Backend::cuda && device.backend() != device::Backend::hip) {
    static const GpuAware emulated{true, "", "device memory is host memory"};
    return emulated;
  }
  static std::mutex mutex;
  static std::map<std::pair<device::Backend, int>, GpuAware> known;
  const std::lock_guard lock(mutex);
  const std::pair key(device.backend(), device.info().ordinal);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, find_out(device)).first->second;
}

}  // namespace weft::mpi
