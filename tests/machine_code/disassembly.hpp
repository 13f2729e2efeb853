// The instructions of a cubin, as NVIDIA's nvdisasm writes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::machine_code {

struct Line {
  std::uint32_t address = 0;
  std::string guard;                  // "P0", "!UP1" or nothing
  std::string name;                   // "IMAD"
  std::vector<std::string> suffixes;  // "WIDE", "U32"
  std::vector<std::string> operands;  // "-R4", "c[0x0][0x210]", "`(.L_x_1)"
  std::string text;
};
struct Listing {
  std::vector<Line> lines;                      // one per 16 bytes
  std::map<std::string, std::uint32_t> labels;  // -> address
};

// The reason why cubins cannot be disassembled; empty if they can. nvdisasm is searched for in $WEFT_NVDISASM (a file
// or a folder) and on the PATH.
std::string disassembler_problem();
// A cubin that `disassemble` may be called for. The first call disassembles all that were announced, since nvdisasm
// takes longer to start than to disassemble one.
void announce(const std::string& cubin);
// Listings by name of the kernel. Kept in weft's cache, because nvdisasm takes longer than many tests.
std::map<std::string, Listing> disassemble(const std::string& cubin);

}  // namespace weft::machine_code
