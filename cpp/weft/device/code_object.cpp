// Reads the layout described in LLVM's "User Guide for AMDGPU Backend", sections "Code Object Metadata" and "Note
// Records", and in the msgpack specification. It supports only the msgpack types that occur in kernel metadata: maps,
// arrays, strings, integers and booleans.
#include "weft/device/code_object.hpp"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace weft::device {
namespace {

class Msgpack {
 public:
  explicit Msgpack(std::string_view bytes) : bytes_(bytes) {}

  // The number of pairs (map) or entries (array) that follow.
  std::size_t map() { return container(0x80, 0xDE); }
  std::size_t array() { return container(0x90, 0xDC); }
  std::string_view text() {
    const unsigned type = byte();
    if ((type & 0xE0) == 0xA0) return take(type & 0x1F);
    if (type >= 0xD9 && type <= 0xDB) return take(big_endian(1u << (type - 0xD9)));
    throw std::runtime_error("code object metadata: expected a string");
  }
  std::int64_t integer() {
    const unsigned type = byte();
    if (type < 0x80) return type;
    if (type >= 0xE0) return static_cast<std::int8_t>(type);
    if (type >= 0xCC && type <= 0xCF) return static_cast<std::int64_t>(big_endian(1u << (type - 0xCC)));
    if (type >= 0xD0 && type <= 0xD3) {
      const unsigned size = 1u << (type - 0xD0);
      const unsigned shift = 64 - 8 * size;
      return static_cast<std::int64_t>(big_endian(size) << shift) >> shift;
    }
    throw std::runtime_error("code object metadata: expected an integer");
  }
  void skip() {
    const unsigned type = peek();
    if ((type & 0xF0) == 0x80 || type == 0xDE || type == 0xDF) {
      for (std::size_t n = 2 * map(); n > 0; --n) skip();
    } else if ((type & 0xF0) == 0x90 || type == 0xDC || type == 0xDD) {
      for (std::size_t n = array(); n > 0; --n) skip();
    } else if ((type & 0xE0) == 0xA0 || (type >= 0xD9 && type <= 0xDB)) {
      text();
    } else if (type == 0xC0 || type == 0xC2 || type == 0xC3) {
      byte();
    } else {
      integer();
    }
  }

 private:
  unsigned peek() const {
    if (at_ >= bytes_.size()) throw std::runtime_error("code object metadata ends early");
    return static_cast<unsigned char>(bytes_[at_]);
  }
  unsigned byte() {
    const unsigned value = peek();
    ++at_;
    return value;
  }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size() - at_) throw std::runtime_error("code object metadata ends early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::uint64_t big_endian(unsigned size) {
    std::uint64_t value = 0;
    for (const char c : take(size)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::size_t container(unsigned fixed, unsigned sized) {
    const unsigned type = byte();
    if ((type & 0xF0) == fixed) return type & 0x0F;
    if (type == sized || type == sized + 1) return big_endian(type == sized ? 2 : 4);
    throw std::runtime_error("code object metadata: expected a map or an array");
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

template <class T>
T read(std::string_view bytes, std::size_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) throw std::runtime_error("the code object ends early");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The contents of the note of type NT_AMDGPU_METADATA.
std::string_view metadata(std::string_view elf) {
  constexpr unsigned metadata_note = 32;
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  const auto header = read<Elf64_Ehdr>(elf, 0);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(elf, header.e_phoff + i * header.e_phentsize);
    if (segment.p_type != PT_NOTE) continue;
    for (std::size_t at = segment.p_offset; at + sizeof(Elf64_Nhdr) <= segment.p_offset + segment.p_filesz;) {
      const auto note = read<Elf64_Nhdr>(elf, at);
      const std::size_t content = at + sizeof note + padded(note.n_namesz);
      if (note.n_type == metadata_note && content + note.n_descsz <= elf.size())
        return elf.substr(content, note.n_descsz);
      at = content + padded(note.n_descsz);
    }
  }
  throw std::runtime_error("the code object has no metadata note");
}

}  // namespace

KernelResources resources_of_code_object(const std::string& image, const std::string& kernel) {
  // A bundle holds an empty host entry and the device's ELF image.
  const std::size_t start = image.find(ELFMAG);
  if (start == image.npos) throw std::runtime_error("the code object is not an ELF image");
  Msgpack pack(metadata(std::string_view(image).substr(start)));
  for (std::size_t keys = pack.map(); keys > 0; --keys) {
    if (pack.text() != "amdhsa.kernels") {
      pack.skip();
      continue;
    }
    for (std::size_t kernels = pack.array(); kernels > 0; --kernels) {
      KernelResources resources{};
      std::string_view name;
      for (std::size_t fields = pack.map(); fields > 0; --fields) {
        const std::string_view field = pack.text();
        if (field == ".name")
          name = pack.text();
        else if (field == ".vgpr_count")
          resources.registers = static_cast<int>(pack.integer());
        else if (field == ".private_segment_fixed_size")
          resources.stack_bytes = static_cast<int>(pack.integer());
        else if (field == ".group_segment_fixed_size")
          resources.shared_bytes = static_cast<int>(pack.integer());
        else if (field == ".vgpr_spill_count")
          resources.spill_bytes = 4 * static_cast<int>(pack.integer());
        else if (field == ".sgpr_spill_count")
          resources.scalar_spills = static_cast<int>(pack.integer());
        else
          pack.skip();
      }
      if (name == kernel) return resources;
    }
  }
  throw std::runtime_error("the code object has no kernel " + kernel);
}

}  // namespace weft::device
