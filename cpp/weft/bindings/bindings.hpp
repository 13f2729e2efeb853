// Each part of the library binds itself in one file and is called from module.cpp.
#pragma once

#include <nanobind/nanobind.h>

#include "weft/device/device.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/fft/tuner.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::bindings {

// What work() gives, without Python's lock: work that waits for other ranks, which may need the lock in another thread.
template <class Work>
auto unlocked(Work&& work) {
  const nanobind::gil_scoped_release release;
  return work();
}

// Types of Python, named for the stubs. The first is mpi4py's, which to_comm checks.
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
using Tunings = nanobind::typed<nanobind::dict, nanobind::str, TuningDict>;  // by what is tuned
using AnyDict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;
using CountDict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::int_>;

// The communicator behind an mpi4py one; None is MPI_COMM_WORLD. The first use checks that mpi4py is on the MPI library
// this extension was built with (ImportError). TypeError for anything else.
mpi::Comm to_comm(nanobind::handle comm);
// The same communicator for Python, not owned by it: keep `comm` alive.
Communicator from_comm(const mpi::Comm& comm);

// What a kernel takes, by the names of KernelResources' members.
CountDict to_dict(const device::KernelResources& resources);
// As run.json has it under choices.exchange, by what is tuned: chosen, reason, cached, tuning_seconds, timings.
TuningDict to_dict(const exchange::Tuning& tuning);
// As weft.fft.Plan.tuning.
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
