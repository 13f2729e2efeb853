#include "weft/solver/krylov.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>

#include "weft/device/vector.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::solver {

template <class T>
Krylov<T>::Krylov(PreconditionedSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
                  int products)
    : system_(std::move(system)),
      device_(std::move(device)),
      blocks_(device::vector_blocks(system_.unknowns)),
      products_(device_, comm, system_.unknowns, system_.weights, products),
      r_(device_, system_.entries),
      axpy_(device::vector_kernel<T>(*device_, "axpy")),
      add_(device::vector_kernel<T>(*device_, "add_terms")),
      axpby_(device::vector_kernel<T>(*device_, "axpby")),
      copy_(device::vector_kernel<T>(*device_, "copy")),
      scale_(device::vector_kernel<T>(*device_, "scale")),
      shift_(device::vector_kernel<T>(*device_, "shift")),
      difference_(device_->kernel<T>("smoother", "difference")) {
  r_.zero();
  if (!system_.constants_in_null_space) return;
  device::Stream stream(device_);
  const device::Array<T> ones(device_, std::vector<T>(system_.entries, T(1)));
  total_ = products_.total(ones.data(), stream);
}

template <class T>
void Krylov<T>::axpy(double a, const T* x, T* y, device::Stream& stream) {
  axpy_(stream, blocks_, device::vector_shape, system_.unknowns, a, x, y);
}

template <class T>
void Krylov<T>::add(const Terms& terms, T* y, device::Stream& stream) {
  for (std::size_t begin = 0; begin < terms.size(); begin += device::most_vectors) {
    const std::size_t count = std::min<std::size_t>(device::most_vectors, terms.size() - begin);
    SomeTerms some{};
    for (std::size_t k = 0; k < count; ++k) std::tie(some.a[k], some.x[k]) = terms[begin + k];
    add_(stream, blocks_, device::vector_shape, system_.unknowns, count, some, y);
  }
}

template <class T>
void Krylov<T>::axpby(double a, const T* x, double b, T* y, device::Stream& stream) {
  axpby_(stream, blocks_, device::vector_shape, system_.unknowns, a, x, b, y);
}

template <class T>
void Krylov<T>::copy(const T* x, T* y, device::Stream& stream) {
  copy_(stream, blocks_, device::vector_shape, system_.unknowns, x, y);
}

template <class T>
void Krylov<T>::scale(double a, T* x, device::Stream& stream) {
  scale_(stream, blocks_, device::vector_shape, system_.unknowns, a, x);
}

template <class T>
void Krylov<T>::residual(const T* b, T* x, device::Stream& stream) {
  system_.apply(x, r_.data(), stream);
  difference_(stream, blocks_, device::vector_shape, system_.unknowns, b, r_.data(), r_.data());
}

template <class T>
void Krylov<T>::without_constants(T* x, device::Stream& stream) {
  if (!system_.constants_in_null_space || !(total_ > 0)) return;
  const double mean = products_.total(x, stream) / total_;
  shift_(stream, blocks_, device::vector_shape, system_.unknowns, -mean, x);
}

template <class T>
SolveResult Krylov<T>::solve(const T* b, T* x, bool zero_guess, const SolveOptions& options, device::Stream& stream) {
  StoppingRule rule(options);
  const trace::Span span("krylov", trace::Category::cpu);
  if (zero_guess) {
    device_->fill_zero(x, system_.entries * sizeof(T), stream);
    copy(b, r_.data(), stream);
  } else {
    residual(b, x, stream);
  }
  without_constants(r_.data(), stream);
  if (!rule.take(products_.norm(r_.data(), stream))) iterate(x, rule, stream);
  without_constants(x, stream);
  return rule.result();
}

template <class T>
std::int64_t Krylov<T>::memory_bytes() const {
  return static_cast<std::int64_t>(r_.bytes());
}

template <class T>
FlexibleCg<T>::FlexibleCg(PreconditionedSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm)
    : Krylov<T>(std::move(system), std::move(device), comm, 2) {
  for (device::Array<T>* vector : {&z_, &p_, &ap_}) {
    *vector = device::Array<T>(this->device_, this->system_.entries);
    vector->zero();
  }
}

template <class T>
void FlexibleCg<T>::iterate(T* x, StoppingRule& rule, device::Stream& stream) {
  T *r = this->r_.data(), *ap = ap_.data();
  double rho = 0, alpha = 0;
  for (bool fresh = true;; fresh = false) {
    T* const z = z_.data();
    this->system_.precondition(r, z, stream);
    // beta = (r_new - r_old) . z / rho, with r_new - r_old = -alpha A p.
    double next, cross = 0;
    if (fresh) {
      next = this->products_(r, z, stream);
    } else {
      const std::pair<const T*, const T*> pairs[] = {{r, z}, {ap, z}};
      const std::vector<double> both = this->products_(pairs, stream);
      next = both[0];
      cross = -alpha * both[1];
    }
    rule.require_positive(next, "r . M r", "the preconditioner is not positive definite; use gmres");
    if (fresh)
      std::swap(z_, p_);
    else
      this->axpby(1, z, cross / rho, p_.data(), stream);
    rho = next;
    T* const p = p_.data();
    this->system_.apply(p, ap, stream);
    const double curvature = this->products_(p, ap, stream);
    rule.require_positive(curvature);
    alpha = rho / curvature;
    this->axpy(alpha, p, x, stream);
    if (rule.take(this->products_.subtract(alpha, ap, r, stream))) return;
  }
}

template <class T>
std::int64_t FlexibleCg<T>::memory_bytes() const {
  return Krylov<T>::memory_bytes() + static_cast<std::int64_t>(z_.bytes() + p_.bytes() + ap_.bytes());
}

template <class T>
Gmres<T>::Gmres(PreconditionedSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
                int restart)
    : Krylov<T>(std::move(system), std::move(device), comm, std::clamp(restart, 1, 200) + 1), restart_(restart) {
  if (restart < 1 || restart > 200)
    throw std::invalid_argument("gmres: restart = " + std::to_string(restart) + " is outside 1..200");
  for (int i = 0; i <= restart_; ++i) {
    basis_.emplace_back(this->device_, this->system_.entries).zero();
    if (i < restart_) directions_.emplace_back(this->device_, this->system_.entries).zero();
  }
}

template <class T>
void Gmres<T>::iterate(T* x, StoppingRule& rule, device::Stream& stream) {
  const int m = restart_;
  std::vector<double> h((m + 1) * m), c(m), s(m), g(m + 1);
  double norm = this->products_.norm(this->r_.data(), stream);
  for (bool enough = false; !enough;) {
    std::ranges::fill(g, 0.0);
    g[0] = norm;
    this->copy(this->r_.data(), basis_[0].data(), stream);
    this->scale(1 / norm, basis_[0].data(), stream);
    int k = 0;
    while (k < m && !enough) {
      T *w = basis_[k + 1].data(), *z = directions_[k].data();
      this->system_.precondition(basis_[k].data(), z, stream);
      this->system_.apply(z, w, stream);
      std::vector<std::pair<const T*, const T*>> pairs;
      for (int i = 0; i <= k; ++i) pairs.emplace_back(basis_[i].data(), w);
      std::vector<double> column(k + 1);
      for (int pass = 0; pass < 2; ++pass) {
        const std::vector<double> dots = this->products_(pairs, stream);
        typename Krylov<T>::Terms terms;
        for (int i = 0; i <= k; ++i) {
          terms.emplace_back(-dots[i], basis_[i].data());
          column[i] += dots[i];
        }
        this->add(terms, w, stream);
      }
      double last = this->products_.norm(w, stream);
      if (last > 0) this->scale(1 / last, w, stream);
      for (int i = 0; i < k; ++i) {
        const double upper = c[i] * column[i] + s[i] * column[i + 1];
        column[i + 1] = -s[i] * column[i] + c[i] * column[i + 1];
        column[i] = upper;
      }
      const double length = std::hypot(column[k], last);
      c[k] = length > 0 ? column[k] / length : 1;
      s[k] = length > 0 ? last / length : 0;
      column[k] = length;
      for (int i = 0; i <= k; ++i) h[i * m + k] = column[i];
      g[k + 1] = -s[k] * g[k];
      g[k] *= c[k];
      ++k;
      enough = rule.take(std::abs(g[k]));
      if (last == 0) break;
    }
    for (int i = k - 1; i >= 0; --i) {
      for (int j = i + 1; j < k; ++j) g[i] -= h[i * m + j] * g[j];
      g[i] = h[i * m + i] != 0 ? g[i] / h[i * m + i] : 0;
    }
    T *step = directions_[0].data(), *image = basis_[m].data();
    this->scale(g[0], step, stream);
    typename Krylov<T>::Terms terms;
    for (int i = 1; i < k; ++i) terms.emplace_back(g[i], directions_[i].data());
    this->add(terms, step, stream);
    this->axpy(1, step, x, stream);
    if (enough) return;
    this->system_.apply(step, image, stream);
    this->axpy(-1, image, this->r_.data(), stream);
    norm = this->products_.norm(this->r_.data(), stream);
    if (norm == 0) return;
  }
}

template <class T>
std::int64_t Gmres<T>::memory_bytes() const {
  std::int64_t bytes = Krylov<T>::memory_bytes();
  for (const auto* vectors : {&basis_, &directions_})
    for (const auto& vector : *vectors) bytes += static_cast<std::int64_t>(vector.bytes());
  return bytes;
}

template class Krylov<float>;
template class Krylov<double>;
template class FlexibleCg<float>;
template class FlexibleCg<double>;
template class Gmres<float>;
template class Gmres<double>;

}  // namespace weft::solver
