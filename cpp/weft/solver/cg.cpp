#include "weft/solver/cg.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "weft/device/vector.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::solver {
namespace {

// Must match kernels/cg.hpp.
enum Scalar { alpha, beta, rho, curvature, residual, norm_scale, target, reached, next_rho, scalar_count };
// On one rank the host reads the history only once per batch of iterations. The first batch of a solve to a tolerance
// is smaller, since nothing is known about its convergence yet.
constexpr int batch = 16, first_batch = 4;
constexpr int history_size = 1 + 2 * batch;
constexpr int most_sums = 5;
constexpr int entries_per_thread = 16, entries_if_small = 4;  // see System::small_unknowns
constexpr std::int64_t gather_chunk = 1024;                   // entries per block, as in kernels/gather_entries.hpp
constexpr std::int64_t fold_chunk = 2048;                     // partial sums per block of cg_fold

std::int64_t pieces(std::int64_t count, std::int64_t each) { return (count + each - 1) / each; }

// How many iterations to enqueue: as many as the convergence of the last `count` iterations predicts, at most a batch.
int expected(double before, double now, int count, double target) {
  const double each = std::log(now / before) / count;
  if (!(each < 0)) return batch;
  return static_cast<int>(std::clamp(std::ceil(std::log(target / now) / each), 1.0, static_cast<double>(batch)));
}

// The exchange with which CG keeps copies up to date, or null.
template <class T>
exchange::Exchange<T>* kept_copies(const System<T>& system, int ranks) {
  const bool kept = ranks > 1 && system.apply_product && system.copies != nullptr && !system.copies->trivial();
  return kept ? system.copies : nullptr;
}

// An exchange of copies of v that may be in flight at the end of a solve, or where it ends with an error.
template <class T>
struct Flight {
  exchange::Exchange<T>* copies;  // null: none
  T* v;
  device::Stream& stream;
  bool under_way = false;

  void begin() {
    if (copies == nullptr) return;
    copies->start_halo(v, stream);
    under_way = true;
  }
  void end() {
    if (std::exchange(under_way, false)) copies->finish_halo(v, stream);
  }
  ~Flight() {
    try {
      end();
    } catch (const std::exception&) {  // the device or MPI is lost
    }
  }
};

}  // namespace

template <class T>
ConjugateGradients<T>::ConjugateGradients(System<T> system, std::shared_ptr<device::Device> device,
                                          const mpi::Comm& comm)
    : system_(std::move(system)),
      device_(std::move(device)),
      comm_(comm),
      small_(!device_->is_host() && system_.unknowns <= system_.small_unknowns),
      rounds_(small_ ? entries_if_small : entries_per_thread),
      blocks_(pieces(system_.unknowns, std::int64_t{rounds_} * device::vector_shape.x)),
      copies_(kept_copies(system_, comm.size())),
      partial_sums_(std::max<std::int64_t>(1, blocks_)),
      gathers_(comm.size() == 1 && system_.summand_partials > 0),
      gather_blocks_(pieces(system_.unknowns, gather_chunk)),
      vector_blocks_(device::vector_blocks(system_.unknowns)),
      product_sums_(
          std::max<std::int64_t>(1, gathers_ ? system_.summand_partials + (system_.summand_lambda == 0 ? 0 : blocks_)
                                    : system_.apply_product ? system_.product_partials
                                    : comm.size() > 1       ? blocks_
                                                            : vector_blocks_)),
      kinds_(system_.inverse_diagonal == nullptr ? 1 : 2),
      r_(device_, system_.entries),
      p_(device_, system_.entries),
      ap_(device_, system_.entries),
      partials_(device_, product_sums_ + (most_sums - 1) * std::max(partial_sums_, gathers_ ? gather_blocks_ : 0)),
      folded_(device_, gathers_ ? pieces(product_sums_, fold_chunk) : 0),
      local_sums_(device_, most_sums),
      scalars_(device_, scalar_count),
      history_(device_, history_size),
      host_(device_, device::Memory::host, (scalar_count + most_sums + history_size) * sizeof(double)),
      host_scalars_(host_.as<double>()),
      host_sums_(host_scalars_ + scalar_count),
      host_history_(host_sums_ + most_sums),
      copy_(device::vector_kernel<T>(*device_, "copy")),
      axpby_(device::vector_kernel<T>(*device_, "axpby")),
      dot_(device::vector_kernel<T>(*device_, "dot")),
      weighted_dot_(device::vector_kernel<T>(*device_, "weighted_dot")) {
  const auto kernel = [this](const char* name) { return device_->kernel<T>("cg", name); };
  residual_ = kernel("cg_residual");
  direction_ = kernel("cg_direction");
  update_ = kernel("cg_update");
  step_ = kernel("cg_step");
  products_ = kernel("cg_products");
  sums_ = kernel("cg_sums");
  alpha_ = kernel("cg_alpha");
  beta_ = kernel("cg_beta");
  small_residual_ = kernel("cg_small_residual");
  small_update_ = kernel("cg_small_update");
  if (gathers_) {
    fold_ = kernel("cg_fold");
    gathered_residual_ = device_->kernel<T>("cg_gather", "cg_gathered_residual");
    small_gathered_residual_ = device_->kernel<T>("cg_gather", "cg_small_gathered_residual");
  }
  r_.zero();
  p_.zero();
  ap_.zero();
  partials_.zero();
  scalars_.zero();
  history_.zero();
  std::fill_n(host_scalars_, scalar_count + most_sums + history_size, 0.0);
}

template <class T>
const double* ConjugateGradients<T>::all_sums(int kinds, device::Stream& stream, const std::function<void()>& before) {
  sums_(stream, 1, device::vector_shape, product_sums_, partial_sums_, kinds, partials_.data(), local_sums_.data());
  device_->copy(host_sums_, local_sums_.data(), (1 + kinds) * sizeof(double), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  if (before) before();
  if (comm_.size() > 1) comm_.sum(host_sums_, 1 + kinds);
  return host_sums_;
}

template <class T>
void ConjugateGradients<T>::store_scalars(device::Stream& stream) {
  device_->copy(scalars_.data(), host_scalars_, scalar_count * sizeof(double), device::CopyKind::host_to_device,
                stream);
}

// r = b - A x and p = 0; A p is finite.
template <class T>
void ConjugateGradients<T>::start(const T* b, T* x, bool zero_guess, device::Stream& stream) {
  const long n = system_.unknowns;
  copy_(stream, vector_blocks_, device::vector_shape, n, b, r_.data());
  if (zero_guess) {
    device_->fill_zero(x, system_.entries * sizeof(T), stream);
    device_->fill_zero(ap_.data(), ap_.bytes(), stream);
  } else {
    copy_(stream, vector_blocks_, device::vector_shape, n, x, p_.data());
    system_.apply(p_.data(), ap_.data(), stream);
    axpby_(stream, vector_blocks_, device::vector_shape, n, -1, ap_.data(), 1, r_.data());
  }
  device_->fill_zero(p_.data(), p_.bytes(), stream);
}

// p = d r, rho and r . r: with alpha = beta = 0, the kernels of an iteration leave r unchanged and compute these.
template <class T>
void ConjugateGradients<T>::start_alone(StoppingRule& rule, device::Stream& stream) {
  std::fill_n(host_scalars_, static_cast<int>(scalar_count), 0.0);
  store_scalars(stream);
  update_residual(stream);
  direction_(stream, blocks_, device::vector_shape, system_.unknowns, rounds_, scalars_.data(), system_.summand_lambda,
             system_.inverse_diagonal, r_.data(), p_.data(), squares());
  const double* norms = all_sums(kinds_, stream) + 1;
  host_scalars_[residual] = norms[0];
  host_scalars_[rho] = host_scalars_[next_rho] = norms[kinds_ - 1];
  rule.take(std::sqrt(norms[0]));
}

template <class T>
void ConjugateGradients<T>::direction_product(device::Stream& stream) {
  const long n = system_.unknowns;
  if (system_.apply_product) {
    system_.apply_product(p_.data(), ap_.data(), partials_.data(), nullptr, stream);
    return;
  }
  system_.apply(p_.data(), ap_.data(), stream);
  if (system_.weights == nullptr)
    dot_(stream, vector_blocks_, device::vector_shape, n, p_.data(), ap_.data(), partials_.data());
  else
    weighted_dot_(stream, vector_blocks_, device::vector_shape, n, system_.weights, p_.data(), ap_.data(),
                  partials_.data());
}

template <class T>
void ConjugateGradients<T>::update_residual(device::Stream& stream) {
  residual_(stream, blocks_, device::vector_shape, system_.unknowns, partial_sums_, rounds_, scalars_.data(),
            ap_.data(), system_.inverse_diagonal, system_.weights, r_.data(), norms());
}

template <class T>
void ConjugateGradients<T>::iterate_alone(T* x, device::Stream& stream) {
  const long n = system_.unknowns;
  const double lambda = system_.summand_lambda;
  const T* const d = system_.inverse_diagonal;
  if (gathers_) {
    const Summands<T> s = system_.summands(p_.data(), partials_.data(), stream);
    const double* products = partials_.data();
    std::int64_t count = product_sums_;
    if (count > system_.few_partials) {
      fold_(stream, std::ssize(folded_), device::vector_shape, count, products, folded_.data());
      products = folded_.data();
      count = std::ssize(folded_);
    }
    const T l = system_.summand_lambda;
    if (small_) {
      small_gathered_residual_(stream, gather_blocks_, device::vector_shape, n, gather_blocks_, count, products,
                               scalars_.data(), s.offsets, s.columns, s.values, l, p_.data(), d, r_.data(), norms());
    } else {
      alpha_(stream, 1, device::vector_shape, count, products, scalars_.data());
      gathered_residual_(stream, gather_blocks_, device::vector_shape, n, gather_blocks_, scalars_.data(), s.offsets,
                         s.columns, s.values, l, p_.data(), d, r_.data(), norms());
    }
  } else {
    direction_product(stream);
    if (small_) {
      small_residual_(stream, blocks_, device::vector_shape, n, partial_sums_, rounds_, product_sums_, partials_.data(),
                      scalars_.data(), ap_.data(), d, system_.weights, r_.data(), norms());
    } else {
      alpha_(stream, 1, device::vector_shape, product_sums_, partials_.data(), scalars_.data());
      update_residual(stream);
    }
  }
  if (small_) {
    small_update_(stream, blocks_, device::vector_shape, n, rounds_, residual_sums(), kinds_, norms(), scalars_.data(),
                  history_.data(), lambda, d, r_.data(), x, p_.data(), squares());
    return;
  }
  beta_(stream, 1, device::vector_shape, residual_sums(), kinds_, norms(), scalars_.data(), history_.data());
  update_(stream, blocks_, device::vector_shape, n, rounds_, scalars_.data(), lambda, d, r_.data(), x, p_.data(),
          squares());
}

// Enqueues `count` iterations and the copy of their history to the host.
template <class T>
void ConjugateGradients<T>::iterate_alone(int count, T* x, const std::function<void()>& one, device::Stream& stream) {
  device_->fill_zero(history_.data(), sizeof(double), stream);
  for (int i = 0; i < count; ++i) one ? one() : iterate_alone(x, stream);
  device_->copy(host_history_, history_.data(), history_.bytes(), device::CopyKind::device_to_host, stream);
}

// On one rank the device decides when the solve ends; iterations enqueued beyond that change nothing.
template <class T>
void ConjugateGradients<T>::solve_alone(T* x, StoppingRule& rule, const SolveOptions& options, device::Stream& stream) {
  host_scalars_[norm_scale] = options.norm_scale;
  host_scalars_[target] = rule.target();
  store_scalars(stream);
  // Launch overhead dominates small problems, so iterations are recorded as graphs: one graph of a whole batch, and one
  // of a single iteration.
  const std::pair<const T*, const void*> used{x, system_.workspace ? system_.workspace() : nullptr};
  if (recorded_for_ != used) {
    batch_graph_.reset();
    single_graph_.reset();
    recorded_for_ = used;
  }
  const auto replay_single = [&] {
    if (!single_graph_) single_graph_.emplace(stream, [&] { iterate_alone(x, stream); });
    single_graph_->replay(stream);
  };
  const bool graphs = device::Graph::supported(*device_), open_ended = rule.target() > 0;
  int count = device_->is_host() ? 1 : open_ended ? first_batch : batch;
  while (!rule.ended()) {
    count = std::min(count, options.max_iterations - rule.iterations());
    if (graphs && count == batch) {
      if (!batch_graph_) batch_graph_.emplace(stream, [&] { iterate_alone(batch, x, nullptr, stream); });
      batch_graph_->replay(stream);
    } else {
      iterate_alone(count, x, graphs ? std::function<void()>(replay_single) : nullptr, stream);
    }
    stream.synchronize();
    const double before = rule.last();
    for (int i = 0; i < count && !rule.ended(); ++i) {
      rule.require_positive(host_history_[2 + 2 * i]);
      rule.take(std::sqrt(host_history_[1 + 2 * i]));
    }
    if (!device_->is_host()) count = open_ended ? expected(before, rule.last(), count, rule.target()) : batch;
  }
}

// All sums of an iteration share an all-reduce, after A p: those of p . A p, and with v = A p and z = d r, r . r, r .
// z, z . v and v . d v. The next r . z follows from them before r is updated. r . r is the residual that is reported,
// so nothing drifts.
//
// Copies of other ranks' entries of r and p are kept up to date with those of v. These are packed before the sums,
// so that the host waits once for both, and arrive while the sums are added up and the first elements are
// computed.
template <class T>
void ConjugateGradients<T>::solve_together(T* x, StoppingRule& rule, const SolveOptions& options,
                                           device::Stream& stream) {
  const long n = system_.unknowns;
  const T* const d = system_.inverse_diagonal;
  T *const r = r_.data(), *const p = p_.data(), *const v = ap_.data();
  // If the next r . z is below this fraction of r . z, its recurrence has lost a quarter of the digits, and it is
  // computed from r.
  const double cancels = std::pow(static_cast<double>(std::numeric_limits<T>::epsilon()), 0.25);
  double alpha_of_x = 0, alpha_of_r = 0, beta_of_p = 0;
  const auto step = [&](long begin, long count, double of_r) {
    const std::int64_t blocks = pieces(count, std::int64_t{rounds_} * device::vector_shape.x);
    step_(stream, blocks, device::vector_shape, count, rounds_, alpha_of_x, of_r, beta_of_p, v + begin,
          d == nullptr ? nullptr : d + begin, x + begin, r + begin, p + begin);
  };
  const bool in_operator = static_cast<bool>(system_.apply_product);  // p . A p
  Flight flight{copies_, v, stream};
  std::function<void()> fill, depart;
  if (copies_ != nullptr) {
    copies_->start_halo(r, stream);
    copies_->finish_halo(r, stream);
    fill = [&] {
      flight.end();
      step(n, system_.entries - 1 - n, alpha_of_x);
    };
    depart = [&] { copies_->depart_halo(true); };
  }
  for (int iteration = 0;; ++iteration) {
    step(0, n, alpha_of_r);
    const bool last = iteration == options.max_iterations;
    if (!last) {
      if (in_operator)
        system_.apply_product(p, v, partials_.data(), fill, stream);
      else
        system_.apply(p, v, stream);
      flight.begin();
    }
    products_(stream, blocks_, device::vector_shape, n, partial_sums_, rounds_, in_operator ? nullptr : p, r, v, d,
              system_.weights, partials_.data(), norms());
    const double* sums = all_sums(kinds_ + 2, stream, last ? nullptr : depart);
    const double pv = sums[0], rr = sums[1], rz = sums[kinds_], zv = sums[kinds_ + 1], vdv = sums[kinds_ + 2];
    if (rule.take(std::sqrt(rr))) return;
    rule.require_positive(pv);
    alpha_of_x = alpha_of_r = rz / pv;
    double next = rz - 2 * alpha_of_x * zv + alpha_of_x * alpha_of_x * vdv;
    if (!(next > cancels * rz)) {
      host_scalars_[alpha] = std::exchange(alpha_of_r, 0);
      store_scalars(stream);
      update_residual(stream);
      next = all_sums(kinds_, stream)[kinds_];
    }
    beta_of_p = rz > 0 ? next / rz : 0;
  }
}

template <class T>
SolveResult ConjugateGradients<T>::solve(const T* b, T* x, bool zero_guess, const SolveOptions& options,
                                         device::Stream& stream) {
  StoppingRule rule(options);
  const trace::Span span("cg", trace::Category::cpu);
  start(b, x, zero_guess, stream);
  if (comm_.size() == 1) {
    start_alone(rule, stream);
    solve_alone(x, rule, options, stream);
  } else {
    solve_together(x, rule, options, stream);
  }
  stream.synchronize();
  return rule.result();
}

template <class T>
std::int64_t ConjugateGradients<T>::memory_bytes() const {
  return static_cast<std::int64_t>(r_.bytes() + p_.bytes() + ap_.bytes() + partials_.bytes());
}

template class ConjugateGradients<float>;
template class ConjugateGradients<double>;

}  // namespace weft::solver
