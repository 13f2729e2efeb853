// The state of a Maxwell run on disk: fields, and the auxiliary variables of a matched layer.
//
// A restart on the same ranks in the same precision is bit-identical to the run that wrote the checkpoint and
// continued.
#pragma once

#include <string>

#include "weft/files/checkpoint_folder.hpp"
#include "weft/maxwell/solver.hpp"
#include "weft/mesh/element_file.hpp"

namespace weft::maxwell {

inline const files::CheckpointKind checkpoint_kind{
    {{'w', 'e', 'f', 't', 'm', 'a', 'x', 'w'}, 1, "a checkpoint of weft's maxwell"}, "maxwell.bin"};

using mesh::CheckpointOptions;

// Writes folder/checkpoint-<step> and returns its path. CollectiveError if it cannot be written; earlier checkpoints
// are then kept. (collective)
template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options);

// Continues from the checkpoint at `path`; returns its description. Fields of another order are interpolated in each
// element. The energy bound restarts here (Solver::fields_changed). CollectiveError as in mesh::ElementFile, and if the
// run has a matched layer but the checkpoint does not; the fields are then undefined. (collective)
template <class T>
mesh::ElementFile restore(Solver<T>& solver, const std::string& path);

}  // namespace weft::maxwell
