// The state of a turbulence run on disk: modes, and the state of the forcing.
//
// A restart on the same ranks in the same precision is bit-identical to the run that wrote the checkpoint and
// continued.
#pragma once

#include <string>

#include "weft/turbulence/checkpoint_file.hpp"
#include "weft/turbulence/solver.hpp"

namespace weft::turbulence {

// Writes a checkpoint of the current step, with `text` as a note for readers and the report; returns its path.
// CollectiveError if it cannot be written; earlier checkpoints are then kept. (collective)
template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options, const std::string& text);

// Continues from the checkpoint at `path`; returns its description. If the forcing is of another kind, it starts anew.
// CollectiveError as in Checkpoint; the fields are then undefined. (collective)
template <class T>
Checkpoint restore(Solver<T>& solver, const std::string& path);

}  // namespace weft::turbulence
