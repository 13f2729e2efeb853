// What a launch did, counted during emulation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "instruction.hpp"

namespace weft::machine_code {

// Accesses to one kind of memory. A request is one instruction of one warp.
struct Accesses {
  std::uint64_t requests = 0;
  std::uint64_t units = 0;       // sectors of 32 bytes, or wavefronts of shared memory
  std::uint64_t least = 0;       // the minimum, if the same bytes were contiguous
  std::uint64_t wavefronts = 0;  // clocks of the L1's data stage; only for global memory, where units are sectors
  void add(const Accesses& other) {
    requests += other.requests;
    units += other.units;
    least += other.least;
    wavefronts += other.wavefronts;
  }
};

// The components of a time: latencies of global memory, of the L2 and of shared memory that follow each other, and
// other clocks.
struct Path {
  std::uint64_t global = 0, l2 = 0, shared = 0, clocks = 0;
  void add(const Path& other) {
    global += other.global;
    l2 += other.l2;
    shared += other.shared;
    clocks += other.clocks;
  }
};

struct Counters {
  std::uint64_t launches = 0, blocks = 0, threads = 0;
  std::uint64_t instructions = 0;                                              // per warp
  std::uint64_t lane_instructions = 0;                                         // per thread
  std::uint64_t barriers = 0;                                                  // reached by a block
  std::array<std::uint64_t, static_cast<std::size_t>(Pipe::count)> by_pipe{};  // instructions per warp
  std::map<std::string, std::uint64_t> by_opcode;                              // likewise
  Accesses global_loads, global_stores, shared_loads, shared_stores;
  std::uint64_t flops = 0;                            // of all lanes: FP32 and FP64; a fused multiply-add is two
  std::uint64_t memory_reads = 0, memory_writes = 0;  // sectors, each once per launch (traffic.hpp)
  std::uint64_t block_reads = 0;                      // sectors, each once per block
  Path path;                                          // sum over the blocks (scoreboard.hpp)
  unsigned registers = 0, shared_bytes = 0;           // per thread, per block

  void add(const Counters& other) {
    launches += other.launches;
    blocks += other.blocks;
    threads += other.threads;
    instructions += other.instructions;
    lane_instructions += other.lane_instructions;
    barriers += other.barriers;
    for (std::size_t i = 0; i < by_pipe.size(); ++i) by_pipe[i] += other.by_pipe[i];
    for (const auto& [name, count] : other.by_opcode) by_opcode[name] += count;
    global_loads.add(other.global_loads);
    global_stores.add(other.global_stores);
    shared_loads.add(other.shared_loads);
    shared_stores.add(other.shared_stores);
    flops += other.flops;
    memory_reads += other.memory_reads;
    memory_writes += other.memory_writes;
    block_reads += other.block_reads;
    path.add(other.path);
    registers = std::max(registers, other.registers);
    shared_bytes = std::max(shared_bytes, other.shared_bytes);
  }
};

}  // namespace weft::machine_code
