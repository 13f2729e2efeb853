#include "weft/poisson/multigrid.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

constexpr double schwarz_contrast = 1.5;  // from this value on, Schwarz may not be positive definite

// How much the screening's share of the diagonal varies: the largest value of (1 + q) divided by the smallest, where q
// is the screening part of a diagonal entry divided by the rest. (collective)
template <class S>
double contrast(Operator<S>& op) {
  const std::vector<S> screening = op.screening(), diagonal = op.diagonal().download();
  double most = 0, least = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < screening.size(); ++i) {
    if (diagonal[i] == 0) continue;  // masked
    const double share = static_cast<double>(diagonal[i]) / static_cast<double>(diagonal[i] - screening[i]);
    most = std::max(most, share);
    least = std::min(least, share);
  }
  return op.comm().max(most) * op.comm().max(1 / least);
}

}  // namespace

template <class S>
Multigrid<S>::Multigrid(const mesh::Mesh& mesh, const Options& options, const MultigridOptions& multigrid)
    : mesh_(mesh), device_(options.device), smoothing_(chosen(multigrid.smoothing, mesh)), algebraic_(false) {
  const std::vector<int>& orders = multigrid.orders;
  if (orders.empty() || orders.front() != options.order || (orders.size() > 1 && orders.back() != 1) ||
      std::ranges::adjacent_find(orders, std::less_equal<>{}) != orders.end())
    throw std::invalid_argument("multigrid: the levels must be decreasing orders from that of the operator, " +
                                std::to_string(options.order) + ", to 1, or that order alone");
  algebraic_ = orders.back() == 1 && (multigrid.algebraic || orders.size() > 1);
  if (!multigrid.screening.empty() && multigrid.screening.size() != orders.size())
    throw std::invalid_argument("multigrid: " + std::to_string(multigrid.screening.size()) + " screenings for " +
                                std::to_string(orders.size()) + " levels");
  for (std::size_t l = 0; l < orders.size(); ++l) {
    Options own = options;
    own.order = orders[l];
    // lambda I on the coarse unknowns, of which there are fewer: P^T I P is about the ratio of their numbers times I.
    own.lambda = options.lambda * std::pow(static_cast<double>(options.order) / own.order, 3);
    Level& level = levels_.emplace_back();
    level.op = std::make_unique<Operator<S>>(mesh, own);
    if (!multigrid.screening.empty())
      level.op->set_screening(std::vector<S>(multigrid.screening[l].begin(), multigrid.screening[l].end()));
    if (l == 0 && level.op->screened() && multigrid.smoothing == Smoothing::automatic &&
        contrast(*level.op) > schwarz_contrast)
      smoothing_ = Smoothing::chebyshev_jacobi;
    for (device::Array<S>* vector : {&level.b, &level.x, &level.r}) {
      *vector = device::Array<S>(device_, level.op->entries());
      vector->zero();
    }
    if (l > 0) levels_[l - 1].transfer = std::make_unique<Transfer<S>>(*levels_[l - 1].op, *level.op);
    if (algebraic_ && l + 1 == orders.size()) break;
    level.smoother = make_smoother(*level.op, smoothing_, multigrid.degree);
  }
}

template <class S>
bool Multigrid<S>::singular() const {
  const Options& options = levels_.back().op->options();
  const std::vector<S> screening = levels_.back().op->screening();
  const double most = screening.empty() ? 0 : static_cast<double>(std::ranges::max(screening));
  if (options.lambda > 0 || mesh_.comm.max(most) > 0) return false;
  return options.dirichlet.faces(mesh_) == 0;
}

template <class S>
Triplets Multigrid<S>::coarse_matrix() {
  Operator<S>& op = *levels_.back().op;
  const std::int64_t first = mesh_.comm.exclusive_scan(op.unknowns());
  std::vector<std::int64_t> numbers(op.entries(), -1);
  for (std::int64_t i = 0; i < op.unknowns(); ++i) numbers[i] = first + i;
  const auto host = device::open("host");
  exchange::Exchange<std::int64_t> halo(op.space().numbering().assembly.pattern, host, mesh_.comm, exchange::Choice{},
                                        1, exchange::Layout::points_major, exchange::Directions::halo);
  device::Stream stream(host);
  halo.start_halo(numbers.data(), stream);
  halo.finish_halo(numbers.data(), stream);
  stream.synchronize();
  numbers.back() = -1;

  const std::vector<std::int32_t> index = op.space().point_index();
  const std::vector<double> g = mesh::geometric_factors(mesh_, 1).g;
  const auto& d = element::gll(1).derivative;
  Triplets matrix;
  const std::vector<S> screening = op.screening();
  for (std::int64_t i = 0; i < op.unknowns(); ++i) {
    const double value = op.options().lambda + (screening.empty() ? 0 : static_cast<double>(screening[i]));
    if (value == 0) continue;
    matrix.rows.push_back(first + i);
    matrix.columns.push_back(first + i);
    matrix.values.push_back(value);
  }
  for (std::size_t e = 0; e < index.size() / 8; ++e) {
    std::array<std::array<double, 8>, 8> k{};
    for (int p = 0; p < 8; ++p) {
      const double* f = g.data() + (e * 8 + p) * 6;
      const double metric[3][3] = {{f[0], f[1], f[2]}, {f[1], f[3], f[4]}, {f[2], f[4], f[5]}};
      // Row c of `gradient`: the derivative along direction c at corner p, as pairs (corner, factor).
      int corner[3][2];
      double factor[3][2];
      for (int c = 0; c < 3; ++c) {
        for (int m = 0; m < 2; ++m) {
          corner[c][m] = (p & ~(1 << c)) | (m << c);
          factor[c][m] = d[((p >> c) & 1) * 2 + m];
        }
      }
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b)
          for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) k[corner[a][i]][corner[b][j]] += factor[a][i] * metric[a][b] * factor[b][j];
    }
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; ++j) {
        const std::int64_t row = numbers[index[e * 8 + i]], column = numbers[index[e * 8 + j]];
        if (row < 0 || column < 0 || k[i][j] == 0) continue;
        matrix.rows.push_back(row);
        matrix.columns.push_back(column);
        matrix.values.push_back(k[i][j]);
      }
    }
  }
  return matrix;
}

template <class S>
void Multigrid<S>::set_coarse(solver::Amg hierarchy) {
  coarse_ = std::make_unique<solver::DistributedAmg<S>>(std::move(hierarchy), levels_.back().op->unknowns(), device_,
                                                        mesh_.comm);
}

template <class S>
void Multigrid<S>::apply(S* r, S* z, device::Stream& stream) {
  if (!coarse_ && algebraic_) throw std::logic_error("multigrid: the coarse level is not set");
  const trace::Span span("multigrid", trace::Category::cpu);
  // Without other ranks, nothing but the coarse solve waits for the host. A trace shows all launches.
  const bool replays = mesh_.comm.size() == 1 && device::Graph::supported(*device_) && !trace::enabled();
  const auto run = [&](std::optional<device::Graph> Recorded::* part, const auto& launch) {
    if (!replays) return launch();
    std::optional<device::Graph>& graph = recorded_[{r, z}].*part;
    if (!graph) graph.emplace(stream, launch);
    graph->replay(stream);
  };
  if (levels_.size() > 1 || !algebraic_) run(&Recorded::down, [&] { descend(r, z, stream); });
  if (!algebraic_) return;
  const bool alone = levels_.size() == 1;
  coarse_->apply(alone ? r : levels_.back().b.data(), alone ? z : levels_.back().x.data(), stream);
  if (!alone) run(&Recorded::up, [&] { ascend(r, z, stream); });
}

template <class S>
void Multigrid<S>::descend(const S* r, S* z, device::Stream& stream) {
  if (!algebraic_) return levels_.front().smoother->start(r, z, levels_.front().r.data(), false, stream);
  for (std::size_t l = 0; l + 1 < levels_.size(); ++l) {
    Level& level = levels_[l];
    level.smoother->start(l == 0 ? r : level.b.data(), l == 0 ? z : level.x.data(), level.r.data(), true, stream);
    level.transfer->restrict_to(level.r.data(), levels_[l + 1].b.data(), stream);
  }
}

template <class S>
void Multigrid<S>::ascend(const S* r, S* z, device::Stream& stream) {
  for (std::size_t l = levels_.size() - 1; l-- > 0;) {
    Level& level = levels_[l];
    S* const x = l == 0 ? z : level.x.data();
    level.transfer->prolong(levels_[l + 1].x.data(), x, true, stream);
    level.smoother->improve(l == 0 ? r : level.b.data(), x, level.r.data(), stream);
  }
}

template <class S>
std::vector<int> Multigrid<S>::orders() const {
  std::vector<int> orders;
  for (const Level& level : levels_) orders.push_back(level.op->options().order);
  return orders;
}

template <class S>
std::vector<double> Multigrid<S>::largest_eigenvalues() const {
  std::vector<double> values;
  for (const Level& level : levels_)
    if (level.smoother) values.push_back(level.smoother->largest_eigenvalue());
  return values;
}

template <class S>
std::vector<std::pair<std::string, exchange::Tuning>> Multigrid<S>::tunings() const {
  std::vector<std::pair<std::string, exchange::Tuning>> all;
  for (const Level& level : levels_) {
    const std::string order = "order " + std::to_string(level.op->options().order);
    for (auto& [use, tuning] : level.op->tunings()) all.emplace_back(order + " " + use, tuning);
    if (const exchange::Tuning* own = level.smoother ? level.smoother->tuning() : nullptr)
      all.emplace_back(order + " smoother's halo", *own);
  }
  return all;
}

template <class S>
std::map<std::string, std::int64_t> Multigrid<S>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  for (const Level& level : levels_) {
    auto sum = static_cast<std::int64_t>(level.b.bytes() + level.x.bytes() + level.r.bytes());
    for (const auto& [name, value] : level.op->memory_bytes()) sum += value;
    if (level.smoother) sum += level.smoother->memory_bytes();
    if (level.transfer) sum += level.transfer->memory_bytes();
    bytes["multigrid, order " + std::to_string(level.op->options().order)] = sum;
  }
  if (coarse_) bytes["multigrid, algebraic levels"] = coarse_->memory_bytes();
  return bytes;
}

template class Multigrid<float>;
template class Multigrid<double>;

}  // namespace weft::poisson
