#include "weft/device/device.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "weft/device/backends.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::device {

std::string name(Backend backend) {
  switch (backend) {
    case Backend::host:
      return "host";
    case Backend::cuda:
      return "cuda";
    case Backend::hip:
      return "hip";
    case Backend::fiber:
      return "fiber";
  }
  return "unknown";
}

// --- streams, events, kernels: each handle keeps its device alive ---

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)), handle_(device_->create_stream()) {}
Stream::Stream(Stream&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
Stream::~Stream() {
  if (device_) device_->destroy_stream(handle_);
}
void Stream::synchronize() {
  const trace::Span span("synchronize", trace::Category::launch);
  device_->synchronize_stream(handle_);
}

Event::Event(std::shared_ptr<Device> device) : device_(std::move(device)), handle_(device_->create_event()) {}
Event Event::shared(std::shared_ptr<Device> device, SharedHandle& handle) {
  void* event = device->create_shared_event(handle);
  return {std::move(device), event};
}
Event Event::opened(std::shared_ptr<Device> device, const SharedHandle& handle) {
  void* event = device->open_shared_event(handle);
  return {std::move(device), event};
}
Event::Event(Event&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
Event::~Event() {
  if (device_) device_->destroy_event(handle_);
}
void Event::record(Stream& stream) { device_->record_event(handle_, stream.handle()); }
void Event::synchronize() {
  const trace::Span span("synchronize", trace::Category::launch);
  device_->synchronize_event(handle_);
}
void Event::wait_on(Stream& stream) { device_->stream_wait_event(stream.handle(), handle_); }
double Event::seconds_since(const Event& begin) const { return device_->event_seconds(begin.handle_, handle_); }

void* Device::allocate_shared(std::size_t, SharedHandle&) { throw std::runtime_error(sharing_problem()); }
void* Device::open_shared(const SharedHandle&) { throw std::runtime_error(sharing_problem()); }
void* Device::create_shared_event(SharedHandle&) { throw std::runtime_error(sharing_problem()); }
void* Device::open_shared_event(const SharedHandle&) { throw std::runtime_error(sharing_problem()); }

void Device::copy_now(void* to, const void* from, std::size_t bytes, CopyKind kind) {
  Stream stream(shared_from_this());
  copy(to, from, bytes, kind, stream);
  stream.synchronize();
}
void Device::zero_now(void* pointer, std::size_t bytes) {
  Stream stream(shared_from_this());
  fill_zero(pointer, bytes, stream);
  stream.synchronize();
}

void Device::enqueue(const char*, Stream&, const std::function<void()>& work) { work(); }

void Device::begin_capture(void*) {
  throw std::logic_error("the " + info().name + " does not support graphs; launch the kernels one by one");
}
void* Device::end_capture(void*) { return nullptr; }
void Device::replay_graph(void*, void*) {}

LoadedKernel Device::kernel(const KernelSpec& spec) {
  const trace::Span span("load kernel", trace::Category::cpu);
  return {load(spec), trace::intern(spec.name)};
}

void LoadedKernel::launch(Stream& stream, std::int64_t blocks, Shape threads, void** arguments) const {
  if (blocks == 0) return;
  if (blocks < 0 || blocks > largest_launch) {
    throw std::invalid_argument("kernel " + std::string(name_) + ": a launch has at most " +
                                std::to_string(largest_launch) + " blocks, not " + std::to_string(blocks) +
                                "; use more ranks, so that each has less work");
  }
  const trace::Span span(name_, stream.device().is_host() ? trace::Category::cpu : trace::Category::launch);
  impl_->launch(stream.handle(), static_cast<unsigned>(blocks), threads, arguments);
}

std::string constants_of(const KernelSpec& spec, bool tiles) {
  std::string order, real;
  std::vector<std::string> rest;
  for (const Define& define : spec.defines) {
    if (define.name == "WEFT_N") {
      order = "N=" + define.value + ",";
    } else if (define.name == "WEFT_REAL") {
      real = "real=" + define.value;
    } else if (define.name.starts_with("WEFT_TILE_") || define.name.starts_with("WEFT_WITH_")) {
      if (tiles) rest.push_back("," + define.name + "=" + define.value);
    } else {
      throw std::invalid_argument("kernel " + spec.name + ": " + define.name +
                                  " is not a constant of kernels; use WEFT_N, WEFT_REAL, WEFT_TILE_* or WEFT_WITH_*");
    }
  }
  std::sort(rest.begin(), rest.end());
  std::string constants = order + real;
  for (const std::string& tile : rest) constants += tile;
  return constants;
}

// --- opening ---

namespace {

std::map<std::string, Opener>& openers() {
  static std::map<std::string, Opener> table{{"host", open_host}, {"cuda", open_cuda}, {"hip", open_hip}};
  return table;
}

}  // namespace

bool register_backend(const std::string& which, Opener opener) {
  openers()[which] = opener;
  return true;
}

std::vector<Availability> available() {
  return {{Backend::host, true, open("host")->info().name}, cuda_availability(), hip_availability()};
}

std::shared_ptr<Device> open(const std::string& which, int ordinal) {
  if (which == "auto") {
    const bool cuda = cuda_availability().available;
    return open(cuda ? "cuda" : hip_availability().available ? "hip" : "host", ordinal);
  }
  const auto opener = openers().find(which);
  if (opener == openers().end()) {
    throw std::invalid_argument("device \"" + which + "\" is unknown; use auto, host, cuda or hip");
  }
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::weak_ptr<Device>> opened;
  const std::lock_guard lock(mutex);
  const auto known = [&](int number) { return opened[{which, number}].lock(); };
  if (std::shared_ptr<Device> device = known(ordinal)) return device;
  std::shared_ptr<Device> device = opener->second(ordinal);
  if (std::shared_ptr<Device> same = known(device->info().ordinal)) device = std::move(same);  // -1 may resolve to 0
  opened[{which, ordinal}] = opened[{which, device->info().ordinal}] = device;
  return device;
}

int rank_in_node() {
  for (const char* variable :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
        "FLUX_TASK_LOCAL_ID", "JSM_NAMESPACE_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (const char* value = std::getenv(variable)) return std::max(0, std::atoi(value));
  }
  int initialized = 0, finalized = 0, rank = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace weft::device
