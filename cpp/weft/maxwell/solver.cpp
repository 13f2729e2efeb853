#include "weft/maxwell/solver.hpp"

#include <cmath>
#include <numbers>
#include <sstream>
#include <stdexcept>

#include "weft/solver/low_storage.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::maxwell {
namespace {

constexpr std::int64_t steps_between_checks = 100;
constexpr std::int64_t steps_worth_a_check = 10;
constexpr double allowance = 1.01;  // for rounding and for the time step
constexpr double layer_allowance = 100;

}  // namespace

template <class T>
Solver<T>::Solver(Operator<T>& op) : op_(op), stream_(op.options().device), fields_(op.options().device, op.entries()) {
  fields_.zero();
  const Options& options = op.options();
  if (options.integrator == Integrator::runge_kutta) {
    residual_ = device::Array<T>(op.options().device, op.entries());
    residual_.zero();
    return;
  }
  if (op_.driven() || op_.layered())
    throw std::invalid_argument(
        "maxwell: integrator = 'exponential' does not support waves, dipoles or matched layers; use 'runge-kutta'");
  exponential_ = std::make_unique<solver::KrylovExponential<T>>(
      [this](const T* x, T* y, device::Stream& stream) {
        ++applications_;
        op_.apply(0, x, y, stream);
      },
      op_.entries(), options.krylov_dimension, options.krylov_tolerance, options.device, op_.comm());
}

template <class T>
void Solver<T>::step(std::int64_t count, double dt) {
  if (!(dt > 0 && std::isfinite(dt)))
    throw std::invalid_argument("maxwell: the time step must be positive, not " + std::to_string(dt));
  const trace::Span span("step", trace::Category::cpu);
  if (!reference_) {
    double norm = 0;
    if (op_.driven()) {
      op_.source_rates(residual_.data(), stream_);
      const auto [electric, magnetic] = op_.energy(residual_.data(), stream_);
      // Where faces meet, each may have its own pulse: three vectors of fixed length add up to at most sqrt(3) times
      // more.
      norm = std::numbers::sqrt3 * std::sqrt(electric + magnetic);
    }
    const auto [electric, magnetic] = op_.energy(fields_.data(), stream_);
    reference_ = {electric + magnetic, time_, norm};
    checked_ = steps_;
  }
  op_.set_clock(time_, stream_);
  applications_ = 0;
  if (count > 0 && !exponential_) op_.begin(fields_.data(), stream_);
  if (dt != dt_) graph_.reset();
  dt_ = dt;
  for (std::int64_t s = 0; s < count; ++s) {
    if (exponential_) {
      exponential_->step(fields_.data(), dt, stream_);
    } else if (graph_) {
      graph_->replay(stream_);
    } else if (s > 0 && op_.comm().size() == 1 && device::Graph::supported(*op_.options().device)) {
      graph_.emplace(stream_, [&] { enqueue(dt, true); });  // the first step has done all allocations
      graph_->replay(stream_);
    } else {
      enqueue(dt, s + 1 < count);
    }
    time_ += dt;
    ++steps_;
    if (steps_ - checked_ >= steps_between_checks) check();
  }
  stream_.synchronize();
  if (!exponential_) applications_ = 5 * count;
  if (steps_ - checked_ >= steps_worth_a_check) check();
}

template <class T>
void Solver<T>::start(double time, std::int64_t step) {
  time_ = time;
  steps_ = checked_ = step;
  reference_.reset();
}

template <class T>
void Solver<T>::enqueue(double dt, bool more) {
  for (const solver::LowStorageStage& stage : solver::carpenter_kennedy)
    op_.stage(stage.c * dt, stage.a, stage.b, dt, fields_.data(), residual_.data(),
              more || &stage != &solver::carpenter_kennedy.back(), stream_);
  op_.advance_clock(dt, stream_);
}

template <class T>
void Solver<T>::check() {
  checked_ = steps_;
  if (!reference_) return;
  const trace::Span span("energy", trace::Category::cpu);
  const auto [electric, magnetic] = op_.energy(fields_.data(), stream_);
  const double energy = electric + magnetic;
  const double root = std::sqrt(reference_->energy) + reference_->source_norm * (time_ - reference_->time);
  const double bound = (op_.layered() ? layer_allowance : allowance) * root * root;
  if (energy <= bound) return;
  op_.comm().together([&] {
    std::ostringstream text;
    text << "maxwell: at time " << time_ << " (step " << steps_ << ") the energy is " << energy
         << ", beyond the bound of the scheme, " << bound << ": the fields are unstable. The time step is " << dt_
         << ", the limit of this mesh, order and materials " << op_.dt_limit();
    text << (dt_ > op_.dt_limit() ? ": use a smaller time step" : ": the limit is an estimate, try half the time step");
    throw std::runtime_error(text.str());
  });
}

template <class T>
std::map<std::string, std::int64_t> Solver<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes{{"fields", static_cast<std::int64_t>(fields_.bytes())}};
  if (exponential_)
    bytes["Krylov space"] = exponential_->memory_bytes();
  else
    bytes["residual"] = static_cast<std::int64_t>(residual_.bytes());
  return bytes;
}

template class Solver<float>;
template class Solver<double>;

}  // namespace weft::maxwell
