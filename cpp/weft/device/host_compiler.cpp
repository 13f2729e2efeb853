#include "weft/device/host_compiler.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "weft/device/disk_cache.hpp"
#include "weft/device/host_registry.hpp"
#include "weft/device/kernel_texts.hpp"

namespace weft::device {
namespace {

namespace fs = std::filesystem;

const std::string all_ahead = "build weft with -DWEFT_ORDERS=all -DWEFT_TYPES=all, which compiles all kernels ahead";

struct Ran {
  int status;  // exit status as from waitpid(); -1: the program did not start
  std::string output;
};
// Runs a program to its end. Its standard output and error are collected together.
Ran run(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {-1, std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int code = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Ran ran{-1, code != 0 ? std::strerror(code) : ""};
  char buffer[4096];
  for (ssize_t n = 1; code == 0 && n != 0;) {
    n = ::read(ends[0], buffer, sizeof buffer);
    if (n > 0) ran.output.append(buffer, static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  while (code == 0 && waitpid(child, &ran.status, 0) < 0 && errno == EINTR) {
  }
  return ran;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct HostCompiler {
  std::string path;     // empty: no compiler
  std::string version;  // without a compiler: the version weft was built with, whose objects the cache may hold
};
HostCompiler find_compiler() {
  std::vector<std::string> names{WEFT_HOST_CXX, "c++", "g++"};
  if (const char* chosen = std::getenv("WEFT_CXX"); chosen != nullptr && *chosen != '\0') names = {chosen};
  for (const std::string& name : names) {
    const Ran ran = run({name, "--version"});
    if (ran.status == 0) return {name, first_line(ran.output)};
  }
  return {"", WEFT_HOST_CXX_VERSION};
}

// The flags of the files that CMake compiles for this processor.
std::vector<std::string> options() {
  std::vector<std::string> all;
  std::istringstream words(WEFT_HOST_CXX_OPTIONS);
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

// Identifies the processor that -march=native stands for: the description of the first one.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string all;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    for (const char* part : {"vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features"})
      if (line.starts_with(part)) all += line + "\n";
  }
  return all;
}

std::string header_of(const std::string& file) {
  return file.find('/') == file.npos ? "weft/kernels/" + file + ".hpp" : "weft/" + file + ".hpp";
}

std::string main_text(const std::string& file, const std::string& constants) {
  std::string text;
  std::istringstream list(constants);
  for (std::string constant; std::getline(list, constant, ',');) {
    const std::size_t equals = constant.find('=');
    const std::string name = constant.substr(0, equals) == "real" ? "WEFT_REAL" : "WEFT_" + constant.substr(0, equals);
    text += "#define " + name + " " + constant.substr(equals + 1) + "\n";
  }
  return text + "#define WEFT_FILE \"" + file + "\"\n#define WEFT_CONSTANTS \"" + constants + "\"\n#include \"" +
         header_of(file) + "\"\n#include \"weft/device/host_module.hpp\"\n";
}

// The library's files that `text` includes, directly or indirectly, by path.
std::map<std::string, std::string> headers_of(const std::string& text) {
  std::map<std::string, const char*> known;
  for (const KernelText& kernel : kernel_texts())
    known["weft/kernels/" + std::string(kernel.file) + ".hpp"] = kernel.text;
  for (const KernelText& header : host_texts()) known[std::string(header.file)] = header.text;
  std::map<std::string, std::string> found;
  std::vector<std::string> left{text};
  const std::string include = "#include \"";
  while (!left.empty()) {
    const std::string current = std::move(left.back());
    left.pop_back();
    for (std::size_t at = current.find(include); at != current.npos; at = current.find(include, at + 1)) {
      const std::size_t begin = at + include.size();
      const std::string path = current.substr(begin, current.find('"', begin) - begin);
      const auto header = known.find(path);
      if (header != known.end() && found.try_emplace(path, header->second).second) left.emplace_back(header->second);
    }
  }
  return found;
}

// A temporary folder for one compilation.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "weft-kernels-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no folder for compilations in " + fs::temp_directory_path().string() + ": " +
                               std::strerror(errno) + "; set TMPDIR to one that can be written");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path path;
};

std::string described(const std::string& file, const std::string& constants) {
  return header_of(file).substr(5) + " (" + constants + ")";
}

// Compiles the unit and returns the bytes of the shared object.
std::string compile_now(const HostCompiler& compiler, const std::string& file, const std::string& constants,
                        const std::string& text, const std::map<std::string, std::string>& headers) {
  const Folder folder;
  const auto put = [&](const std::string& path, const std::string& content) {
    fs::create_directories((folder.path / path).parent_path());
    std::ofstream out(folder.path / path, std::ios::binary);
    out << content;
    out.close();
    if (!out)
      throw std::runtime_error("writing " + (folder.path / path).string() +
                               " failed; set TMPDIR to a folder with space");
  };
  put("unit.cpp", text);
  for (const auto& [path, content] : headers) put(path, content);
  std::vector<std::string> words{compiler.path};
  for (std::string& option : options()) words.push_back(std::move(option));
  for (const char* word : {"-w", "-fPIC", "-shared", "-fvisibility=hidden"}) words.emplace_back(word);
  words.push_back("-I" + folder.path.string());
  words.push_back((folder.path / "unit.cpp").string());
  words.emplace_back("-o");
  words.push_back((folder.path / "unit.so").string());
  const Ran ran = run(words);
  // Ctrl-C in a terminal reaches the compiler, too.
  if (ran.status != -1 && WIFSIGNALED(ran.status) && WTERMSIG(ran.status) == SIGINT)
    throw std::runtime_error("interrupted while compiling " + described(file, constants) +
                             "; the kernels that were ready are kept for the next run");
  if (ran.status != 0) {
    std::string how = ran.status == -1          ? " did not start"
                      : WIFSIGNALED(ran.status) ? " was ended by signal " + std::to_string(WTERMSIG(ran.status))
                                                : " failed";
    throw std::runtime_error("compiling " + described(file, constants) + ": " + compiler.path + how + " (" +
                             compiler.version + ")\n" + ran.output);
  }
  std::ifstream object(folder.path / "unit.so", std::ios::binary);
  std::stringstream bytes;
  bytes << object.rdbuf();
  return std::move(bytes).str();
}

// Prints one line per order and type, no matter which of the waiting processes compiles. `lock` records what was
// printed.
void announce(CacheLock* lock, const std::string& constants) {
  std::string what = "the " + constants.substr(constants.find("real=") + 5) + " kernels";
  if (constants.starts_with("N=")) what += " of order " + constants.substr(2, constants.find(',') - 2);
  static std::set<std::string> said;
  if (!said.insert(what).second || (lock != nullptr && !lock->note(what))) return;
  const std::string directory = cache_directory();
  std::fprintf(stderr, "weft: compiling %s for this processor (%s) ...\n", what.c_str(),
               directory.empty() ? "in every run, as there is no cache" : ("once, kept in " + directory).c_str());
}

std::string object_of(const std::string& file, const std::string& constants) {
  static const HostCompiler compiler = find_compiler();
  const std::string text = main_text(file, constants);
  const std::map<std::string, std::string> headers = headers_of(text);
  std::string key = compiler.version + "\n" + WEFT_HOST_CXX_OPTIONS + "\n";
  if (std::strstr(WEFT_HOST_CXX_OPTIONS, "=native") != nullptr) key += processor();
  key += text;
  for (const auto& [path, content] : headers) key += path + "\n" + content;

  const DiskCache cache("host", 1);
  if (auto entry = cache.read(key).value) return std::move(*entry);
  if (compiler.path.empty()) {
    const char* chosen = std::getenv("WEFT_CXX");
    throw std::runtime_error(described(file, constants) + " is compiled on first use, and there is no C++ compiler: " +
                             (chosen != nullptr && *chosen != '\0'
                                  ? std::string("WEFT_CXX=") + chosen + " does not run"
                                  : "neither the one weft was built with (" WEFT_HOST_CXX ") runs, nor c++ nor g++") +
                             ". Install one (Debian: apt install g++) or name it by WEFT_CXX, run weft once with this "
                             "order and type where there is "
                             "one and the same cache, or " +
                             all_ahead);
  }
  if (cache_directory().empty()) {
    announce(nullptr, constants);
    return compile_now(compiler, file, constants, text, headers);
  }
  CacheLock lock("host");
  if (!lock.problem().empty()) {
    throw std::runtime_error(described(file, constants) +
                             " is compiled on first use, but cannot be kept: " + lock.problem() +
                             ". Set WEFT_CACHE to a folder that can be written, or to off to compile it in every run, "
                             "or " +
                             all_ahead);
  }
  if (auto entry = cache.read(key).value) return std::move(*entry);  // another process made it in the meantime
  announce(&lock, constants);
  std::string object = compile_now(compiler, file, constants, text, headers);
  cache.write(key, object);
  return object;
}

// The object is opened from memory, because the cache entry holds more than the object, and because the cache's file
// system may not allow execution.
void open_object(const std::string& file, const std::string& constants, const std::string& object) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("opening the compiled " + described(file, constants) + ": " + what);
  };
  const std::string name = "weft " + file + " " + constants;
  const int memory = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (memory < 0) fail(std::strerror(errno));
  for (std::size_t done = 0; done < object.size();) {
    const ssize_t n = ::write(memory, object.data() + done, object.size() - done);
    if (n < 0) fail(std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  // The descriptor stays open: the loader takes a second object under the same name for the first one.
  void* handle = dlopen(("/proc/self/fd/" + std::to_string(memory)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(dlerror());
  using Give = int(RegisterHostKernel*, RegisterHostTable*);
  auto* give = reinterpret_cast<Give*>(dlsym(handle, "weft_host_module"));
  if (give == nullptr) fail(dlerror());
  const int bytes = give(&register_host_kernel, &register_host_table);
  if (bytes != vector_bytes())
    fail("its vectors have " + std::to_string(bytes) + " bytes and weft's " + std::to_string(vector_bytes()) +
         ", as weft was compiled on another kind of processor; compile weft on this one");
}

void open_once(const std::string& file, const std::string& constants) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> opened;
  const std::lock_guard lock(mutex);
  if (opened.contains({file, constants})) return;
  open_object(file, constants, object_of(file, constants));
  opened.emplace(file, constants);
}

}  // namespace

void open_host_unit(const std::string& file, const std::string& constants) {
  const auto wanted = [&](const HostUnit& unit) {
    return std::string_view(unit.file) == file && std::string_view(unit.constants) == constants && !unit.built_in;
  };
  if (std::ranges::any_of(host_units(), wanted)) open_once(file, constants);
}

const void* host_table(const std::string& file, const std::string& name, int order, const std::string& real) {
  const std::string constants = "N=" + std::to_string(order) + ",real=" + real;
  const void* table = find_host_table(file, name, constants, vector_bytes());
  if (table == nullptr) {
    open_once(file, constants);
    table = find_host_table(file, name, constants, vector_bytes());
  }
  if (table == nullptr) throw std::logic_error(described(file, constants) + " has no table " + name);
  return table;
}

}  // namespace weft::device
