// A flow's state, and its averages, on disk: a run that goes on from a checkpoint.
//
// A restart on the same ranks in the same precision equals bit for bit the run that wrote the checkpoint and went on,
// if both call Solver::forget before the next step: earlier solutions that a solve begins from are not saved.
#pragma once

#include <cstdint>
#include <string>

#include "weft/flow/averages.hpp"
#include "weft/flow/checkpoint_file.hpp"
#include "weft/flow/state.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

inline constexpr const char* averages_name = "averages";  // of their field in the file

struct CheckpointOptions {
  std::string folder;  // where the checkpoint's folder is made
  int keep = 2;        // how many checkpoints stay; the oldest others are removed once the new one is complete
  std::string text;    // the case and the versions, for people and for the report
};

// Writes folder/checkpoint-<step> and returns its path. `averages` may be null. CollectiveError where it cannot be
// written: what was there before stays. (collective)
template <class T>
std::string write_checkpoint(space::Space<T>& space, State<T>& state, Averages<T>* averages,
                             const CheckpointOptions& options);

struct Restored {
  bool same_order = true;  // else the fields were interpolated and time stepping begins at order 1 again
  bool averages = false;   // went on; else they begin at this time
};

// Fills state and averages (may be null) from a checkpoint. A run of another time order takes the levels there are.
// CollectiveError as CheckpointFile; the state is then undefined. (collective)
template <class T>
Restored restore(const CheckpointFile& file, space::Space<T>& space, State<T>& state, Averages<T>* averages);

}  // namespace weft::flow
