#include "weft/device/compiler.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "weft/device/code_object.hpp"
#include "weft/device/compiler_api.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/device/dynamic_library.hpp"
#include "weft/device/kernel_texts.hpp"

namespace weft::device {
namespace {

// NVRTC 13.0 and older search for their builtins library on the loader's path only, not in NVRTC's own folder (for
// example inside a Python package). If the builtins are opened first, NVRTC finds them by name.
void open_builtins(const void* of_nvrtc, const std::string& version) {
  Dl_info nvrtc{};
  if (dladdr(of_nvrtc, &nvrtc) == 0 || nvrtc.dli_fname == nullptr) return;
  const std::filesystem::path folder = std::filesystem::path(nvrtc.dli_fname).parent_path();
  dlopen((folder / ("libnvrtc-builtins.so." + version)).c_str(), RTLD_NOW | RTLD_LOCAL);
}

CompilerApi open_compiler(Backend backend, int driver_version) {
  const bool hip = backend == Backend::hip;
  std::vector<std::string> versions;
  if (hip) {
    versions = {"libhiprtc.so",   "libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so.5",
                "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
  } else {
    versions = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
    const std::string own = "libnvrtc.so." + std::to_string(driver_version / 1000);
    std::stable_partition(versions.begin(), versions.end(), [&](const std::string& v) { return v.starts_with(own); });
  }
  DynamicLibrary library(library_names(hip ? "WEFT_HIPRTC" : "WEFT_NVRTC", versions));
  CompilerApi api{};
#define WEFT_FIND(member, nvrtc_name, hiprtc_name) library.find(api.member, hip ? #hiprtc_name : #nvrtc_name);
  WEFT_COMPILER_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (!library) {
    api.problem = (hip ? "hipRTC cannot be opened (install ROCm's hiprtc, or set WEFT_HIPRTC to its folder): "
                       : "NVRTC cannot be opened (pip install nvidia-cuda-nvrtc, or set WEFT_NVRTC to its folder): ") +
                  library.problem;
    return api;
  }
  if (!hip) {
#define WEFT_FIND(member, name) library.find_optional(api.member, #name);
    WEFT_NVRTC_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
    int count = 0;
    if (api.ptx_size != nullptr && api.ptx != nullptr && api.count_known != nullptr && api.known_to != nullptr &&
        api.count_known(&count) == 0) {
      api.known.resize(static_cast<std::size_t>(count));
      if (api.known_to(api.known.data()) != 0) api.known.clear();
    }
  }
  int major = 0, minor = 0;
  api.version(&major, &minor);
  const std::string version = std::to_string(major) + "." + std::to_string(minor);
  api.version_text = (hip ? "hipRTC " : "NVRTC ") + version;
  if (!hip) open_builtins(reinterpret_cast<const void*>(api.version), version);
  return api;
}

const CompilerApi& compiler(Backend backend, int driver_version) {
  static std::mutex mutex;
  static std::map<std::pair<Backend, int>, CompilerApi> opened;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(backend, driver_version / 1000);
  auto found = opened.find(key);
  if (found == opened.end()) found = opened.emplace(key, open_compiler(backend, driver_version)).first;
  return found->second;
}

const char* text_of(const std::string& file) {
  for (const KernelText& text : kernel_texts()) {
    if (text.file == file) return text.text;
  }
  throw std::runtime_error("there is no kernels/" + file + ".hpp in the library");
}

// `text`, followed by every kernel file that it includes, each once: all that a compiled kernel depends on.
std::string with_includes(const std::string& text) {
  const std::string include = "#include \"weft/kernels/", end = ".hpp\"";
  std::string all;
  std::set<std::string> seen;
  std::vector<std::string> left{text};
  while (!left.empty()) {
    const std::string current = std::move(left.back());
    left.pop_back();
    all += current;
    for (std::size_t at = current.find(include); at != current.npos; at = current.find(include, at + 1)) {
      const std::size_t begin = at + include.size();
      const std::string file = current.substr(begin, current.find(end, begin) - begin);
      if (file == "host" || file == "fiber" || !seen.insert(file).second) continue;  // other targets of the dialect
      left.emplace_back(text_of(file));
    }
  }
  return all;
}

// The target passed to NVRTC: `architecture` itself, or, if NVRTC knows only older ones, the newest of these, written
// as "compute_90".
std::string target_of(const CompilerApi& api, const std::string& architecture) {
  if (api.known.empty() || !architecture.starts_with("sm_")) return architecture;
  const int wanted = std::atoi(architecture.c_str() + 3);
  int newest = 0;
  for (const int known : api.known)
    if (known <= wanted) newest = std::max(newest, known);
  return newest == wanted || newest == 0 ? architecture : "compute_" + std::to_string(newest);
}
bool is_virtual(const std::string& target) { return target.starts_with("compute_"); }

std::vector<std::string> options_for(Backend backend, const KernelsSpec& spec, const std::string& architecture) {
  std::vector<std::string> options;
  if (backend == Backend::hip) {
    options = {"--offload-arch=" + architecture, "-std=c++17", "-O3"};
  } else {
    options = {"--gpu-architecture=" + architecture, "--std=c++17"};
    if (!is_virtual(architecture)) options.emplace_back("--ptxas-options=-v");
  }
  options.emplace_back("-DWEFT_TARGET_GPU=1");
  // In order of their names, so that equal definitions have one entry in the cache.
  std::map<std::string, std::string> defines;
  for (const Define& define : spec.defines) defines.emplace(define.name, define.value);
  for (const auto& [name, value] : defines) options.push_back("-D" + name + "=" + value);
  if (compiled_alone(spec.defines)) {
    options.emplace_back("-DWEFT_ONE_KERNEL=1");
    for (const std::string& name : spec.names) options.push_back("-DWEFT_ONLY_" + name + "=~,WEFT_ENTRY");
  }
  return options;
}

[[noreturn]] void fail(const KernelsSpec& spec, const std::string& architecture, const std::string& what,
                       const std::string& log) {
  throw std::runtime_error("kernels/" + spec.file + ".hpp for " + architecture + ": " + what +
                           (log.empty() ? "" : "\n") + log);
}

Compiled compile_now(const CompilerApi& api, Backend backend, const KernelsSpec& spec, const std::string& architecture,
                     const std::string& text, const std::vector<std::string>& options) {
  std::vector<const char*> header_texts, header_names, option_texts;
  std::vector<std::string> names;
  for (const KernelText& header : kernel_texts()) names.push_back("weft/kernels/" + std::string(header.file) + ".hpp");
  for (std::size_t i = 0; i < names.size(); ++i) {
    header_texts.push_back(kernel_texts()[i].text);
    header_names.push_back(names[i].c_str());
  }
  for (const std::string& option : options) option_texts.push_back(option.c_str());

  void* program = nullptr;
  int code = api.create(&program, text.c_str(), (spec.file + ".hpp").c_str(), static_cast<int>(names.size()),
                        header_texts.data(), header_names.data());
  if (code != 0) fail(spec, architecture, std::string("the compiler does not start: ") + api.error_text(code), "");
  code = api.compile(program, static_cast<int>(options.size()), option_texts.data());
  const auto get = [&](auto size_of, auto read) {
    std::size_t bytes = 0;
    if (size_of(program, &bytes) != 0 || bytes == 0) return std::string();
    std::string content(bytes, '\0');
    return read(program, content.data()) == 0 ? content : std::string();
  };
  Compiled compiled{"", get(api.log_size, api.log), api.version_text, backend};
  while (compiled.log.ends_with('\0')) compiled.log.pop_back();
  if (code == 0)
    compiled.image = is_virtual(architecture) ? get(api.ptx_size, api.ptx) : get(api.image_size, api.image);
  api.destroy(&program);
  if (code != 0)
    fail(spec, architecture, std::string(api.error_text(code)) + " (" + api.version_text + ")", compiled.log);
  if (compiled.image.empty()) fail(spec, architecture, api.version_text + " generated no code", compiled.log);
  return compiled;
}

// A cache entry: the length of the log in decimal, a newline, the log, the image.
std::string pack(const Compiled& compiled) {
  return std::to_string(compiled.log.size()) + "\n" + compiled.log + compiled.image;
}
Compiled unpack(const std::string& entry, const CompilerApi& api, Backend backend) {
  const std::size_t line = entry.find('\n') + 1;
  const std::size_t log = std::stoul(entry);
  return {entry.substr(line + log), entry.substr(line, log), api.version_text, backend};
}

KernelResources resources_of_log(const std::string& log, const std::string& kernel) {
  // ptxas info    : Compiling entry function 'axpy' for 'sm_90'
  // ptxas info    : Function properties for axpy
  //     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
  // ptxas info    : Used 18 registers, used 1 barriers, 2048 bytes smem
  KernelResources resources{};
  const std::size_t start = log.find("Compiling entry function '" + kernel + "'");
  if (start == log.npos)
    throw std::runtime_error("the compiler's log does not mention a kernel " + kernel + "\n" + log);
  const std::size_t used = log.find("Used ", start);
  const std::string part = log.substr(start, log.find('\n', used) - start);
  const auto number_before = [&](const char* words) {
    const std::size_t at = part.find(words);
    if (at == part.npos || at == 0) return 0;
    std::size_t begin = at - 1;
    while (begin > 0 && part[begin - 1] >= '0' && part[begin - 1] <= '9') --begin;
    return std::atoi(part.c_str() + begin);
  };
  if (part.find("bytes stack frame") == part.npos || part.find(" registers") == part.npos) {
    throw std::runtime_error("the compiler's log does not report the resources of " + kernel + "\n" + log);
  }
  resources.registers = number_before(" registers");
  resources.stack_bytes = number_before(" bytes stack frame");
  resources.spill_bytes = number_before(" bytes spill stores") + number_before(" bytes spill loads");
  resources.shared_bytes = number_before(" bytes smem");
  return resources;
}

// All that the result of a compilation depends on.
std::string key_of(const CompilerApi& api, const std::string& target, const std::vector<std::string>& options,
                   const std::string& source) {
  std::string key = api.version_text + "\n" + target + "\n";
  for (const std::string& option : options) key += option + "\n";
  return key + with_includes(source);
}

const CompilerApi& available_compiler(Backend backend, int driver_version) {
  const CompilerApi& api = compiler(backend, driver_version);
  if (!api.problem.empty()) throw std::runtime_error(api.problem);
  return api;
}

// Compiles, unless the result is in the cache.
Compiled compile_once(Backend backend, const KernelsSpec& spec, const std::string& architecture, int driver_version,
                      const char* text) {
  const std::string source = text != nullptr ? text : text_of(spec.file);
  const CompilerApi& api = available_compiler(backend, driver_version);
  const std::string target = target_of(api, architecture);
  const std::vector<std::string> options = options_for(backend, spec, target);
  const std::string key = key_of(api, target, options, source);
  const DiskCache cache("kernels", 1);
  if (const auto entry = cache.read(key).value) return unpack(*entry, api, backend);
  Compiled compiled = compile_now(api, backend, spec, target, source, options);
  cache.write(key, pack(compiled));
  return compiled;
}

std::vector<KernelResources> check_now(Backend backend, const KernelsSpec& spec, const std::string& architecture,
                                       const char* text) {
  const CompilerApi& api = compiler(backend, 0);
  if (is_virtual(target_of(api, architecture)))
    fail(spec, architecture, api.version_text + " does not know this architecture, so its resources are unknown", "");
  const Compiled compiled = compile_once(backend, spec, architecture, 0, text);
  std::vector<KernelResources> resources;
  for (const std::string& name : spec.names) resources.push_back(resources_of(compiled, name));
  return resources;
}

Backend backend_of(const std::string& architecture) {
  if (architecture.starts_with("sm_")) return Backend::cuda;
  if (architecture.starts_with("gfx")) return Backend::hip;
  throw std::invalid_argument("architecture \"" + architecture + "\" is unknown; use, for example, sm_90 or gfx90a");
}

// Runs check_now in a child process. The result, or the text of the error, comes back through a pipe.
std::vector<KernelResources> check_in_child(Backend backend, const KernelsSpec& spec, const std::string& architecture,
                                            const char* text) {
  compiler(backend, 0);  // open the compiler once, not in every child
  int ends[2];
  if (pipe(ends) != 0)
    throw std::runtime_error(std::string("cannot create a pipe to a child process: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("cannot start a child process: ") + std::strerror(errno));
  if (child == 0) {
    for (const int crash : {SIGABRT, SIGSEGV, SIGBUS, SIGILL}) std::signal(crash, SIG_DFL);  // drop the parent's
    std::string message;
    try {
      const std::vector<KernelResources> r = check_now(backend, spec, architecture, text);
      message.assign(reinterpret_cast<const char*>(r.data()), r.size() * sizeof r[0]);
      message.insert(0, 1, '+');
    } catch (const std::exception& error) {
      message = std::string("-") + error.what();
    }
    for (std::size_t done = 0; done < message.size();) {
      const ssize_t written = write(ends[1], message.data() + done, message.size() - done);
      if (written <= 0) break;
      done += static_cast<std::size_t>(written);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string message;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    message.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    fail(spec, architecture,
         "the compiler was ended by signal " + std::to_string(WTERMSIG(status)) +
             " (hipRTC 5.2 does so on architectures it does not know)",
         "");
  }
  if (message.starts_with('-')) throw std::runtime_error(message.substr(1));
  std::vector<KernelResources> resources(spec.names.size());
  const std::size_t bytes = resources.size() * sizeof resources[0];
  if (message.size() != 1 + bytes) fail(spec, architecture, "the compiler's process ended without a result", "");
  std::memcpy(resources.data(), message.data() + 1, bytes);
  return resources;
}

}  // namespace

std::vector<std::string> kernel_names(const KernelText& text) {
  const std::string_view body = text.text, start = "\nWEFT_KERNEL(";
  std::vector<std::string> names;
  for (std::size_t at = body.find(start); at != body.npos; at = body.find(start, at + 1)) {
    const std::size_t begin = at + start.size();
    names.emplace_back(body.substr(begin, body.find(',', begin) - begin));
  }
  return names;
}

Availability compiler_availability(Backend backend, int driver_version) {
  const CompilerApi& api = compiler(backend, driver_version);
  return {backend, api.problem.empty(), api.problem.empty() ? api.version_text : api.problem};
}

Compiled compile(Backend backend, const KernelSpec& spec, const std::string& architecture, int driver_version,
                 const char* text) {
  return compile_once(backend, {spec.file, {spec.name}, spec.defines}, architecture, driver_version, text);
}

std::vector<KernelResources> compile_check(const KernelsSpec& spec, const std::string& architecture, const char* text) {
  const Backend backend = backend_of(architecture);
  return backend == Backend::hip ? check_in_child(backend, spec, architecture, text)
                                 : check_now(backend, spec, architecture, text);
}

std::string compilation_key(const KernelsSpec& spec, const std::string& architecture) {
  const Backend backend = backend_of(architecture);
  const CompilerApi& api = available_compiler(backend, 0);
  const std::string target = target_of(api, architecture);
  return key_of(api, target, options_for(backend, spec, target), text_of(spec.file));
}

KernelResources resources_of(const Compiled& compiled, const std::string& kernel) {
  return compiled.backend == Backend::hip ? resources_of_code_object(compiled.image, kernel)
                                          : resources_of_log(compiled.log, kernel);
}

}  // namespace weft::device
