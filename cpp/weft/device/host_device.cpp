#include "weft/device/host_device.hpp"

#include <fcntl.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "weft/device/backends.hpp"
#include "weft/device/host_compiler.hpp"
#include "weft/device/host_registry.hpp"
#include "weft/simd/past_caches.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::device {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t guard_bytes = 64;
constexpr int guard_value = 0xA5;

// Arrays of at least one large page are aligned to such pages, and rounded up to a multiple of them.
bool has_large_pages(std::size_t bytes) { return bytes >= huge_page; }

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// The instruction set that the host kernels were compiled for, widest first.
const char* vector_set() {
#if defined(__AVX512F__)
  return "avx512";
#elif defined(__AVX2__)
  return "avx2";
#elif defined(__ARM_FEATURE_SVE)
  return "sve";
#elif defined(__ARM_NEON)
  return "neon";
#elif defined(__SSE2__)
  return "sse2";
#else
  return "scalar";
#endif
}

class HostKernelImpl final : public detail::KernelImpl {
 public:
  explicit HostKernelImpl(const HostKernel& kernel) : kernel_(kernel) {}

  void check(std::span<const std::size_t> sizes) const override {
    check_arguments(kernel_, sizes.data(), sizes.size());
  }
  void launch(void*, unsigned blocks, Shape, void** arguments) override {
    const int threads = omp_get_max_threads();
    if (threads == 1 || blocks == 1) {
      run(arguments, 0, blocks);
      return;
    }
    // Contiguous shares that depend only on the number of blocks: each thread works on the pages that it touched first.
#pragma omp parallel num_threads(threads)
    {
      const auto share = [&](unsigned long i) { return static_cast<unsigned>(blocks * i / omp_get_num_threads()); };
      const unsigned long thread = omp_get_thread_num();
      const unsigned begin = share(thread), end = share(thread + 1);
      if (begin < end) run(arguments, begin, end);
    }
  }
  KernelResources resources() const override { return {}; }

 private:
  void run(void** arguments, unsigned begin, unsigned end) const {
    kernel_.run(arguments, begin, end);
    simd::past_caches_done();
  }
  const HostKernel& kernel_;
};

}  // namespace

int vector_bytes() { return simd::bytes; }

HostDevice::HostDevice(bool check) : check_(check) {
  info_ = {.backend = Backend::host,
           .name = processor_name(),
           .architecture = vector_set(),
           .memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE),
           .multiprocessors = omp_get_max_threads(),
           .warp_size = 1,
           .registers_per_multiprocessor = 0,
           .shared_bytes_per_multiprocessor = 0,
           .max_threads_per_multiprocessor = 1};
}

void* HostDevice::allocate(std::size_t bytes) {
  const bool large = has_large_pages(bytes);
  const std::size_t unit = large ? huge_page : alignment;
  const std::size_t total = round_up(bytes + (check_ ? guard_bytes : 0), unit);
  void* pointer = std::aligned_alloc(unit, total);
  if (pointer == nullptr) throw std::runtime_error("the host cannot allocate " + std::to_string(bytes) + " bytes");
  if (large) madvise(pointer, total, MADV_HUGEPAGE);
  if (check_) {
    std::memset(pointer, 0xFF, bytes);
    std::memset(static_cast<char*>(pointer) + bytes, guard_value, guard_bytes);
    const std::lock_guard lock(mutex_);
    sizes_[pointer] = bytes;
  }
  return pointer;
}

void HostDevice::release(void* pointer) noexcept {
  if (check_ && pointer != nullptr) check_guard(pointer);
  std::free(pointer);
}

// Aborts if the guard is damaged: memory of another array may be damaged too, and release cannot throw.
void HostDevice::check_guard(void* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = sizes_.find(pointer);
  if (entry == sizes_.end()) {
    std::fprintf(stderr, "weft: release of %p, which the host device did not allocate\n", pointer);
    std::abort();
  }
  const auto* guard = static_cast<const unsigned char*>(pointer) + entry->second;
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (guard[i] == guard_value) continue;
    std::fprintf(stderr, "weft: something wrote past the end of an array of %zu bytes (at byte %zu)\n", entry->second,
                 entry->second + i);
    std::abort();
  }
  sizes_.erase(entry);
}

void HostDevice::copy(void* to, const void* from, std::size_t bytes, CopyKind, Stream&) {
  const trace::Span span("copy", trace::Category::copy, static_cast<std::int64_t>(bytes));
  std::memcpy(to, from, bytes);
}

void HostDevice::fill_zero(void* pointer, std::size_t bytes, Stream&) {
  const trace::Span span("fill_zero", trace::Category::cpu, static_cast<std::int64_t>(bytes));
  std::memset(pointer, 0, bytes);
}

namespace {

struct HostHandle {
  std::int64_t process;
  std::int64_t file;
  std::uint64_t bytes;
};

[[noreturn]] void fail(const std::string& what, int code) {
  throw std::runtime_error(what + " failed: " + std::strerror(code));
}

// Maps the file and makes its pages present. Linux uses large pages for shared memory only if an administrator has
// enabled it, but replaces small pages by large ones on request (since 6.1; on older versions the pages stay small).
void* map(int file, std::size_t bytes) {
  const std::size_t unit = has_large_pages(bytes) ? huge_page : 0;
  // Reserves free addresses, so that the mapping can start at a multiple of the unit.
  auto* const reserved = static_cast<char*>(mmap(nullptr, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (reserved == MAP_FAILED) fail("reserving " + std::to_string(bytes) + " bytes of addresses", errno);
  const std::size_t before = unit == 0 ? 0 : huge_page - reinterpret_cast<std::uintptr_t>(reserved) % huge_page;
  void* const pointer =
      mmap(reserved + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, 0);
  if (pointer == MAP_FAILED) {
    const int code = errno;
    munmap(reserved, bytes + unit);
    fail("mapping " + std::to_string(bytes) + " bytes of shared memory", code);
  }
  if (unit == 0) return pointer;
  munmap(reserved, before);
  if (before < unit) munmap(reserved + before + bytes, unit - before);
  constexpr int collapse = 25;  // MADV_COLLAPSE, missing in older headers
  madvise(pointer, bytes, collapse);
  return pointer;
}

}  // namespace

void* HostDevice::allocate_shared(std::size_t bytes, SharedHandle& handle) {
  const std::size_t least = bytes + (check_ ? guard_bytes : 0);
  const std::size_t total = has_large_pages(least) ? round_up(least, huge_page) : least;
  const int file = memfd_create("weft", MFD_CLOEXEC);
  if (file < 0) fail("memfd_create", errno);
  void* pointer = nullptr;
  try {
    // Fails here if memory is short, not by a signal at the first touch.
    if (const int code = posix_fallocate(file, 0, static_cast<off_t>(total)); code != 0)
      fail("reserving " + std::to_string(total) + " bytes of shared memory", code);
    pointer = map(file, total);
  } catch (...) {
    close(file);
    throw;
  }
  if (check_) {
    std::memset(pointer, 0xFF, bytes);
    std::memset(static_cast<char*>(pointer) + bytes, guard_value, guard_bytes);
  }
  const HostHandle known{getpid(), file, total};
  std::memcpy(handle.bytes.data(), &known, sizeof known);
  const std::lock_guard lock(mutex_);
  if (check_) sizes_[pointer] = bytes;
  mappings_[pointer] = {total, file};
  return pointer;
}

void HostDevice::stop_sharing(void* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(pointer);
  if (found != mappings_.end() && found->second.file >= 0) close(std::exchange(found->second.file, -1));
}

void HostDevice::release_shared(void* pointer) noexcept {
  if (check_ && pointer != nullptr) check_guard(pointer);
  stop_sharing(pointer);
  close_shared(pointer);
}

void* HostDevice::open_shared(const SharedHandle& handle) {
  HostHandle known{};
  std::memcpy(&known, handle.bytes.data(), sizeof known);
  const std::string name = "/proc/" + std::to_string(known.process) + "/fd/" + std::to_string(known.file);
  const int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) fail("opening another process's shared memory (" + name + ")", errno);
  void* pointer = nullptr;
  try {
    pointer = map(file, known.bytes);
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
  const std::lock_guard lock(mutex_);
  mappings_[pointer] = {known.bytes, -1};
  return pointer;
}

void HostDevice::close_shared(void* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(pointer);
  if (found == mappings_.end()) return;
  munmap(pointer, found->second.bytes);
  mappings_.erase(found);
}

std::shared_ptr<detail::KernelImpl> HostDevice::load(const KernelSpec& spec) {
  const std::string constants = constants_of(spec);
  const HostKernel* kernel = find_host_kernel(spec.file, spec.name, constants);
  if (kernel == nullptr) {
    open_host_unit(spec.file, constants);
    kernel = find_host_kernel(spec.file, spec.name, constants);
  }
  if (kernel == nullptr) {
    throw std::runtime_error("kernels/" + spec.file + ".hpp has no host instance of " + spec.name + " with " +
                             constants + "; add it to kernels/CMakeLists.txt");
  }
  return std::make_shared<HostKernelImpl>(*kernel);
}

std::shared_ptr<Device> open_host(int) {
  const char* check = std::getenv("WEFT_CHECK");
  return std::make_shared<HostDevice>(check != nullptr && *check != '\0' && std::strcmp(check, "0") != 0);
}

}  // namespace weft::device
