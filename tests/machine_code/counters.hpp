// What a launch did, counted while it is emulated.
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
  std::uint64_t least = 0;       // that the same bytes would need if they lay side by side
  std::uint64_t wavefronts = 0;  // clocks of the L1's data stage; of global memory only, where units are sectors
  void add(const Accesses& other) {
    requests += other.requests;
    units += other.units;
    least += other.least;
    wavefronts += other.wavefronts;
  }
};

// What a time is made of: latencies of global memory, of the L2 and of shared memory that follow each other, and other
// clocks.
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
  std::uint64_t instructions = 0;                                              // of warps
  std::uint64_t lane_instructions = 0;                                         // of threads
  std::uint64_t barriers = 0;                                                  // that a block has met
  std::array<std::uint64_t, static_cast<std::size_t>(Pipe::count)> by_pipe{};  // instructions of warps
  std::map<std::string, std::uint64_t> by_opcode;                              // likewise
  Accesses global_loads, global_stores, shared_loads, shared_stores;
  std::uint64_t flops = 0;                            // of the lanes: FP32 and FP64, a fused multiply-add is two
  std::uint64_t memory_reads = 0, memory_writes = 0;  // sectors, each once per launch (traffic.hpp)
  std::uint64_t block_reads = 0;                      // sectors, each once per block
  Path path;                                          // of the blocks, one after the other (scoreboard.hpp)
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
