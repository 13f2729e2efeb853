#include "weft/poisson/smoother.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "weft/device/vector.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/poisson/merged_chebyshev.hpp"
#include "weft/poisson/schwarz.hpp"
#include "weft/solver/chebyshev.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

// Works with any preconditioner on any device; runs one kernel after the other.
template <class T>
class ChebyshevSmoother : public Smoother<T> {
 public:
  // schwarz: nullptr for the diagonal of A.
  ChebyshevSmoother(Operator<T>& op, std::unique_ptr<Schwarz<T>> schwarz, int degree)
      : op_(op),
        schwarz_(std::move(schwarz)),
        inverse_diagonal_(schwarz_ ? device::Array<T>() : op.inverse_diagonal()),
        chebyshev_(setup(op, degree), op.options().device, op.comm()),
        difference_(op.options().device->template kernel<T>("smoother", "difference")) {}

  void start(const T* b, T* x, T* work, bool residual, device::Stream& stream) override {
    const trace::Span span("smoother", trace::Category::cpu);
    chebyshev_.smooth(b, x, true, stream);
    if (!residual) return;
    op_.apply(x, work, stream);
    const long n = op_.unknowns();
    difference_(stream, device::vector_blocks(n), device::vector_shape, n, b, work, work);
  }
  void improve(const T* b, T* x, T*, device::Stream& stream) override {
    const trace::Span span("smoother", trace::Category::cpu);
    chebyshev_.smooth(b, x, false, stream);
  }
  double largest_eigenvalue() const override { return chebyshev_.largest_eigenvalue(); }
  std::int64_t memory_bytes() const override {
    return chebyshev_.memory_bytes() +
           (schwarz_ ? schwarz_->memory_bytes() : static_cast<std::int64_t>(inverse_diagonal_.bytes()));
  }
  const exchange::Tuning* tuning() const override { return schwarz_ ? &schwarz_->tuning() : nullptr; }

 private:
  solver::ChebyshevSetup<T> setup(Operator<T>& op, int degree) const {
    solver::ChebyshevSetup<T> setup;
    setup.apply = [&op](T* x, T* y, device::Stream& stream) { op.apply(x, y, stream); };
    setup.diagonal = schwarz_ ? schwarz_->weights() : inverse_diagonal_.data();
    if (schwarz_) setup.precondition = [this](T* r, T* y, device::Stream& stream) { schwarz_->apply(r, y, stream); };
    setup.entries = schwarz_ ? schwarz_->entries() : op.entries();
    setup.unknowns = op.unknowns();
    setup.start = rough_values(op);
    setup.degree = degree;
    return setup;
  }

  Operator<T>& op_;
  std::unique_ptr<Schwarz<T>> schwarz_;
  device::Array<T> inverse_diagonal_;
  solver::Chebyshev<T> chebyshev_;
  device::Kernel<long, const T*, const T*, T*> difference_;
};

}  // namespace

std::string name(Smoothing smoothing) {
  switch (smoothing) {
    case Smoothing::automatic:
      return "auto";
    case Smoothing::chebyshev_jacobi:
      return "chebyshev-jacobi";
    case Smoothing::schwarz:
      return "schwarz";
    case Smoothing::chebyshev_schwarz:
      return "chebyshev-schwarz";
  }
  throw std::logic_error("name: unknown smoother");
}

Smoothing chosen(Smoothing smoothing, const mesh::Mesh& mesh) {
  if (smoothing != Smoothing::automatic) return smoothing;
  // Boxes: the directions of the reference element are orthogonal everywhere, so that only G_rr, G_ss and G_tt are
  // nonzero.
  const std::vector<double> g = mesh::geometric_factors(mesh, mesh.straight() ? 1 : 2).g;
  double oblique = 0;
  for (std::size_t p = 0; p < g.size(); p += 6)
    oblique = std::max({oblique, std::abs(g[p + 1]) / std::sqrt(g[p] * g[p + 3]),
                        std::abs(g[p + 2]) / std::sqrt(g[p] * g[p + 5]),
                        std::abs(g[p + 4]) / std::sqrt(g[p + 3] * g[p + 5])});
  return mesh.comm.max(oblique) < 1e-3 ? Smoothing::schwarz : Smoothing::chebyshev_schwarz;
}

template <class T>
std::vector<T> rough_values(const Operator<T>& op) {
  std::vector<T> values;
  values.reserve(op.unknowns());
  for (const std::int64_t id : op.unknown_ids()) {
    std::uint64_t x = static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
    values.push_back(static_cast<T>(static_cast<double>((x ^ (x >> 29)) >> 11) * 0x1p-52 - 1));
  }
  return values;
}
template std::vector<float> rough_values(const Operator<float>&);
template std::vector<double> rough_values(const Operator<double>&);

template <class T>
std::unique_ptr<Smoother<T>> make_smoother(Operator<T>& op, Smoothing smoothing, int degree) {
  solver::check_degree(degree);
  if (smoothing == Smoothing::chebyshev_jacobi) {
    // The merged passes do not support a screening term.
    if (op.simd() != nullptr && !op.screened()) return std::make_unique<MergedChebyshev<T>>(op, degree);
    return std::make_unique<ChebyshevSmoother<T>>(op, nullptr, degree);
  }
  return std::make_unique<ChebyshevSmoother<T>>(op, std::make_unique<Schwarz<T>>(op),
                                                smoothing == Smoothing::schwarz ? 1 : degree);
}

template std::unique_ptr<Smoother<float>> make_smoother(Operator<float>&, Smoothing, int);
template std::unique_ptr<Smoother<double>> make_smoother(Operator<double>&, Smoothing, int);

}  // namespace weft::poisson
