// Each part of the library has one file of bindings, which is called from module.cpp.
#pragma once

#include <nanobind/nanobind.h>

#include "weft/device/device.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/fft/tuner.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::bindings {

// Returns work(), executed without Python's lock: for work that waits for other ranks, which may need the lock in
// another thread.
template <class Work>
auto unlocked(Work&& work) {
  const nanobind::gil_scoped_release release;
  return work();
}

// Python types, named for the stubs. The first is mpi4py's, which to_comm checks.
class Communicator : public nanobind::object {
 public:
  using object::object;
  static constexpr auto Name = nanobind::detail::const_name("mpi4py.MPI.Intracomm");
};
class TuningDict : public nanobind::dict {
 public:
  using dict::dict;
  static constexpr auto Name = nanobind::detail::const_name("weft.record.Tuning");
};
using Tunings = nanobind::typed<nanobind::dict, nanobind::str, TuningDict>;  // key: what is tuned
using AnyDict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;
using CountDict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::int_>;

// The communicator behind an mpi4py communicator; None stands for MPI_COMM_WORLD. The first use checks that mpi4py uses
// the MPI library that this extension was built with (ImportError). TypeError for anything else.
mpi::Comm to_comm(nanobind::handle comm);
// The same communicator for Python, which does not own it: keep `comm` alive.
Communicator from_comm(const mpi::Comm& comm);

// The resources of a kernel, named like the members of KernelResources.
CountDict to_dict(const device::KernelResources& resources);
// In the form of the entries of choices.exchange in run.json: chosen, reason, cached, reused, tuning_seconds,
// timings.
TuningDict to_dict(const exchange::Tuning& tuning);
// In the form of weft.fft.Plan.tuning.
AnyDict to_dict(const fft::PlanTuning& tuning);

void bind_device(nanobind::module_& m);
void bind_mpi(nanobind::module_& m);
void bind_poisson(nanobind::module_& m);
void bind_trace(nanobind::module_& m);
void bind_exchange(nanobind::module_& m);
void bind_flow(nanobind::module_& m);
void bind_flow_statistics(nanobind::module_& m);
void bind_flow_output(nanobind::module_& m);
void bind_fft(nanobind::module_& m);
void bind_mesh(nanobind::module_& m);
void bind_maxwell(nanobind::module_& m);
void bind_maxwell_output(nanobind::module_& m);
void bind_bench(nanobind::module_& m);
void bind_turbulence(nanobind::module_& m);
void bind_turbulence_output(nanobind::module_& m);
void bind_program(nanobind::module_& m);

}  // namespace weft::bindings
