#include "weft/solver/amg.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft::solver {
namespace {

void check(const Csr& a, const char* what) {
  const bool fits = static_cast<std::int64_t>(a.offsets.size()) == a.rows + 1 && a.offsets.front() == 0 &&
                    std::ranges::is_sorted(a.offsets) &&
                    a.offsets.back() == static_cast<std::int64_t>(a.values.size()) &&
                    a.indices.size() == a.values.size() &&
                    std::ranges::all_of(a.indices, [&](std::int32_t c) { return c >= 0 && c < a.columns; });
  if (!fits) throw std::invalid_argument(std::string("amg: ") + what + " is not a matrix in compressed sparse rows");
}

// x_i = (b_i - sum_{j != i} a_ij x_j) / a_ii for row i.
void relax(const Csr& a, std::int64_t i, const std::vector<double>& b, std::vector<double>& x) {
  double sum = b[i], diagonal = 0;
  for (std::int64_t q = a.offsets[i]; q < a.offsets[i + 1]; ++q) {
    if (a.indices[q] == i)
      diagonal = a.values[q];
    else
      sum -= a.values[q] * x[a.indices[q]];
  }
  x[i] = sum / diagonal;
}

void subtract_mean(std::vector<double>& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  for (double& value : x) value -= mean;
}

}  // namespace

Amg::Amg(std::vector<AmgLevel> levels, std::vector<double> coarsest, bool constants)
    : levels_(std::move(levels)), coarsest_(std::move(coarsest)), constants_(constants) {
  if (levels_.empty()) throw std::invalid_argument("amg: a hierarchy needs at least one level");
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    const Csr& a = levels_[l].a;
    check(a, "a level");
    for (std::int64_t i = 0; i < a.rows; ++i) {
      bool positive = false;
      for (std::int64_t q = a.offsets[i]; q < a.offsets[i + 1]; ++q) positive |= a.indices[q] == i && a.values[q] > 0;
      // A single unknown, the constant, leaves nothing to solve (a periodic mesh of one element at order 1).
      if (!positive && !(constants && a.rows == 1))
        throw std::invalid_argument("amg: row " + std::to_string(i) + " of level " + std::to_string(l) +
                                    " has a diagonal entry that is not positive");
    }
    if (l + 1 < levels_.size()) {
      check(levels_[l].p, "an interpolation");
      if (levels_[l].p.rows != a.rows || levels_[l].p.columns != levels_[l + 1].a.rows)
        throw std::invalid_argument("amg: the interpolation of level " + std::to_string(l) + " has the wrong size");
    }
    b_.emplace_back(a.rows);
    x_.emplace_back(a.rows);
    r_.emplace_back(a.rows);
  }
  const auto last = static_cast<std::size_t>(levels_.back().a.rows);
  if (coarsest_.size() != last * last)
    throw std::invalid_argument("amg: the inverse of the coarsest level has the wrong size");
}

void Amg::cycle(const std::vector<double>& b, std::vector<double>& x) {
  b_[0] = b;
  if (constants_) subtract_mean(b_[0]);
  cycle(0);
  x = x_[0];
  if (constants_) subtract_mean(x);
}

void Amg::cycle(std::size_t level) {
  const Csr& a = levels_[level].a;
  std::vector<double>&b = b_[level], &x = x_[level], &r = r_[level];
  if (level + 1 == levels_.size()) {
    for (std::int64_t i = 0; i < a.rows; ++i)
      x[i] = std::inner_product(b.begin(), b.end(), coarsest_.begin() + i * a.rows, 0.0);
    return;
  }
  const Csr& p = levels_[level].p;
  std::ranges::fill(x, 0.0);
  for (std::int64_t i = 0; i < a.rows; ++i) relax(a, i, b, x);
  std::vector<double>&coarse_b = b_[level + 1], &coarse_x = x_[level + 1];
  std::ranges::fill(coarse_b, 0.0);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    r[i] = b[i];
    for (std::int64_t q = a.offsets[i]; q < a.offsets[i + 1]; ++q) r[i] -= a.values[q] * x[a.indices[q]];
    for (std::int64_t q = p.offsets[i]; q < p.offsets[i + 1]; ++q) coarse_b[p.indices[q]] += p.values[q] * r[i];
  }
  cycle(level + 1);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t q = p.offsets[i]; q < p.offsets[i + 1]; ++q) x[i] += p.values[q] * coarse_x[p.indices[q]];
  for (std::int64_t i = a.rows - 1; i >= 0; --i) relax(a, i, b, x);
}

std::int64_t Amg::memory_bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(coarsest_.size() * sizeof(double));
  const auto add = [&](const Csr& m) {
    bytes += static_cast<std::int64_t>(m.offsets.size() * 8 + m.indices.size() * 4 + m.values.size() * 8);
  };
  for (const AmgLevel& level : levels_) {
    add(level.a);
    add(level.p);
    bytes += 3 * level.a.rows * static_cast<std::int64_t>(sizeof(double));
  }
  return bytes;
}

template <class T>
DistributedAmg<T>::DistributedAmg(Amg amg, std::int64_t unknowns, std::shared_ptr<device::Device> device,
                                  const mpi::Comm& comm)
    : amg_(std::move(amg)),
      device_(std::move(device)),
      comm_(comm),
      counts_(comm.size()),
      offsets_(comm.size()),
      host_(device_, device::Memory::host, unknowns * sizeof(T)),
      own_(host_.as<T>(), unknowns),
      mine_(unknowns),
      b_(amg_.size()),
      x_(amg_.size()) {
  const int mine = static_cast<int>(unknowns);
  mpi::check(MPI_Allgather(&mine, 1, MPI_INT, counts_.data(), 1, MPI_INT, comm_.get()), "MPI_Allgather");
  std::exclusive_scan(counts_.begin(), counts_.end(), offsets_.begin(), 0);
  const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  if (all != amg_.size())
    throw std::invalid_argument("amg: a hierarchy for " + std::to_string(amg_.size()) + " unknowns, but there are " +
                                std::to_string(all));
  trace::Traffic gathers;
  gathers.group = comm_.group();
  gathers.collective = "allgather";
  gathers_ = std::make_shared<const trace::Traffic>(std::move(gathers));
}

template <class T>
void DistributedAmg<T>::apply(const T* b, T* x, device::Stream& stream) {
  const trace::Span span("coarse solve", trace::Category::cpu);
  device_->copy(own_.data(), b, own_.size_bytes(), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  std::ranges::copy(own_, mine_.begin());
  {
    const trace::Span gather("coarse all-gather", trace::Category::mpi,
                             static_cast<std::int64_t>(mine_.size() * sizeof(double)), &gathers_);
    mpi::check(MPI_Allgatherv(mine_.data(), static_cast<int>(mine_.size()), MPI_DOUBLE, b_.data(), counts_.data(),
                              offsets_.data(), MPI_DOUBLE, comm_.get()),
               "MPI_Allgatherv");
  }
  amg_.cycle(b_, x_);
  const auto begin = x_.begin() + offsets_[comm_.rank()];
  std::transform(begin, begin + static_cast<std::ptrdiff_t>(own_.size()), own_.begin(),
                 [](double value) { return static_cast<T>(value); });
  device_->copy(x, own_.data(), own_.size_bytes(), device::CopyKind::host_to_device, stream);
}

template class DistributedAmg<float>;
template class DistributedAmg<double>;

}  // namespace weft::solver
