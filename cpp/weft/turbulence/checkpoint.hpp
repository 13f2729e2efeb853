// The state of a run of turbulence on disk: modes, and what the forcing remembers.
//
// A restart on the same ranks in the same precision equals bit for bit the run that wrote the checkpoint and went on.
#pragma once

#include <string>

#include "weft/turbulence/checkpoint_file.hpp"
#include "weft/turbulence/solver.hpp"

namespace weft::turbulence {

// Writes the checkpoint of the present step, with `text` for people and for the report; its path. CollectiveError where
// it cannot be written: what was there before stays. (collective)
template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options, const std::string& text);

// Goes on from the checkpoint at `path`; what it says of itself. A run with another forcing begins that anew.
// CollectiveError as Checkpoint; the fields are then undefined. (collective)
template <class T>
Checkpoint restore(Solver<T>& solver, const std::string& path);

}  // namespace weft::turbulence
