// Points in assembled form (hipBone's "DOF storage"): the matrix Z of Eq. 2 as one index per local point, and the
// pattern that keeps the copies of shared DOFs on other ranks up to date.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/exchange/pattern.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// Local DOFs are numbered
//   [0, shared)       owned, also held by other ranks, ordered by global id;
//   [shared, owned)   owned, held by this rank alone, ordered by (first block that touches it, last block that does,
//                     first touch), so that what a block touches first or last is a few contiguous runs. Points may be
//                     processed in vectors of several lanes; then DOFs that are not first and last touched as a whole
//                     vector follow the others of their block, in the same order, and a few of them ([shared, apart))
//                     come before all blocks, so that what a block touches first begins at a multiple of the lanes;
//   [owned, local)    halo: owned by another rank, ordered by (owner, global id).
// Index `local` is the slot for ids <= 0: vectors have local + 1 entries, and that entry is kept 0. The owner of a
// shared DOF is one of the ranks that hold it, selected by a hash of its id, so that ownership is balanced and all
// ranks agree.
struct Assembly {
  struct Run {
    std::int64_t first_block, last_block;
    std::int64_t begin, end;  // DOFs
  };

  Assembly() = default;
  // ids: global id of each local point, in execution order. points_per_block: how many consecutive points are processed
  // together (the last block may be shorter). CollectiveError on all ranks if one has more DOFs than a 32-bit index can
  // address. (collective)
  Assembly(std::span<const std::int64_t> ids, std::int64_t points_per_block, const mpi::Comm& comm);
  // The same for points already looked up. Apart from the sum `global`, this needs no communication. (collective)
  Assembly(std::int64_t points, const PointsById& by_id, const Sharing& sharing, std::int64_t points_per_block,
           const mpi::Comm& comm);
  // The same for numbered points, without dof_ids. points_per_block must be a multiple of `lanes`. The work is shared
  // among the threads. (collective)
  Assembly(NumberedPoints points, std::int64_t points_per_block, int lanes, const mpi::Comm& comm);

  std::int64_t shared = 0, apart = 0, owned = 0, local = 0;
  std::int64_t global = 0;            // sum of owned over ranks
  std::vector<std::int32_t> index;    // [points] -> [0, local]
  std::vector<Run> runs;              // [apart, owned) by the blocks that touch them first and last, in order
  std::vector<std::int64_t> dof_ids;  // [local] global id
  Pattern pattern;
};

}  // namespace weft::exchange
