#include "disassembly.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "weft/device/disk_cache.hpp"

namespace weft::machine_code {
namespace {

std::string find_disassembler() {
  const auto usable = [](const std::filesystem::path& path) { return access(path.c_str(), X_OK) == 0; };
  if (const char* told = std::getenv("WEFT_NVDISASM"); told != nullptr && *told != '\0') {
    std::filesystem::path path(told);
    if (std::filesystem::is_directory(path)) path /= "nvdisasm";
    return usable(path) ? path.string() : "";
  }
  const char* folders = std::getenv("PATH");
  std::stringstream list(folders == nullptr ? "" : folders);
  for (std::string folder; std::getline(list, folder, ':');)
    if (const auto path = std::filesystem::path(folder) / "nvdisasm"; !folder.empty() && usable(path)) return path;
  return "";
}

// The standard output of a command; throws with its standard error if the command fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string text;
  std::array<char, 1 << 16> part;
  for (std::size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed:\n" + text);
  return text;
}

std::string text_of(const std::string& cubin) {
  const device::DiskCache cache("disassembly", 1);
  if (auto found = cache.read(cubin).value) return *found;
  const std::string problem = disassembler_problem();
  if (!problem.empty()) throw std::runtime_error(problem);
  std::string file = (std::filesystem::temp_directory_path() / "weft-cubin-XXXXXX").string();
  const int descriptor = mkstemp(file.data());
  if (descriptor < 0) throw std::runtime_error("cannot create " + file);
  close(descriptor);
  std::ofstream(file, std::ios::binary) << cubin;
  std::string text;
  try {
    // Without the analysis of branch stacks, which sm_70 and later do not have.
    std::ostringstream command;
    command << "'" << find_disassembler() << "' --print-code --no-dataflow '" << file << "'";
    text = output_of(command.str());
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
  std::filesystem::remove(file);
  cache.write(cubin, text);
  return text;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin, end - begin + 1);
}

// "@!P0 IMAD.WIDE R4, R3, 0x8, R6" without its address and semicolon.
Line parse(std::uint32_t address, const std::string& text) {
  Line line{.address = address, .guard = "", .name = "", .suffixes = {}, .operands = {}, .text = text};
  std::string rest = text;
  if (rest.starts_with('@')) {
    const std::size_t space = rest.find(' ');
    line.guard = rest.substr(1, space - 1);
    rest = trimmed(rest.substr(space));
  }
  const std::size_t space = rest.find(' ');
  std::stringstream opcode(rest.substr(0, space));
  std::getline(opcode, line.name, '.');
  for (std::string suffix; std::getline(opcode, suffix, '.');) line.suffixes.push_back(suffix);
  if (space == rest.npos) return line;
  std::stringstream operands(rest.substr(space));
  for (std::string operand; std::getline(operands, operand, ',');) line.operands.push_back(trimmed(operand));
  return line;
}

}  // namespace

std::string disassembler_problem() {
  return find_disassembler().empty()
             ? "nvdisasm is not found (pip install nvidia-cuda-nvdisasm, and set WEFT_NVDISASM to its folder)"
             : "";
}

std::map<std::string, Listing> disassemble(const std::string& cubin) {
  std::map<std::string, Listing> listings;
  Listing* current = nullptr;
  std::stringstream text(text_of(cubin));
  for (std::string row; std::getline(text, row);) {
    for (std::size_t begin; (begin = row.find("(*")) != row.npos;) {  // comments on the targets of a jump table
      const std::size_t end = row.find("*)", begin);
      row.erase(begin, end == row.npos ? row.npos : end + 2 - begin);
    }
    const std::string line = trimmed(row);
    if (line.starts_with(".section")) {
      const std::string name = trimmed(line.substr(8));
      current = name.starts_with(".text.") ? &listings[name.substr(6, name.find_first_of(",\t ") - 6)] : nullptr;
    } else if (current == nullptr || line.empty()) {
      continue;
    } else if (line.starts_with("/*")) {
      const std::size_t end = line.find("*/"), semicolon = line.rfind(';');
      if (end == line.npos || semicolon == line.npos)
        throw std::runtime_error("nvdisasm wrote a line that is not understood: " + line);
      const auto address = static_cast<std::uint32_t>(std::stoul(line.substr(2, end - 2), nullptr, 16));
      if (address != 16 * current->lines.size())
        throw std::runtime_error("nvdisasm left out an instruction before " + line);
      current->lines.push_back(parse(address, trimmed(line.substr(end + 2, semicolon - end - 2))));
    } else if (line.ends_with(':')) {
      current->labels[line.substr(0, line.size() - 1)] = static_cast<std::uint32_t>(16 * current->lines.size());
    }
  }
  return listings;
}

}  // namespace weft::machine_code
