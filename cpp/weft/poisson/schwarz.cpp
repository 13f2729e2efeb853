#include "weft/poisson/schwarz.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "weft/device/tiles.hpp"
#include "weft/element/fast_diagonalisation.hpp"
#include "weft/element/gll.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mpi/sparse.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

// For each value the value that the other holder of its id has: the sum of the two minus one's own; 0 if there is no
// other.
template <class V>
std::vector<V> of_the_other(const std::vector<std::int64_t>& ids, const std::vector<V>& values, const mpi::Comm& comm) {
  const auto host = device::open("host");
  exchange::GatherScatter<V> sum(ids, comm, host, exchange::Choice{});
  std::vector<V> all = values;
  device::Stream stream(host);
  sum.gather_scatter(all.data(), exchange::Op::add, stream);
  stream.synchronize();
  for (std::size_t i = 0; i < all.size(); ++i) all[i] -= values[i];
  return all;
}

// Clocks per line on a multiprocessor with 64 lanes in double or 128 in single precision, and 128 bytes of shared
// memory per clock: products, and loads of the line, of the eigenvectors' entries and of the result, divided by the
// used lanes.
double clocks_per_line(int m, const SubdomainBlocks& blocks, int scalar_bytes) {
  const double words = scalar_bytes / 4.0;
  const double products = m * m * words / 4, loads = words * (2.0 * m + m * m / static_cast<double>(blocks.lines));
  const int threads = blocks.elements * ((m * m + blocks.lines - 1) / blocks.lines);
  const double lanes = (threads + 31) / 32 * 32.0 * blocks.lines;
  return std::max(products, loads) * lanes / (blocks.elements * m * m);
}

}  // namespace

unsigned SubdomainBlocks::threads(int order) const {
  const int m = order + 3;
  return static_cast<unsigned>(elements * ((m * m + lines - 1) / lines));
}

// The fastest choice according to clocks_per_line for which a multiprocessor holds enough warps to hide latencies (more
// than twelve, mostly): threads have few sums, and several elements have at most 128 threads and half of a block's
// shared memory.
SubdomainBlocks subdomain_blocks(int order, int scalar_bytes) {
  const int m = order + 3;
  const int sums = scalar_bytes == 8 ? 40 : 56;
  SubdomainBlocks best;
  for (int lines = 1; lines * m <= sums; ++lines) {
    for (int elements = 1;; ++elements) {
      const SubdomainBlocks blocks{elements, lines};
      const int bytes = elements * (m * m * (m | 1) + 3 * m * m + 3 * m) * scalar_bytes;
      if (elements > 1 && (2 * bytes > device::shared_bytes_of_a_block || blocks.threads(order) > 128)) break;
      if (clocks_per_line(m, blocks, scalar_bytes) < clocks_per_line(m, best, scalar_bytes)) best = blocks;
    }
  }
  return best;
}

std::vector<device::Define> subdomain_constants(int order, const SubdomainBlocks& blocks) {
  std::vector<device::Define> constants{{"WEFT_N", std::to_string(order)}};
  if (blocks.elements > 1) constants.push_back({"WEFT_TILE_ELEMENTS", std::to_string(blocks.elements)});
  if (blocks.lines > 1) constants.push_back({"WEFT_TILE_LINES", std::to_string(blocks.lines)});
  return constants;
}

template <class T>
Schwarz<T>::Schwarz(Operator<T>& op) : op_(op) {
  const Options& options = op.options();
  find_layer();
  set_up_solves();
  const std::vector<T> ones(op.space().points(), T(1));
  std::vector<T> weights = op.sum_points(ones);
  for (T& weight : weights) weight = 1 / weight;
  weights_ = device::Array<T>(options.device, weights);
}

// Finds the entry of r for each point of the layer beyond each face, and sets up the exchange of those that other ranks
// own.
template <class T>
void Schwarz<T>::find_layer() {
  const mesh::Mesh mesh = op_.space().numbering().executed_mesh();
  const mpi::Comm& comm = op_.comm();
  const int order = op_.options().order, n = order + 1;
  const std::int64_t elements = mesh.elements(), each = cube(n), nothing = op_.entries() - 1;
  const std::vector<std::int64_t> ids = mesh::point_ids(mesh, order);
  const std::vector<std::int32_t>& index = op_.space().numbering().index;
  std::vector<std::int32_t> owners;  // of the halo
  for (const exchange::Pattern::Neighbor& neighbor : op_.space().numbering().assembly.pattern.neighbors)
    owners.insert(owners.end(), neighbor.halo, neighbor.rank);

  // Each point of a face has two holders: the elements on its two sides. They exchange the points next to it.
  const std::int64_t points = elements * 6 * n * n;
  std::vector<std::int64_t> places(points), deep(points), owner(points);
  for (std::int64_t e = 0; e < elements; ++e) {
    for (int f = 0; f < 6; ++f) {
      for (int b = 0; b < n; ++b) {
        for (int a = 0; a < n; ++a) {
          const std::int64_t q = ((e * 6 + f) * n + b) * n + a;
          const auto [u, v] = mesh::to_canonical(mesh.topology.face_orientations[e][f], a, b, n - 1);
          places[q] = (mesh.topology.faces[e][f] * n + v) * n + u + 1;
          const std::int64_t p = e * each + static_cast<std::int64_t>(space::point_of_side(f, a, b, n, 1));
          if (index[p] == nothing) continue;
          deep[q] = ids[p];
          owner[q] = 1 + (index[p] < op_.unknowns() ? comm.rank() : owners[index[p] - op_.unknowns()]);
        }
      }
    }
  }
  deep = of_the_other(places, deep, comm);
  owner = of_the_other(places, owner, comm);

  const exchange::PointsById known = exchange::points_by_id(ids);
  const auto entry_of = [&](std::int64_t id) -> std::int64_t {
    const auto at = std::ranges::lower_bound(known.ids, id);
    if (at == known.ids.end() || *at != id) return -1;
    return index[known.points[known.begin[at - known.ids.begin()]]];
  };
  beyond_.assign(points, static_cast<std::int32_t>(nothing));
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> foreign;  // (owner, id)
  for (std::int64_t q = 0; q < points; ++q) {
    if (deep[q] == 0) continue;
    const std::int64_t entry = entry_of(deep[q]);
    if (entry >= 0)
      beyond_[q] = static_cast<std::int32_t>(entry);
    else
      foreign[{owner[q] - 1, deep[q]}] = -1;
  }
  mpi::Parcels wanted;
  std::vector<std::int64_t> words;
  for (auto at = foreign.begin(); at != foreign.end();) {
    const std::int64_t rank = at->first.first;
    words.clear();
    for (; at != foreign.end() && at->first.first == rank; ++at) {
      at->second = static_cast<std::int32_t>(op_.entries() + layer_++);
      words.push_back(at->first.second);
    }
    wanted.add(static_cast<int>(rank), words);
  }
  for (std::int64_t q = 0; q < points; ++q) {
    if (deep[q] == 0 || beyond_[q] != nothing) continue;
    if (const auto at = foreign.find({owner[q] - 1, deep[q]}); at != foreign.end()) beyond_[q] = at->second;
  }

  const mpi::Parcels asked = mpi::sparse_exchange(comm, wanted);
  exchange::Pattern pattern;
  pattern.halo_first = op_.entries();
  pattern.entries = entries();
  std::map<int, std::pair<std::int64_t, std::int64_t>> counts;
  for (std::size_t i = 0; i < asked.count(); ++i) {
    counts[asked.ranks[i]].first = static_cast<std::int64_t>(asked.part(i).size());
    for (const std::int64_t id : asked.part(i)) pattern.owned_index.push_back(static_cast<std::int32_t>(entry_of(id)));
  }
  for (std::size_t i = 0; i < wanted.count(); ++i)
    counts[wanted.ranks[i]].second = static_cast<std::int64_t>(wanted.part(i).size());
  for (const auto& [rank, count] : counts) pattern.neighbors.push_back({rank, count.first, count.second});
  exchange_ = std::make_unique<exchange::Exchange<T>>(pattern, op_.options().device, comm, op_.options().exchange, 1,
                                                      exchange::Layout::points_major, exchange::Directions::halo);
}

template <class T>
void Schwarz<T>::set_up_solves() {
  const mesh::Mesh mesh = op_.space().numbering().executed_mesh();
  const Options& options = op_.options();
  const int order = options.order, n = order + 1, m = n + 2;
  const std::int64_t elements = mesh.elements(), each = cube(n);
  const std::int32_t nothing = static_cast<std::int32_t>(op_.entries() - 1);

  // Lengths: a box with sides x, y, z has G_rr = w y z / (2 x) and so on.
  std::vector<double> lengths(elements * 6);  // across each face
  {
    const std::vector<double> g = mesh::geometric_factors(mesh, order).g;
    for (std::int64_t e = 0; e < elements; ++e) {
      std::array<double, 3> c{};
      for (std::int64_t p = 0; p < each; ++p) {
        const double* factors = g.data() + (e * each + p) * 6;
        c[0] += factors[0] / 8;
        c[1] += factors[3] / 8;
        c[2] += factors[5] / 8;
      }
      for (int f = 0; f < 6; ++f) lengths[e * 6 + f] = 2 * std::sqrt(c[(f / 2 + 1) % 3] * c[(f / 2 + 2) % 3]);
    }
  }
  std::vector<std::int64_t> faces(elements * 6);
  for (std::int64_t q = 0; q < elements * 6; ++q) faces[q] = mesh.topology.faces[q / 6][q % 6] + 1;
  const std::vector<double> theirs = of_the_other(faces, lengths, mesh.comm);
  const std::vector<std::int32_t> there = of_the_other(faces, std::vector<std::int32_t>(elements * 6, 1), mesh.comm);
  const auto end = [&](std::int64_t e, int f) {
    bool masked = true;
    for (int p = 0; p < n * n; ++p)
      masked = masked && op_.space().numbering().index[e * each + static_cast<std::int64_t>(space::point_of_side(
                                                                      f, p % n, p / n, n))] == nothing;
    if (masked) return element::End::dirichlet;
    return there[e * 6 + f] != 0 ? element::End::neighbor : element::End::natural;
  };

  const std::vector<double>& screenings = op_.element_screening();
  const auto screening = [&](std::int64_t e) {
    return screenings.empty() ? 0 : screenings[op_.space().numbering().split.order[e]];
  };
  const bool simd = op_.simd() != nullptr;
  const std::int64_t lanes = simd ? simd::lanes<T> : 1, blocks = (elements + lanes - 1) / lanes;
  std::vector<T> vectors(blocks * lanes * 3 * m * m), values(blocks * lanes * 3 * m, T(1));
  const auto place = [&](std::int64_t e, std::int64_t size, std::int64_t i) {
    return (e / lanes * size + i) * lanes + e % lanes;
  };
  for (std::int64_t e = 0; e < elements; ++e) {
    const double volume = lengths[e * 6] * lengths[e * 6 + 2] * lengths[e * 6 + 4];
    for (int d = 0; d < 3; ++d) {
      const int f = 2 * d;
      const element::FastDiagonalisation one = element::fast_diagonalisation(
          order, {lengths[e * 6 + f], end(e, f), end(e, f + 1), theirs[e * 6 + f], theirs[e * 6 + f + 1]});
      for (int i = 0; i < m * m; ++i) vectors[place(e, 3 * m * m, d * m * m + i)] = static_cast<T>(one.vectors[i]);
      // lambda I is approximately lambda divided by the mean mass of a point, times the mass matrix; a screening enters
      // through its mean.
      const double shift = d == 0 ? (options.lambda * order * order * order + screening(e)) / volume : 0;
      for (int i = 0; i < m; ++i) values[place(e, 3 * m, d * m + i)] = static_cast<T>(one.values[i] + shift);
    }
  }
  vectors_ = device::Array<T>(options.device, vectors);
  values_ = device::Array<T>(options.device, values);

  if (simd) {
    std::vector<std::int32_t> beyond(blocks * lanes * 6 * n * n, nothing);
    for (std::int64_t e = 0; e < elements; ++e)
      for (int i = 0; i < 6 * n * n; ++i) beyond[place(e, 6 * n * n, i)] = beyond_[e * 6 * n * n + i];
    index_ = device::Array<std::int32_t>(options.device, beyond);
    simd_ = {index_.data(), vectors_.data(), values_.data()};
    scratch_ = {op_.simd()->plan().threads, subdomain_vectors(order) * lanes};
  } else {
    index_ = device::Array<std::int32_t>(options.device, subdomain_index());
    if (!options.device->is_host()) blocks_ = subdomain_blocks(order, sizeof(T));
    solve_ = options.device->kernel<T>("schwarz", "schwarz_points", subdomain_constants(order, blocks_));
  }
  beyond_ = {};
}

// The entry of r for each point of a subdomain: [element][m^3], with a zero beyond edges.
template <class T>
std::vector<std::int32_t> Schwarz<T>::subdomain_index() const {
  const int n = op_.options().order + 1, m = n + 2;
  const std::vector<std::int32_t>& inside = op_.space().numbering().index;
  const std::int64_t elements = op_.space().elements();
  std::vector<std::int32_t> index(elements * cube(m), static_cast<std::int32_t>(op_.entries() - 1));
  for (std::int64_t e = 0; e < elements; ++e) {
    const auto at = [&](int i, int j, int k) -> std::int32_t& { return index[((e * m + k) * m + j) * m + i]; };
    for (int b = 0; b < n; ++b) {
      for (int a = 0; a < n; ++a) {
        for (int c = 0; c < n; ++c) at(a + 1, b + 1, c + 1) = inside[((e * n + c) * n + b) * n + a];
        const auto beyond = [&](int side) { return beyond_[((e * 6 + side) * n + b) * n + a]; };
        for (int end = 0; end < 2; ++end) {
          at(end * (m - 1), a + 1, b + 1) = beyond(end);
          at(a + 1, end * (m - 1), b + 1) = beyond(2 + end);
          at(a + 1, b + 1, end * (m - 1)) = beyond(4 + end);
        }
      }
    }
  }
  return index;
}

template <class T>
void Schwarz<T>::apply(T* r, T* y, device::Stream& stream) {
  const trace::Span span("schwarz", trace::Category::cpu);
  auto& exchange = op_.space().exchange();
  exchange.start_halo(r, stream);
  exchange_->start_halo(r, stream);
  exchange.depart_halo();
  exchange_->depart_halo();
  exchange.finish_halo(r, stream);
  exchange_->finish_halo(r, stream);
  if (const SimdOperator<T>* op = op_.simd()) {
    const space::Plan& plan = op->plan();
    const auto solve = level_passes<T>(op->order()).schwarz;
    r[plan.zero] = 0;
    std::fill_n(y, plan.zero, T{0});
    const auto part = [&](int p) {
      space::for_chunks(plan.chunks[p], plan.threads, [&](const Range& chunk, int thread) {
        solve(op->elements().blocks, simd_, chunk, r, y, scratch_.of(thread));
      });
    };
    part(0);
    part(1);
    exchange.start_gather(y, stream);
    part(2);
    exchange.finish_gather(y, exchange::Op::add, stream);
    y[plan.zero] = 0;  // where masked points added their values
    return;
  }
  const std::int64_t elements = op_.space().elements();
  space::Gather<T>& gather = op_.space().gather();
  solve_(stream, (elements + blocks_.elements - 1) / blocks_.elements, {blocks_.threads(op_.options().order)},
         static_cast<int>(elements), index_.data(), vectors_.data(), values_.data(), r, gather.values(1, stream));
  gather({0, op_.entries()}, y, 1, stream);
  op_.space().add_halo(y, stream);
}

template <class T>
std::int64_t Schwarz<T>::memory_bytes() const {
  return static_cast<std::int64_t>(weights_.bytes() + vectors_.bytes() + values_.bytes() + index_.bytes()) +
         scratch_.bytes();
}

template class Schwarz<float>;
template class Schwarz<double>;

}  // namespace weft::poisson
