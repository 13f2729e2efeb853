// The state of a run of Maxwell's equations on disk: fields, and what a matched layer remembers of them.
//
// A restart on the same ranks in the same precision equals bit for bit the run that wrote the checkpoint and went on.
#pragma once

#include <string>

#include "weft/files/checkpoint_folder.hpp"
#include "weft/maxwell/solver.hpp"
#include "weft/mesh/element_file.hpp"

namespace weft::maxwell {

inline const files::CheckpointKind checkpoint_kind{
    {{'w', 'e', 'f', 't', 'm', 'a', 'x', 'w'}, 1, "a checkpoint of weft's maxwell"}, "maxwell.bin"};

using mesh::CheckpointOptions;

// Writes folder/checkpoint-<step> and returns its path. CollectiveError where it cannot be written: what was there
// before stays. (collective)
template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options);

// Goes on from the checkpoint at `path`; what it says of itself. Of another order the fields are interpolated in each
// element. Energy is measured from here (Solver::fields_changed). CollectiveError as mesh::ElementFile, and for a run
// with a matched layer where the checkpoint has none; the fields are then undefined. (collective)
template <class T>
mesh::ElementFile restore(Solver<T>& solver, const std::string& path);

}  // namespace weft::maxwell
