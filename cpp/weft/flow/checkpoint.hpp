// A flow's state and averages on disk, to continue a run from a checkpoint.
//
// A restart on the same ranks in the same precision is bit-identical to the run that wrote the checkpoint and
// continued, provided both call Solver::forget before the next step: the earlier solutions used for initial guesses are
// not saved.
#pragma once

#include <string>

#include "weft/files/checkpoint_folder.hpp"
#include "weft/flow/averages.hpp"
#include "weft/flow/solver.hpp"
#include "weft/flow/state.hpp"
#include "weft/mesh/element_file.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

inline const files::CheckpointKind checkpoint_kind{
    {{'w', 'e', 'f', 't', 'f', 'l', 'o', 'w'}, 1, "a checkpoint of weft's flow"}, "flow.bin"};
inline constexpr const char* averages_name = "averages";  // name of their field in the file

using mesh::CheckpointOptions;

// Writes a solver's state and, if there are any, its averages; returns the path. Calls Solver::forget, so that this run
// and a restarted one are identical. (collective)
template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options);

// Continues from the checkpoint at `path`, with its averages if it has any; returns its description. CollectiveError as
// in mesh::ElementFile. (collective)
template <class T>
mesh::ElementFile restore(Solver<T>& solver, const std::string& path);

// Writes folder/checkpoint-<step> and returns its path. `averages` may be null. CollectiveError if it cannot be
// written; earlier checkpoints are then kept. (collective)
template <class T>
std::string write_checkpoint(space::Space<T>& space, State<T>& state, Averages<T>* averages,
                             const CheckpointOptions& options);

struct Restored {
  bool same_order = true;  // if not, the fields were interpolated and time stepping begins again at order 1
  bool averages = false;   // continued from the file; if not, they begin at this time
};

// Fills state and averages (may be null) from a checkpoint. A run with a different time order uses the available
// levels. CollectiveError as in mesh::ElementFile; the state is then undefined. (collective)
template <class T>
Restored restore(const mesh::ElementFile& file, space::Space<T>& space, State<T>& state, Averages<T>* averages);

}  // namespace weft::flow
