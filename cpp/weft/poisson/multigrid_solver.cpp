#include "weft/poisson/multigrid_solver.hpp"

#include <type_traits>

#include "weft/device/vector.hpp"

namespace weft::poisson {

namespace {

template <class S>
device::Array<S> zeros(const std::shared_ptr<device::Device>& device, std::int64_t size) {
  device::Array<S> array(device, size);
  array.zero();
  return array;
}

}  // namespace

// The cycle numbers its vectors differently if points are left out or if it is in single precision, because the SIMD
// operators number unknowns by blocks of lanes, and then there are more lanes.
template <class T>
template <class S>
void MultigridSolver<T>::map_to(const Operator<T>& op, const Operator<S>& finest) {
  const std::vector<std::int32_t> mine = op.space().point_index(), its = finest.space().point_index();
  std::vector<std::int32_t> map(finest.unknowns());
  for (std::size_t p = 0; p < mine.size(); ++p)
    if (its[p] < finest.unknowns()) map[its[p]] = mine[p];
  map_ = device::Array<std::int32_t>(op.options().device, map);
}

template <class T>
MultigridSolver<T>::MultigridSolver(Operator<T>& op, const mesh::Mesh& mesh, const MultigridOptions& multigrid,
                                    bool single, Method method, int restart, const Masked<T>& masked)
    : op_(op), mask_(masked.mask), multiply_(device::vector_kernel<T>(*op.options().device, "multiply")) {
  const auto& device = op.options().device;
  Options levels = op.options();
  solver::PreconditionedSystem<T> system;
  system.apply = [this](T* x, T* y, device::Stream& stream) { apply(x, y, stream); };
  if (masked.mask != nullptr) levels.dirichlet = masked.boundaries;
  system.entries = op.entries();
  system.unknowns = op.unknowns();
  if (single && std::is_same_v<T, double>) {
    single_ = std::make_unique<Multigrid<float>>(mesh, levels, multigrid);
    map_to(op, single_->finest());
    r_single_ = zeros<float>(device, single_->finest().entries());
    z_single_ = zeros<float>(device, single_->finest().entries());
    if constexpr (std::is_same_v<T, double>) {
      const device::Kernel<long, const std::int32_t*, const double*, float*> down =
          device->template kernel<float>("smoother", "from_double");
      const device::Kernel<long, const std::int32_t*, const float*, double*> up =
          device->template kernel<float>("smoother", "to_double");
      system.precondition = [this, down, up](T* r, T* z, device::Stream& stream) {
        const std::int64_t n = single_->finest().unknowns(), blocks = device::vector_blocks(n);
        down(stream, blocks, device::vector_shape, n, map_.data(), r, r_single_.data());
        single_->apply(r_single_.data(), z_single_.data(), stream);
        up(stream, blocks, device::vector_shape, n, map_.data(), z_single_.data(), z);
      };
    }
  } else if (masked.mask != nullptr) {
    own_ = std::make_unique<Multigrid<T>>(mesh, levels, multigrid);
    map_to(op, own_->finest());
    r_own_ = zeros<T>(device, own_->finest().entries());
    z_own_ = zeros<T>(device, own_->finest().entries());
    using Move = device::Kernel<long, const std::int32_t*, const T*, T*>;
    const Move take = device->template kernel<T>("smoother", "take_entries");
    const Move put = device->template kernel<T>("smoother", "put_entries");
    system.precondition = [this, take, put](T* r, T* z, device::Stream& stream) {
      const std::int64_t n = own_->finest().unknowns(), blocks = device::vector_blocks(n);
      take(stream, blocks, device::vector_shape, n, map_.data(), r, r_own_.data());
      own_->apply(r_own_.data(), z_own_.data(), stream);
      put(stream, blocks, device::vector_shape, n, map_.data(), z_own_.data(), z);
    };
  } else {
    own_ = std::make_unique<Multigrid<T>>(mesh, levels, multigrid);
    system.precondition = [this](T* r, T* z, device::Stream& stream) { own_->apply(r, z, stream); };
  }
  system.constants_in_null_space = singular();
  if (method == Method::cg)
    krylov_ = std::make_unique<solver::FlexibleCg<T>>(std::move(system), device, op.comm());
  else
    krylov_ = std::make_unique<solver::Gmres<T>>(std::move(system), device, op.comm(), restart);
}

template <class T>
void MultigridSolver<T>::apply(T* x, T* y, device::Stream& stream) {
  op_.apply(x, y, stream);
  if (mask_ != nullptr)
    multiply_(stream, device::vector_blocks(op_.unknowns()), device::vector_shape, op_.unknowns(), mask_, y, y);
}

template <class T>
bool MultigridSolver<T>::algebraic() const {
  return with([](auto& m) { return m.algebraic(); });
}

template <class T>
Triplets MultigridSolver<T>::coarse_matrix() {
  return with([](auto& m) { return m.coarse_matrix(); });
}

template <class T>
std::int64_t MultigridSolver<T>::coarse_unknowns() const {
  return with([](auto& m) { return m.coarsest().unknowns(); });
}

template <class T>
bool MultigridSolver<T>::singular() const {
  return with([](auto& m) { return m.singular(); });
}

template <class T>
void MultigridSolver<T>::set_coarse(solver::Amg hierarchy) {
  with([&](auto& m) { m.set_coarse(std::move(hierarchy)); });
}

template <class T>
solver::SolveResult MultigridSolver<T>::solve(const T* b, T* x, bool zero_guess, const solver::SolveOptions& options,
                                              device::Stream& stream) {
  return krylov_->solve(b, x, zero_guess, options, stream);
}

template <class T>
Smoothing MultigridSolver<T>::smoothing() const {
  return with([](auto& m) { return m.smoothing(); });
}

template <class T>
std::vector<double> MultigridSolver<T>::largest_eigenvalues() const {
  return with([](auto& m) { return m.largest_eigenvalues(); });
}

template <class T>
std::vector<std::pair<std::string, exchange::Tuning>> MultigridSolver<T>::tunings() const {
  return with([](auto& m) { return m.tunings(); });
}

template <class T>
std::map<std::string, std::int64_t> MultigridSolver<T>::memory_bytes() const {
  auto bytes = with([](auto& m) { return m.memory_bytes(); });
  bytes["multigrid: Krylov vectors"] = krylov_->memory_bytes();
  const auto copies =
      static_cast<std::int64_t>(r_single_.bytes() + z_single_.bytes() + r_own_.bytes() + z_own_.bytes() + map_.bytes());
  if (copies > 0) bytes["multigrid: copies in its numbering"] = copies;
  return bytes;
}

template class MultigridSolver<float>;
template class MultigridSolver<double>;

}  // namespace weft::poisson
