#include "launches.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "machine.hpp"
#include "weft/device/backends.hpp"
#include "weft/device/host_registry.hpp"
#include "weft/device/kernel_texts.hpp"

namespace weft::machine_code {
namespace {

using Memory = std::vector<std::span<char>>;

std::string name_of(const device::KernelSpec& spec) {
  return spec.file + "." + spec.name + " " + device::constants_of(spec, true);
}

struct Report {
  std::map<std::string, Judged> kernels;
  ~Report() {
    const char* path = std::getenv("WEFT_MACHINE_CODE_REPORT");
    if (path == nullptr || *path == '\0' || kernels.empty()) return;
    std::ostringstream file;  // written in one piece, because ranks share the file
    for (const auto& [name, kernel] : kernels) {
      const Counters& c = kernel.counters;
      const auto accesses = [](const char* what, const Accesses& a) {
        std::ostringstream text;
        text << ", \"" << what << "\": [" << a.requests << ", " << a.units << ", " << a.least;
        if (what[0] == 'g') text << ", " << a.wavefronts;
        text << "]";
        return text.str();
      };
      file << "{\"kernel\": \"" << name << "\", \"launches\": " << c.launches << ", \"bit_equal\": " << kernel.bit_equal
           << ", \"worst\": " << kernel.worst << ", \"blocks\": " << c.blocks << ", \"threads\": " << c.threads
           << ", \"instructions\": " << c.instructions << ", \"lane_instructions\": " << c.lane_instructions
           << ", \"barriers\": " << c.barriers << accesses("global_loads", c.global_loads)
           << accesses("global_stores", c.global_stores) << accesses("shared_loads", c.shared_loads)
           << accesses("shared_stores", c.shared_stores) << ", \"memory_sectors\": [" << c.memory_reads << ", "
           << c.memory_writes << "], \"block_sectors\": " << c.block_reads << ", \"path\": [" << c.path.global << ", "
           << c.path.l2 << ", " << c.path.shared << ", " << c.path.clocks << "], \"flops\": " << c.flops
           << ", \"registers\": " << c.registers << ", \"shared_bytes\": " << c.shared_bytes << ", \"pipes\": [";
      for (std::size_t k = 0; k < c.by_pipe.size(); ++k) file << (k == 0 ? "" : ", ") << c.by_pipe[k];
      file << "], \"opcodes\": {";
      const char* separator = "";
      for (const auto& [opcode, count] : c.by_opcode) {
        file << separator << "\"" << opcode << "\": " << count;
        separator = ", ";
      }
      file << "}}\n";
    }
    std::ofstream(path, std::ios::app) << file.str();
  }
};
Report report;

// The types that a kernel's pointer parameters point to: "double", "float", "int", "long"; empty for other types and
// for parameters that are no pointers.
std::vector<std::string> pointed_types(const device::KernelSpec& spec) {
  std::string text, real;
  for (const device::KernelText& file : device::kernel_texts())
    if (file.file == spec.file) text = file.text;
  for (const device::Define& define : spec.defines)
    if (define.name == "WEFT_REAL") real = define.value;
  std::size_t at = text.find("\nWEFT_KERNEL(" + spec.name + ",");
  if (at == text.npos) return {};
  at = text.find('(', text.find('(', at) + 1);  // of the parameters, unless the number of threads has brackets
  std::vector<std::string> types;
  int depth = 1;
  std::string parameter;
  for (++at; at < text.size() && depth > 0; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth > 0 && !(depth == 1 && text[at] == ',')) {
      parameter += text[at];
      continue;
    }
    std::string type;
    if (const std::size_t star = parameter.find('*'); star != parameter.npos) {
      std::stringstream words(parameter.substr(0, star));
      for (std::string word; words >> word;)
        if (word != "const") type = word == "real" ? real : word;
    }
    types.push_back(type == "double" || type == "float" || type == "int" || type == "long" ? type : "");
    parameter.clear();
  }
  return types;
}

template <class T>
double difference(std::span<const char> found, std::span<const char> expected) {
  double largest = 0, worst = 0;
  const auto value = [](std::span<const char> bytes, std::size_t k) {
    T result;
    std::memcpy(&result, bytes.data() + k * sizeof(T), sizeof(T));
    return static_cast<double>(result);
  };
  const std::size_t count = found.size() / sizeof(T);
  for (std::size_t k = 0; k < count; ++k) {
    const double a = value(found, k), b = value(expected, k);
    if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double apart = std::abs(a - b);
    worst = std::max(worst, std::isfinite(apart) ? apart : std::numeric_limits<double>::infinity());
  }
  return worst == 0 ? 0 : largest == 0 ? worst : worst / largest;
}

// The number of blocks of the host's instance per GPU block: it processes one element where the GPU's processes a tile;
// both check their bounds.
unsigned tile_of(const device::KernelSpec& spec) {
  for (const device::Define& define : spec.defines)
    if (define.name == "WEFT_TILE_ELEMENTS") return static_cast<unsigned>(std::stoul(define.value));
  return 1;
}

// The host's instance of a kernel with products (kernels/poisson_product.hpp) writes one per element; this adds up
// those of each GPU block, where that writes its own. The pointer is the last argument.
class Products {
 public:
  Products(const device::KernelSpec& spec, std::int64_t blocks, std::vector<void*>& arguments) : tile_(tile_of(spec)) {
    if (std::ranges::none_of(spec.defines, [](const device::Define& d) { return d.name == "WEFT_WITH_PRODUCT"; }))
      return;
    std::memcpy(&of_blocks_, arguments.back(), sizeof of_blocks_);
    of_elements_.resize(static_cast<std::size_t>(blocks) * tile_);
    first_ = of_elements_.data();
    arguments.back() = &first_;
  }
  void store() const {
    for (std::size_t e = 0; e < of_elements_.size(); ++e) {
      double& sum = of_blocks_[e / tile_];
      sum = (e % tile_ == 0 ? 0 : sum) + of_elements_[e];
    }
  }

 private:
  unsigned tile_;
  double *of_blocks_ = nullptr, *first_ = nullptr;
  std::vector<double> of_elements_;
};

std::vector<std::vector<char>> contents(const Memory& memory) {
  std::vector<std::vector<char>> copies;
  for (const std::span<char> each : memory) copies.emplace_back(each.begin(), each.end());
  return copies;
}
void restore(const Memory& memory, const std::vector<std::vector<char>>& copies) {
  for (std::size_t k = 0; k < memory.size(); ++k) std::memcpy(memory[k].data(), copies[k].data(), copies[k].size());
}

std::shared_ptr<Module> module_of(const std::shared_ptr<Image>& image) {
  static std::mutex mutex;
  static std::map<std::shared_ptr<Image>, std::shared_ptr<Module>> modules;  // keeps the images alive, and so their
                                                                             // addresses
  const std::lock_guard lock(mutex);
  std::shared_ptr<Module>& module = modules[image];
  if (module == nullptr) module = std::make_shared<Module>(*image);
  return module;
}

// The element type of each allocation that a kernel's parameters point to; for other allocations the kernel's own type.
std::string type_of(std::span<char> allocation, const std::vector<std::string>& types,
                    const std::vector<std::vector<char>>& arguments, const std::string& otherwise) {
  for (std::size_t k = 0; k < std::min(types.size(), arguments.size()); ++k) {
    if (types[k].empty() || arguments[k].size() != sizeof(char*)) continue;
    char* pointer = nullptr;
    std::memcpy(&pointer, arguments[k].data(), sizeof pointer);
    if (pointer >= allocation.data() && pointer < allocation.data() + allocation.size()) return types[k];
  }
  return otherwise;
}

void compare(const device::KernelSpec& spec, const Memory& memory, const std::vector<std::vector<char>>& expected,
             const std::vector<std::vector<char>>& arguments, Judged& result) {
  std::string real = "double";
  for (const device::Define& define : spec.defines)
    if (define.name == "WEFT_REAL") real = define.value;
  const std::vector<std::string> types = pointed_types(spec);
  bool equal = true;
  for (std::size_t k = 0; k < memory.size(); ++k) {
    if (std::memcmp(memory[k].data(), expected[k].data(), memory[k].size()) == 0) continue;
    equal = false;
    const std::string type = type_of(memory[k], types, arguments, real);
    const double apart = type == "double"  ? difference<double>(memory[k], expected[k])
                         : type == "float" ? difference<float>(memory[k], expected[k])
                                           : std::numeric_limits<double>::infinity();
    result.worst = std::max(result.worst, apart);
    if (apart > (type == "double" && real != "float" ? 1e-12 : 1e-4))
      throw std::runtime_error("kernel " + name_of(spec) + ": machine code and host differ by " +
                               std::to_string(apart) + " of the largest value in an array of " +
                               std::to_string(memory[k].size()) + " bytes of " + type);
  }
  result.bit_equal += equal;
}

}  // namespace

const std::map<std::string, Judged>& judged() { return report.kernels; }

device::KernelSpec spec_of(const FakeLaunch& launch) {
  device::KernelSpec spec{launch.file, launch.name, {}};
  std::stringstream options(launch.options);
  for (std::string option; options >> option;) {
    const std::size_t equals = option.find('=');
    for (const char* name : {"WEFT_N", "WEFT_REAL", "WEFT_TILE_", "WEFT_WITH_"}) {
      if (option.starts_with(std::string("-D") + name))
        spec.defines.push_back({option.substr(2, equals - 2), option.substr(equals + 1)});
    }
  }
  return spec;
}

std::function<void()> prepare_launch(const FakeLaunch& launch, std::vector<std::span<char>> (*memory)()) {
  const std::shared_ptr<Module> module = module_of(launch.cubin);
  const Kernel& kernel = module->kernel(launch.name);
  const device::KernelSpec spec = spec_of(launch);
  const auto host = device::open("host");
  const char* told = std::getenv("WEFT_MACHINE_CODE_COMPARE");
  const bool compares = told == nullptr || std::strcmp(told, "0") != 0;
  const device::LoadedKernel on_host = compares ? host->kernel(spec) : device::LoadedKernel();
  std::vector<std::vector<char>> arguments;
  for (std::size_t k = 0; k < kernel.parameters.size(); ++k) {
    const char* from = static_cast<const char*>(launch.arguments[k]);
    arguments.emplace_back(from, from + kernel.parameters[k].bytes);
  }
  const Dimensions threads{launch.threads[0], launch.threads[1], launch.threads[2]};
  return [=, &kernel, blocks = launch.blocks, launch_shared = launch.shared]() mutable {
    std::vector<void*> pointers;
    for (auto& argument : arguments) pointers.push_back(argument.data());
    const Memory allocations = memory();
    std::vector<std::vector<char>> expected;
    if (compares) {
      const std::vector<std::vector<char>> before = contents(allocations);
      device::Stream stream(host);
      std::vector<void*> own = pointers;
      const Products products(spec, blocks, own);
      on_host.launch(stream, std::int64_t{blocks} * tile_of(spec), {threads.x, threads.y, threads.z}, own.data());
      stream.synchronize();
      products.store();
      expected = contents(allocations);
      restore(allocations, before);
    }

    const auto find = [&](std::uintptr_t address) -> std::pair<std::uintptr_t, std::uintptr_t> {
      for (const std::span<char> each : allocations) {
        const auto begin = reinterpret_cast<std::uintptr_t>(each.data());
        if (address >= begin && address < begin + each.size()) return {begin, begin + each.size()};
      }
      return {0, 0};
    };
    Judged& result = report.kernels[name_of(spec)];
    result.counters.add(machine_code::launch(*module, kernel.name, {blocks}, threads, launch_shared,
                                             pack_parameters(kernel, pointers.data()), find));
    if (compares) compare(spec, allocations, expected, arguments, result);
  };
}

}  // namespace weft::machine_code
