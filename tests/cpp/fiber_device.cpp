#include "fiber_device.hpp"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>

#include "weft/device/backends.hpp"
#include "weft/device/host_device.hpp"
#include "weft/device/host_registry.hpp"
#include "weft/kernels/fiber.hpp"
#undef threadIdx

namespace weft::fiber {

Index thread_index, block_index;

namespace {

constexpr std::size_t stack_bytes = std::size_t{128} << 10;

enum class State { ready, waiting, finished };

// A barrier as identified by the kernel, which every thread must reach every time.
struct Place {
  const char* file;
  int line;
  auto operator<=>(const Place&) const = default;
  Barrier barrier() const {
    const char* slash = std::strrchr(file, '/');
    return {slash != nullptr ? slash + 1 : file, line};
  }
};

// One thread, for one block after the other.
struct Fiber {
  void* stack;
  bool begun = false;
  jmp_buf here;  // where it continues
  Index index;
  State state;
  Place barrier;  // where it waits
};

std::mt19937 generator(1);
std::set<Place> met;
std::optional<Barrier> skipped;

auto& registry() {
  static std::map<std::tuple<std::string, std::string, std::string>, Kernel> kernels;
  return kernels;
}

// The fibers of one block at a time, reused from block to block and from launch to launch.
class Engine {
 public:
  void launch(const Kernel& kernel, unsigned blocks, device::Shape threads, void** arguments) {
    const unsigned count = threads.x * threads.y * threads.z;
    if (count == 0 || count > kernel.max_threads) {
      throw std::invalid_argument("kernel " + kernel.name + ": " + std::to_string(count) +
                                  " threads a block, its bound is " + std::to_string(kernel.max_threads));
    }
    while (fibers_.size() < count) {
      void* stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (stack == MAP_FAILED) throw std::bad_alloc();
      fibers_.emplace_back().stack = stack;
    }
    std::vector<unsigned> order(blocks);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), generator);
    kernel_ = &kernel;
    arguments_ = arguments;
    for (const unsigned block : order) run_block(block, threads, count);
  }

  // Called by the running fiber.
  void wait(const char* file, int line) {
    const Place here{file, line};
    met.insert(here);
    if (skipped && skipped->line == line && *skipped == here.barrier()) return;
    current_->barrier = here;
    current_->state = State::waiting;
    pause();
  }
  void enter_shared(void* array, std::size_t bytes) {
    if (poisoned_.insert(array).second) std::memset(array, 0xFF, bytes);
  }

 private:
  static void enter();

  // The two switches. Only the first switch to a fiber uses ucontext, which asks the kernel for the signal mask every
  // time. None of their variables changes between leaving and coming back.
  [[gnu::noinline]] void resume() {
    if (_setjmp(scheduler_) != 0) return;
    if (current_->begun) _longjmp(current_->here, 1);
    current_->begun = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = current_->stack;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, &Engine::enter, 0);
    setcontext(&context);
  }
  [[gnu::noinline]] void pause() {
    if (_setjmp(current_->here) == 0) _longjmp(scheduler_, 1);
  }

  void run_block(unsigned block, device::Shape threads, unsigned count) {
    block_index = {block, 0, 0};
    poisoned_.clear();
    const std::span fibers(fibers_.data(), count);
    for (unsigned t = 0; t < count; ++t) {
      fibers[t].index = {t % threads.x, t / threads.x % threads.y, t / threads.x / threads.y};
      fibers[t].state = State::ready;
    }
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0u);
    while (true) {
      std::shuffle(order.begin(), order.end(), generator);
      for (const unsigned t : order) {
        current_ = &fibers[t];
        thread_index = current_->index;
        resume();
      }
      const Fiber* waiting = find(fibers, State::waiting);
      if (waiting == nullptr) return;
      if (const Fiber* left = find(fibers, State::finished)) {
        fail(*left, "left the kernel while others wait at " + text(waiting->barrier));
      }
      for (const Fiber& fiber : fibers) {
        if (fiber.barrier != waiting->barrier) {
          fail(fiber, "waits at " + text(fiber.barrier) + " while others wait at " + text(waiting->barrier));
        }
      }
    }
  }

  static const Fiber* find(std::span<const Fiber> fibers, State state) {
    const auto found = std::find_if(fibers.begin(), fibers.end(), [=](const Fiber& f) { return f.state == state; });
    return found == fibers.end() ? nullptr : &*found;
  }
  static std::string text(const Place& place) { return place.barrier().file + ":" + std::to_string(place.line); }
  [[noreturn]] void fail(const Fiber& fiber, const std::string& what) {
    for (Fiber& any : fibers_) any.begun = false;  // some are inside the kernel
    const auto [x, y, z] = fiber.index;
    throw std::runtime_error("kernel " + kernel_->name + ", block " + std::to_string(block_index.x) + ": thread (" +
                             std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ") " + what);
  }

  const Kernel* kernel_ = nullptr;
  void** arguments_ = nullptr;
  Fiber* current_ = nullptr;
  jmp_buf scheduler_;
  std::vector<Fiber> fibers_;
  std::set<void*> poisoned_;  // the shared arrays this block has met
};

Engine engine;

void Engine::enter() {
  while (true) {
    engine.kernel_->body(engine.arguments_);
    engine.current_->state = State::finished;
    engine.pause();
  }
}

class FiberKernel final : public device::detail::KernelImpl {
 public:
  explicit FiberKernel(const Kernel& kernel) : kernel_(kernel) {}
  void check(std::span<const std::size_t> sizes) const override {
    device::check_arguments(kernel_.name, kernel_.argument_sizes, sizes.data(), sizes.size());
  }
  void launch(void*, unsigned blocks, device::Shape threads, void** arguments) override {
    engine.launch(kernel_, blocks, threads, arguments);
  }
  device::KernelResources resources() const override { return {}; }

 private:
  const Kernel& kernel_;
};

// Fibers have all parts of a kernel (WEFT_WITH_*), like host instances.
std::string instance_of(device::KernelSpec spec) {
  std::erase_if(spec.defines, [](const device::Define& d) { return d.name.starts_with("WEFT_WITH_"); });
  return device::constants_of(spec, true);
}

class FiberDevice final : public device::HostDevice {
 public:
  FiberDevice() : HostDevice(true) {
    info_.backend = device::Backend::fiber;
    info_.name = "GPU threads as fibers";
    info_.architecture = "fiber";
    info_.multiprocessors = 4;
    info_.warp_size = 32;
    info_.max_threads_per_multiprocessor = 2048;
  }

 protected:
  std::shared_ptr<device::detail::KernelImpl> load(const device::KernelSpec& spec) override {
    const std::string constants = instance_of(spec);
    const auto found = registry().find({spec.file, spec.name, constants});
    if (found == registry().end()) {
      throw std::runtime_error("kernels/" + spec.file + ".hpp has no fiber instance of " + spec.name + " with " +
                               constants + "; add a line weft_fiber_kernels(...) to tests/cpp/CMakeLists.txt");
    }
    return std::make_shared<FiberKernel>(found->second);
  }
};

const bool registered = device::register_backend(
    "fiber", [](int) -> std::shared_ptr<device::Device> { return std::make_shared<FiberDevice>(); });

}  // namespace

void barrier(const char* file, int line) { engine.wait(file, line); }
void enter_shared(void* array, std::size_t bytes) { engine.enter_shared(array, bytes); }

bool register_kernel(Kernel kernel) {
  auto key = std::tuple(kernel.file, kernel.name, kernel.constants);
  return registry().emplace(std::move(key), std::move(kernel)).second;
}

std::vector<std::size_t> argument_sizes(const device::KernelSpec& spec) {
  const auto found = registry().find({spec.file, spec.name, instance_of(spec)});
  return found == registry().end() ? std::vector<std::size_t>() : found->second.argument_sizes;
}

void seed(unsigned value) { generator.seed(value); }

std::vector<Barrier> take_barriers_met() {
  std::set<Barrier> barriers;  // one for the places of all instances of a kernel
  for (const Place& place : met) barriers.insert(place.barrier());
  met.clear();
  return {barriers.begin(), barriers.end()};
}

WithoutBarrier::WithoutBarrier(Barrier barrier) { skipped = std::move(barrier); }
WithoutBarrier::~WithoutBarrier() { skipped.reset(); }

}  // namespace weft::fiber
