#include "weft/turbulence/checkpoint.hpp"

#include <utility>
#include <vector>

namespace weft::turbulence {
namespace {

// CheckpointHeader::state holds dt, the Courant number, the work of the forcing, the kind of forcing, and its memory.
constexpr std::size_t numbers = 4;

template <class T>
double kind_of(Solver<T>& solver) {
  return static_cast<double>(solver.forcing().options().kind);
}

template <class T>
SpectralFields<T> fields_of(State<T>& state) {
  SpectralFields<T> fields{state.part, *state.truncation, state.velocity, state.plan.device()};
  fields.fields.insert(fields.fields.end(), state.scalars.begin(), state.scalars.end());
  state.stream.synchronize();
  return fields;
}

}  // namespace

template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options, const std::string& text) {
  State<T> state = solver.state();
  CheckpointHeader header;
  header.step = state.step;
  header.time = state.time;
  header.text = text;
  header.state = {state.dt, state.courant, state.energy_input, kind_of(solver)};
  const std::vector<double> forcing = solver.forcing().memory();
  header.state.insert(header.state.end(), forcing.begin(), forcing.end());
  return write_checkpoint(std::move(header), fields_of(state), options, state.plan.comm());
}

template <class T>
Checkpoint restore(Solver<T>& solver, const std::string& path) {
  State<T> state = solver.state();
  Checkpoint checkpoint(path, state.plan.comm());
  checkpoint.read(fields_of(state));
  const CheckpointHeader& header = checkpoint.header();
  state.step = header.step;
  state.time = header.time;
  const std::vector<double>& memory = header.state;
  if (memory.size() < numbers) return checkpoint;
  state.dt = memory[0];
  state.courant = memory[1];
  state.energy_input = memory[2];
  if (memory[3] == kind_of(solver)) solver.forcing().set_memory({memory.begin() + numbers, memory.end()});
  return checkpoint;
}

#define WEFT_CHECKPOINT(T)                                                                \
  template std::string save<T>(Solver<T>&, const CheckpointOptions&, const std::string&); \
  template Checkpoint restore<T>(Solver<T>&, const std::string&);
WEFT_CHECKPOINT(double)
WEFT_CHECKPOINT(float)
#undef WEFT_CHECKPOINT

}  // namespace weft::turbulence
