// Incompressible Navier-Stokes on spectral elements: velocity and pressure of equal degree, with time splitting.
//
//   du/dt + (u . grad) u = -grad p + nu div grad u + f,   div u = 0
//   ds/dt + (u . grad) s = div kappa grad s + q           for each scalar
//
// A step of BDFk/EXTk, k = 1 to 3 (Karniadakis, Israeli and Orszag 1991; Tomboulides, Lee and Orszag 1997), computes
//   convection  N = (v, (u . grad) u - f) at level 0
//   pressure    (grad q, grad p) = (grad q, B^-1 F) - gamma (q, n . u_b) + nu (n x grad q, curl u*)
//   velocity    (nu S + gamma B) u = F - (v, grad p)
//   scalars     (kappa S + gamma B) s = F_s
// with F and u* as in kernels/flow.hpp. docs/flow.md has the derivation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/averages.hpp"
#include "weft/flow/boundary.hpp"
#include "weft/flow/filter.hpp"
#include "weft/flow/helmholtz.hpp"
#include "weft/flow/pressure.hpp"
#include "weft/flow/state.hpp"
#include "weft/flow/terms.hpp"
#include "weft/flow/time_scheme.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// over_integrated: (v, (u . grad) f) at finer points. skew_symmetric: at the GLL points themselves, energy-conserving.
enum class Convection { over_integrated, skew_symmetric };
std::string name(Convection convection);  // "overintegrated", "skew-symmetric"

template <class T>
struct ScalarOptions {
  std::string name;
  double diffusivity = 0;
  std::map<std::string, ScalarCondition<T>> boundaries = {};
  Function<T> source = {};  // q, one component; empty: 0
};

// f += vector (s - reference): the Boussinesq approximation.
struct Buoyancy {
  std::string scalar = {};  // name of the scalar
  std::array<double, 3> vector{};
  double reference = 0;
};

// Keeps the volume mean of u . direction at `mean` by a uniform force along direction.
struct FlowRate {
  double mean = 1;
  std::array<double, 3> direction{1, 0, 0};
};

template <class T>
struct Options {
  int time_order = 3;
  // The first step dt is split into parts dt / 2^h, dt / 2^h, dt / 2^(h - 1), …, dt / 2; 0: not split.
  int first_step_halvings = 6;
  double viscosity = 0;
  std::map<std::string, Condition<T>> boundaries = {};
  std::vector<ScalarOptions<T>> scalars = {};
  Function<T> force = {};  // f, three components; empty: 0
  std::vector<Buoyancy> buoyancy = {};
  std::optional<FlowRate> flow_rate = {};
  Convection convection = Convection::over_integrated;
  FilterOptions filter = {};  // applied to velocity and scalars after each step
  PressureOptions pressure = {};
  // Limits on the residual norm sqrt(sum r_i^2 / volume).
  static constexpr double tolerance = sizeof(T) == 8 ? 1e-7 : 1e-4;
  double pressure_tolerance = tolerance, velocity_tolerance = tolerance, scalar_tolerance = tolerance;
};

// Figures of the last step.
struct StepFigures {
  PressureResult pressure;
  std::vector<solver::ComponentResult> velocity, scalars;  // by component; by scalar
  double forcing = 0;  // for a fixed flow rate: the uniform force along its direction
};

// Thrown, on all ranks, if a field is no longer finite.
class BlownUp : public mpi::CollectiveError {
 public:
  BlownUp(const std::string& message, std::int64_t step, std::string field)
      : mpi::CollectiveError(message), step(step), field(std::move(field)) {}
  std::int64_t step;
  std::string field;
};

// T: float or double. Fields are initially 0.
template <class T>
class Solver {
 public:
  // stiffness: options of the space and of S on it; its lambda and dirichlet are ignored. CollectiveError on all ranks
  // for invalid options. Before the first step, set the pressure's coarse level: pressure().set_coarse. (collective)
  Solver(const mesh::Mesh& mesh, const poisson::Options& stiffness, const Options<T>& options);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Advances by `dt`. A step from a single level has order 1, and its error would persist, so it is split into parts of
  // increasing length (Options::first_step_halvings). Only reductions wait for the stream: on a GPU the fields are
  // complete once stream() is done. Throws BlownUp, or CollectiveError if a solve stalls. (collective)
  void step(double dt);

  // Takes the fields of levels 0, 1, …, set through state(), as the solution at the decreasing `times`, and computes
  // the explicit terms that the next step does not compute itself. (collective)
  void start(std::span<const double> times, std::int64_t step);

  // Starts time averages, with a sample every `every` steps. Averages prepared by hold_averages() continue, others
  // start from zero.
  void average(int every);
  bool averaging() const;
  Averages<T>* averages();       // null before average() and hold_averages()
  Averages<T>& hold_averages();  // creates them without samples, to be filled, for example from a checkpoint

  // Drops what a step uses from earlier steps besides the state: earlier pressures, and the response to a uniform
  // force. The run then continues like that of a new solver with this state.
  void forget();

  space::Space<T>& space();
  State<T>& state();
  Terms<T>& terms();
  const poisson::Operator<T>& stiffness() const;
  Pressure<T>& pressure();
  const Boundaries<T>& boundaries() const;
  // Sets the boundary values of a velocity u, [3][entries], to those currently prescribed. (collective)
  void prescribe(T* u);
  const Options<T>& options() const;
  const StepFigures& figures() const;
  device::Stream& stream();
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;
  std::map<std::string, std::int64_t> memory_bytes() const;  // on this rank, by content

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::flow
