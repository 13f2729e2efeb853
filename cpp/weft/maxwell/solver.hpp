// Time integration of Maxwell's equations with an Operator: the low-storage Runge-Kutta method of order 4, or the
// exponential of the operator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "weft/device/device.hpp"
#include "weft/device/graph.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/solver/exponential.hpp"

namespace weft::maxwell {

// Uses options().integrator of the operator. runge_kutta needs one vector in addition to the fields. T: float or
// double.
template <class T>
class Solver {
 public:
  // Fields are initially zero. `op` must outlive the solver. std::invalid_argument for the exponential integrator with
  // sources or layers. (collective)
  explicit Solver(Operator<T>& op);

  // Takes `count` steps of dt from the current fields and time. The caller chooses dt; see Operator::dt_limit. The
  // energy is checked at intervals and at the end (see check). std::invalid_argument unless dt is positive and finite.
  // On a GPU that is not shared with other ranks, a step is recorded once and replayed. (collective)
  void step(std::int64_t count, double dt);

  // CollectiveError if the energy W is larger than the scheme allows. With both fluxes and all boundaries, sqrt(W) can
  // grow only through sources, and per unit of time by no more than the energy norm of their rates. With a matched
  // layer there is no such bound; then a hundred times the energy is allowed. (collective)
  void check();

  device::Array<T>& fields() { return fields_; }  // [Operator::entries()]; synchronise the stream before use
  // Call this after setting the fields: the energy bound is computed anew.
  void fields_changed() { reference_.reset(); }
  double time() const { return time_; }
  void set_time(double time) { time_ = time; }
  // Declares that the current fields belong to this time, after this number of steps.
  void start(double time, std::int64_t step);
  Operator<T>& op() { return op_; }
  std::int64_t steps() const { return steps_; }
  device::Stream& stream() { return stream_; }
  bool recorded() const { return graph_.has_value(); }  // whether steps are replayed
  // For either integrator: applications of the operator in the last call of `step`.
  std::int64_t applications() const { return applications_; }
  std::map<std::string, std::int64_t> memory_bytes() const;  // fields and residual, or the Krylov space

 private:
  struct Reference {
    double energy, time;  // when the fields were set
    double source_norm;   // energy norm of source_rates: sqrt(energy) per unit of time
  };
  void enqueue(double dt, bool more);  // more: another step follows

  Operator<T>& op_;
  device::Stream stream_;
  device::Array<T> fields_, residual_;
  double time_ = 0, dt_ = 0;
  std::int64_t steps_ = 0, checked_ = 0, applications_ = 0;
  std::unique_ptr<solver::KrylovExponential<T>> exponential_;
  std::optional<Reference> reference_;
  std::optional<device::Graph> graph_;  // for a step of dt_
};

}  // namespace weft::maxwell
