#include "image.hpp"

#include <elf.h>

#include <cstring>
#include <span>
#include <stdexcept>

namespace weft::machine_code {
namespace {

enum Attribute : unsigned {
  max_threads = 0x05,
  parameter_bank = 0x0a,
  frame_bytes = 0x11,
  stack_bytes = 0x12,
  parameter_info = 0x17,
  register_count = 0x2f,
  max_stack_bytes = 0x23,
};
constexpr std::uint32_t address_relocation = 2;  // R_CUDA_64

template <class T>
T read(std::span<const char> bytes, std::size_t at) {
  T value;
  if (at > bytes.size() || sizeof(T) > bytes.size() - at) throw std::runtime_error("a cubin ends early");
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Calls visit(attribute, its bytes) for each entry of a section .nv.info…: one byte for the form, one byte for the
// attribute, then two bytes that hold the value or, in form 4, the number of bytes that follow.
template <class Visit>
void for_each_attribute(std::span<const char> info, Visit&& visit) {
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const auto form = read<std::uint8_t>(info, at), attribute = read<std::uint8_t>(info, at + 1);
    const std::size_t size = form == 4 ? read<std::uint16_t>(info, at + 2) : 0;
    if (at + 4 + size > info.size()) throw std::runtime_error("a cubin's attributes end early");
    visit(attribute, form == 4 ? info.subspan(at + 4, size) : info.subspan(at + 2, 2));
    at += 4 + size;
  }
}

struct Symbol {
  std::string name;
  Elf64_Sym entry;
};

// The sections and symbols of an ELF file.
class Elf {
 public:
  explicit Elf(std::span<const char> file) : file_(file) {
    const auto header = read<Elf64_Ehdr>(file, 0);
    for (unsigned i = 0; i < header.e_shnum; ++i)
      sections_.push_back(read<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr)));
    names_ = sections_.at(header.e_shstrndx);
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      for (std::size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
        const auto entry = read<Elf64_Sym>(content(section), at);
        symbols_.push_back({text_at(sections_.at(section.sh_link), entry.st_name), entry});
      }
    }
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  std::string name_of(const Elf64_Shdr& section) const { return text_at(names_, section.sh_name); }
  std::span<const char> content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return {};
    if (section.sh_offset + section.sh_size > file_.size()) throw std::runtime_error("a cubin ends early");
    return file_.subspan(section.sh_offset, section.sh_size);
  }

 private:
  std::string text_at(const Elf64_Shdr& strings, std::size_t at) const { return content(strings).subspan(at).data(); }

  std::span<const char> file_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{};
  std::vector<Symbol> symbols_;
};

// The kernel whose section is called `prefix` and its name; null if there is none.
Kernel* kernel_after(const std::string& prefix, const std::string& section, std::map<std::string, Kernel>& kernels) {
  if (!section.starts_with(prefix)) return nullptr;
  const auto found = kernels.find(section.substr(prefix.size()));
  return found == kernels.end() ? nullptr : &found->second;
}

void read_attributes(std::span<const char> info, Kernel& kernel) {
  for_each_attribute(info, [&](unsigned attribute, std::span<const char> value) {
    if (attribute == parameter_info) {
      const auto ordinal = read<std::uint16_t>(value, 4);
      if (ordinal >= kernel.parameters.size()) kernel.parameters.resize(ordinal + 1u);
      kernel.parameters[ordinal] = {read<std::uint16_t>(value, 6), read<std::uint32_t>(value, 8) >> 18};
    } else if (attribute == parameter_bank) {
      kernel.parameters_at = read<std::uint16_t>(value, 4);
    } else if (attribute == max_threads) {
      kernel.max_threads =
          read<std::uint32_t>(value, 0) * read<std::uint32_t>(value, 4) * read<std::uint32_t>(value, 8);
    }
  });
}

// Registers and stacks, which are in the section of all kernels.
void read_resources(std::span<const char> info, const std::vector<Symbol>& symbols,
                    std::map<std::string, Kernel>& kernels) {
  for_each_attribute(info, [&](unsigned attribute, std::span<const char> value) {
    if (attribute != register_count && attribute != frame_bytes && attribute != stack_bytes) return;
    const auto found = kernels.find(symbols.at(read<std::uint32_t>(value, 0)).name);
    if (found == kernels.end()) return;  // a function called by kernels
    const auto number = read<std::uint32_t>(value, 4);
    unsigned& place = attribute == register_count ? found->second.registers : found->second.local_bytes;
    place = std::max(place, number);
  });
}

}  // namespace

bool Image::is_elf(const void* image) { return std::memcmp(image, ELFMAG, SELFMAG) == 0; }

Image::Image(std::string cubin) : bytes_(std::move(cubin)), variables_(std::make_shared<std::vector<char>>()) {
  const std::span<const char> file(bytes_);
  if (file.size() < sizeof(Elf64_Ehdr) || !is_elf(file.data())) throw std::runtime_error("the image is no cubin");
  const Elf elf(file);
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string name = elf.name_of(section);
    if (!name.starts_with(".text.")) continue;
    Kernel& kernel = kernels_[name.substr(6)];
    kernel.name = name.substr(6);
    const auto code = elf.content(section);
    kernel.code.assign(code.begin(), code.end());
  }

  // Memory of the variables, initialised ones first; and where each of their sections begins.
  std::map<std::size_t, std::size_t> begins;
  for (std::size_t i = 0; i < elf.sections().size(); ++i) {
    const Elf64_Shdr& section = elf.sections()[i];
    const std::string name = elf.name_of(section);
    if (name != ".nv.global.init" && name != ".nv.global") continue;
    variables_->resize((variables_->size() + 255) / 256 * 256);
    begins[i] = variables_->size();
    const auto initial = elf.content(section);
    variables_->insert(variables_->end(), initial.begin(), initial.end());
    variables_->resize(begins[i] + section.sh_size);
  }
  for (const Symbol& symbol : elf.symbols())
    if (const auto begin = begins.find(symbol.entry.st_shndx); begin != begins.end())
      named_[symbol.name] = std::span(*variables_).subspan(begin->second + symbol.entry.st_value, symbol.entry.st_size);

  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string name = elf.name_of(section);
    const auto bytes = elf.content(section);
    if (Kernel* of_info = kernel_after(".nv.info.", name, kernels_)) {
      read_attributes(bytes, *of_info);
    } else if (Kernel* of_constants = kernel_after(".nv.constant0.", name, kernels_)) {
      of_constants->constant_bytes = static_cast<unsigned>(section.sh_size);
    } else if (Kernel* of_tables = kernel_after(".nv.constant2.", name, kernels_)) {
      of_tables->private_constants.assign(bytes.begin(), bytes.end());
    } else if (Kernel* of_shared = kernel_after(".nv.shared.", name, kernels_)) {
      of_shared->shared_end = static_cast<unsigned>(section.sh_size);
    } else if (name == ".nv.constant3" || name == ".nv.constant4") {
      constants_[name.back() - '0'].assign(bytes.begin(), bytes.end());
    } else if (name == ".nv.info") {
      read_resources(bytes, elf.symbols(), kernels_);
    }
  }

  // The addresses of variables in the constant banks.
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string name = elf.name_of(section);
    if (section.sh_size == 0 || name.starts_with(".rela.debug") || name.starts_with(".rel.debug")) continue;
    if (section.sh_type != SHT_RELA && section.sh_type != SHT_REL) continue;
    if (name != ".rela.nv.constant3" && name != ".rela.nv.constant4")
      throw std::runtime_error("a cubin has relocations in " + name + ", which are not understood");
    const auto bytes = elf.content(section);
    std::vector<char>& bank = constants_[name.back() - '0'];
    for (std::size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Rela)) {
      const auto relocation = read<Elf64_Rela>(bytes, at);
      const Symbol& symbol = elf.symbols().at(ELF64_R_SYM(relocation.r_info));
      const auto begin = begins.find(symbol.entry.st_shndx);
      if (ELF64_R_TYPE(relocation.r_info) != address_relocation || begin == begins.end())
        throw std::runtime_error("a cubin has a relocation to " + symbol.name + " that is not understood");
      const char* address = variables_->data() + begin->second + symbol.entry.st_value + relocation.r_addend;
      if (relocation.r_offset + sizeof address > bank.size()) throw std::runtime_error("a cubin ends early");
      std::memcpy(bank.data() + relocation.r_offset, &address, sizeof address);
    }
  }
  for (const auto& [name, kernel] : kernels_) {
    if (kernel.registers == 0) throw std::runtime_error("a cubin does not say how many registers " + name + " has");
  }
}

}  // namespace weft::machine_code
