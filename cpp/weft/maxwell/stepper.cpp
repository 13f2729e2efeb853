#include "weft/maxwell/stepper.hpp"

#include <cmath>
#include <stdexcept>

#include "weft/solver/low_storage.hpp"

namespace weft::maxwell {

template <class T>
Stepper<T>::Stepper(Operator<T>& op)
    : op_(op),
      stream_(op.options().device),
      fields_(op.options().device, op.entries()),
      residual_(op.options().device, op.entries()) {
  fields_.zero();
  residual_.zero();
}

template <class T>
void Stepper<T>::step(std::int64_t count, double dt) {
  if (!(dt > 0 && std::isfinite(dt)))
    throw std::invalid_argument("maxwell: the time step must be positive, not " + std::to_string(dt));
  for (std::int64_t s = 0; s < count; ++s) {
    for (const solver::LowStorageStage& stage : solver::carpenter_kennedy)
      op_.stage(time_ + stage.c * dt, stage.a, stage.b, dt, fields_.data(), residual_.data(), stream_);
    time_ += dt;
    ++steps_;
  }
  stream_.synchronize();
}

template <class T>
std::map<std::string, std::int64_t> Stepper<T>::memory_bytes() const {
  return {{"fields", static_cast<std::int64_t>(fields_.bytes())},
          {"residual", static_cast<std::int64_t>(residual_.bytes())}};
}

template class Stepper<float>;
template class Stepper<double>;

}  // namespace weft::maxwell
