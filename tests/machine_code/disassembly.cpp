#include "disassembly.hpp"

#include <elf.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "image.hpp"
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

Elf64_Ehdr header_of(const std::string& cubin) {
  Elf64_Ehdr header;
  std::memcpy(&header, cubin.data(), sizeof header);
  return header;
}

// One cubin with the code of all `cubins`, which are for the same architecture: the code of kernel NAME of the k-th is
// in section .text.k.NAME. nvdisasm needs no other sections, since code has no relocations (image.cpp).
std::string joined(const std::vector<std::string>& cubins) {
  std::vector<Elf64_Shdr> sections(2);  // the first is empty, the second has the names
  std::string names("\0.names\0", 8), file(sizeof(Elf64_Ehdr), '\0');
  for (std::size_t k = 0; k < cubins.size(); ++k) {
    const Image image(cubins[k]);
    for (const auto& [name, kernel] : image.kernels()) {
      file.resize((file.size() + 127) / 128 * 128);
      Elf64_Shdr& section = sections.emplace_back();
      section.sh_name = static_cast<Elf64_Word>(names.size());
      section.sh_type = SHT_PROGBITS;
      section.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
      section.sh_offset = file.size();
      section.sh_size = kernel.code.size();
      section.sh_addralign = 128;
      names += ".text." + std::to_string(k) + "." + name + '\0';
      file.append(kernel.code.begin(), kernel.code.end());
    }
  }
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = file.size();
  sections[1].sh_size = names.size();
  file += names;
  file.resize((file.size() + 7) / 8 * 8);
  Elf64_Ehdr header = header_of(cubins[0]);
  header.e_phoff = header.e_phnum = 0;
  header.e_shoff = file.size();
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = 1;
  std::memcpy(file.data(), &header, sizeof header);
  return file.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
}

std::string nvdisasm(const std::string& cubin) {
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
  return text;
}

// What nvdisasm writes of each of `cubins`, in sections .text.NAME.
std::vector<std::string> texts_of(const std::vector<std::string>& cubins) {
  std::vector<std::string> texts(cubins.size());
  std::string* current = nullptr;
  std::stringstream all(nvdisasm(joined(cubins)));
  const std::string begin = "\t.section\t.text.";
  for (std::string row; std::getline(all, row);) {
    if (row.starts_with(begin)) {
      std::size_t digits = 0;
      current = &texts.at(std::stoul(row.substr(begin.size()), &digits));
      row.erase(begin.size(), digits + 1);
    }
    if (current != nullptr) *current += row + '\n';
  }
  return texts;
}

struct Announced {
  std::mutex mutex;
  std::map<std::string, std::string> texts;  // of cubins; empty if they are not disassembled yet
};
Announced& announced() {
  static Announced all;
  return all;
}

std::string text_of(const std::string& cubin) {
  const device::DiskCache cache("disassembly", 2);
  const std::lock_guard lock(announced().mutex);
  std::string& text = announced().texts[cubin];
  if (text.empty()) text = cache.read(cubin).value.value_or("");
  if (!text.empty()) return text;
  std::vector<std::string> missing;
  for (auto& [other, of_other] : announced().texts) {
    if (!of_other.empty() || header_of(other).e_flags != header_of(cubin).e_flags) continue;
    of_other = cache.read(other).value.value_or("");
    if (of_other.empty()) missing.push_back(other);
  }
  const std::vector<std::string> found = texts_of(missing);
  for (std::size_t k = 0; k < missing.size(); ++k) {
    announced().texts[missing[k]] = found[k];
    cache.write(missing[k], found[k]);
  }
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

void announce(const std::string& cubin) {
  const std::lock_guard lock(announced().mutex);
  announced().texts.try_emplace(cubin);
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
