#include "weft/poisson/multigrid_solver.hpp"

#include <type_traits>

#include "weft/device/vector.hpp"

namespace weft::poisson {

template <class T>
MultigridSolver<T>::MultigridSolver(Operator<T>& op, const mesh::Mesh& mesh, const MultigridOptions& multigrid,
                                    bool single, Method method, int restart) {
  const auto& device = op.options().device;
  solver::PreconditionedSystem<T> system;
  system.apply = [&op](T* x, T* y, device::Stream& stream) { op.apply(x, y, stream); };
  system.entries = op.entries();
  system.unknowns = op.unknowns();
  if (single && std::is_same_v<T, double>) {
    single_ = std::make_unique<Multigrid<float>>(mesh, op.options(), multigrid);
    // The SIMD operators number unknowns by blocks of lanes, which are more in single.
    const std::vector<std::int32_t> mine = op.point_index(), its = single_->finest().point_index();
    std::vector<std::int32_t> map(op.unknowns());
    for (std::size_t p = 0; p < mine.size(); ++p)
      if (mine[p] < op.unknowns()) map[its[p]] = mine[p];
    map_ = device::Array<std::int32_t>(device, map);
    r_ = device::Array<float>(device, single_->finest().entries());
    z_ = device::Array<float>(device, single_->finest().entries());
    r_.zero();
    z_.zero();
    const auto kernel = [&](const char* name) { return device->kernel({"smoother", name, {{"WEFT_REAL", "float"}}}); };
    system.precondition = [this, n = static_cast<long>(op.unknowns()), down = kernel("from_double"),
                           up = kernel("to_double")](T* r, T* z, device::Stream& stream) {
      const unsigned blocks = device::vector_blocks(n);
      if constexpr (std::is_same_v<T, double>) {
        const std::int32_t* map = map_.data();
        down(stream, blocks, device::vector_shape, n, map, static_cast<const double*>(r), r_.data());
        single_->apply(r_.data(), z_.data(), stream);
        up(stream, blocks, device::vector_shape, n, map, static_cast<const float*>(z_.data()), z);
      }
    };
  } else {
    own_ = std::make_unique<Multigrid<T>>(mesh, op.options(), multigrid);
    system.precondition = [this](T* r, T* z, device::Stream& stream) { own_->apply(r, z, stream); };
  }
  system.constants_in_null_space = singular();
  if (method == Method::cg)
    krylov_ = std::make_unique<solver::FlexibleCg<T>>(std::move(system), device, op.comm());
  else
    krylov_ = std::make_unique<solver::Gmres<T>>(std::move(system), device, op.comm(), restart);
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
solver::CgResult MultigridSolver<T>::solve(const T* b, T* x, bool zero_guess, const solver::CgOptions& options,
                                           device::Stream& stream) {
  return krylov_->solve(b, x, zero_guess, options, stream);
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
  if (single_)
    bytes["multigrid: single-precision copies"] = static_cast<std::int64_t>(r_.bytes() + z_.bytes() + map_.bytes());
  return bytes;
}

template class MultigridSolver<float>;
template class MultigridSolver<double>;

}  // namespace weft::poisson
