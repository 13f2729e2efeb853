#include "weft/poisson/simd_operator.hpp"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "weft/element/even_odd.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/trilinear.hpp"
#include "weft/poisson/simd_sweep.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

template <class T, int... I>
std::array<const SimdPasses<T>*, sizeof...(I)> all_passes(std::integer_sequence<int, I...>) {
  return {&SimdOrder<I + 1, T>::passes...};
}

double smallest_jacobian(const std::array<double, 24>& a, const std::vector<double>& points) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const double t : points) {
    for (const double s : points) {
      for (const double r : points) {
        std::array<double, 3> xr, xs, xt;
        for (int d = 0; d < 3; ++d) {
          xr[d] = a[3 + d] + a[12 + d] * s + a[15 + d] * t + a[21 + d] * s * t;
          xs[d] = a[6 + d] + a[12 + d] * r + a[18 + d] * t + a[21 + d] * r * t;
          xt[d] = a[9 + d] + a[15 + d] * r + a[18 + d] * s + a[21 + d] * r * s;
        }
        const double det = xr[0] * (xs[1] * xt[2] - xs[2] * xt[1]) + xr[1] * (xs[2] * xt[0] - xs[0] * xt[2]) +
                           xr[2] * (xs[0] * xt[1] - xs[1] * xt[0]);
        if (!(det >= smallest)) smallest = det;  // takes NaN too
      }
    }
  }
  return smallest;
}

// [block][8][3][lanes]; lanes past the last element get the identity.
template <class T>
std::vector<T> trilinear_blocks(const mesh::Mesh& mesh, std::int64_t blocks, const std::vector<double>& points) {
  constexpr int lanes = simd::lanes<T>;
  std::vector<T> values(blocks * 24 * lanes);
  mesh.comm.together([&] {
    for (std::int64_t e = 0; e < blocks * lanes; ++e) {
      std::array<double, 24> map{};
      map[3] = map[7] = map[11] = 1;
      if (e < mesh.elements()) {
        map = mesh::trilinear_map(mesh.nodes.data() + 24 * e);
        if (const double jacobian = smallest_jacobian(map, points); !(jacobian > 0)) {
          std::ostringstream text;
          text << mesh.source << ": element " << mesh.element_ids[e] << " has a Jacobian of " << jacobian
               << "; all must be positive: its corners may be in the wrong order, or it is folded";
          throw std::runtime_error(text.str());
        }
      }
      for (int c = 0; c < 24; ++c) values[(e / lanes * 24 + c) * lanes + e % lanes] = static_cast<T>(map[c]);
    }
  });
  return values;
}

// Chunks of blocks [begin, end) for `threads`, by colour: greedily the first colour none of the chunk's entries has.
template <class T>
std::vector<std::vector<Range>> coloured_chunks(Range part, int threads, std::span<const std::int32_t> index,
                                                std::int64_t points_per_block, std::int64_t zero) {
  const std::int64_t blocks = part.end - part.begin;
  if (blocks == 0) return {};
  if (threads == 1) return {{part}};
  const std::int64_t chunks = std::min<std::int64_t>(blocks, 4 * threads);
  std::vector<std::uint64_t> seen(zero + 1, 0);  // per entry: the colours of the chunks that touch it
  std::vector<std::vector<Range>> colours;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const Range chunk{part.begin + blocks * c / chunks, part.begin + blocks * (c + 1) / chunks};
    const std::span<const std::int32_t> entries =
        index.subspan(chunk.begin * points_per_block, (chunk.end - chunk.begin) * points_per_block);
    std::uint64_t taken = 0;
    for (const std::int32_t entry : entries)
      if (entry != zero) taken |= seen[entry];
    if (taken == ~std::uint64_t{0})
      throw std::runtime_error(
          "poisson: too many elements meet at one point to share them between threads; "
          "use more ranks and OMP_NUM_THREADS=1");
    const std::size_t colour = __builtin_ctzll(~taken);
    if (colour == colours.size()) colours.emplace_back();
    colours[colour].push_back(chunk);
    for (const std::int32_t entry : entries)
      if (entry != zero) seen[entry] |= std::uint64_t{1} << colour;
  }
  return colours;
}

void append_pieces(Range range, int threads, std::vector<Range>& pieces) {
  constexpr std::int64_t most = 8192;  // entries a thread takes at once
  const std::int64_t step = threads == 1 ? std::max<std::int64_t>(range.end - range.begin, 1) : most;
  for (std::int64_t begin = range.begin; begin < range.end; begin += step)
    pieces.push_back({begin, std::min(range.end, begin + step)});
}

// interior: as in SimdBlocks, inside: entries of a block's inside points.
template <class T>
SimdPlan make_plan(const exchange::Assembly& assembly, const BlockSplit& split, std::int64_t points_per_block,
                   std::span<const std::int64_t> interior, std::int64_t inside, int threads) {
  SimdPlan plan;
  plan.threads = threads;
  plan.zero = assembly.local;
  plan.halo = {assembly.owned, assembly.local};
  const std::array<Range, 3> parts{Range{0, split.half}, {split.half, split.halo_end}, {split.halo_end, split.blocks}};
  for (int p = 0; p < 3; ++p)
    plan.chunks[p] = coloured_chunks<T>(parts[p], threads, assembly.index, points_per_block, plan.zero);

  std::vector<std::int64_t> chunk_of(split.blocks, 0);  // one for all where a single thread goes through them in turn
  if (threads > 1) {
    std::int64_t number = 0;
    for (const auto& colours : plan.chunks)
      for (const auto& chunks : colours)
        for (const Range& chunk : chunks) {
          std::fill(chunk_of.begin() + chunk.begin, chunk_of.begin() + chunk.end, number);
          ++number;
        }
  }

  plan.before.assign(split.blocks, {assembly.owned, assembly.owned});
  plan.ahead.assign(split.blocks + 1, assembly.owned);
  std::vector<std::vector<Range>> after(split.blocks);
  append_pieces({0, assembly.shared}, threads, plan.apart);
  std::vector<Range> between;
  for (auto run = assembly.runs.rbegin(); run != assembly.runs.rend(); ++run) plan.ahead[run->first_block] = run->begin;
  for (std::int64_t b = split.blocks - 1; b >= 0; --b)  // blocks that touch nothing first
    plan.ahead[b] = std::min(plan.ahead[b], plan.ahead[b + 1]);
  for (std::int64_t b = 0; b < split.blocks; ++b) plan.before[b] = {plan.ahead[b], plan.ahead[b]};
  for (const exchange::Assembly::Run& run : assembly.runs) {
    Range entries{run.begin, run.end};
    if (chunk_of[run.first_block] != chunk_of[run.last_block]) {
      if (!between.empty() && between.back().end == entries.begin)
        between.back().end = entries.end;
      else
        between.push_back(entries);
      continue;
    }
    if (run.first_block == run.last_block && interior[run.first_block] >= 0) {  // the kernel itself does its insides
      if (run.begin != interior[run.first_block])
        throw std::logic_error("poisson: the assembly does not number the inside points of a block first");
      entries.begin += inside;
      plan.before[run.first_block].begin += inside;
    }
    plan.before[run.first_block].end = entries.end;
    if (entries.begin < entries.end) after[run.last_block].push_back(entries);
  }
  for (const Range& range : between) append_pieces(range, threads, plan.apart);
  plan.after_begin.push_back(0);
  for (const std::vector<Range>& ranges : after) {
    plan.after.insert(plan.after.end(), ranges.begin(), ranges.end());
    plan.after_begin.push_back(static_cast<std::int64_t>(plan.after.size()));
  }
  return plan;
}

}  // namespace

template <class T>
const SimdPasses<T>& simd_passes(int order) {
  static const auto passes = all_passes<T>(std::make_integer_sequence<int, element::max_order>());
  if (order < 1 || order > element::max_order)
    throw std::invalid_argument("poisson: order " + std::to_string(order) + " is not in 1.." +
                                std::to_string(element::max_order));
  return *passes[order - 1];
}

BlockSplit split_blocks(std::span<const std::uint8_t> halo, int lanes) {
  const auto elements = static_cast<std::int64_t>(halo.size());
  std::vector<std::int64_t> inner, outer;
  for (std::int64_t e = 0; e < elements; ++e) (halo[e] != 0 ? outer : inner).push_back(e);
  const auto inside = static_cast<std::int64_t>(inner.size());

  BlockSplit split;
  split.blocks = (elements + lanes - 1) / lanes;
  split.half = inside / 2 / lanes;
  split.order.assign(inner.begin(), inner.begin() + split.half * lanes);
  split.order.insert(split.order.end(), outer.begin(), outer.end());
  // Inside elements fill the last block of the halo.
  const std::int64_t fill = std::min<std::int64_t>((lanes - static_cast<std::int64_t>(outer.size()) % lanes) % lanes,
                                                   inside - split.half * lanes);
  split.order.insert(split.order.end(), inner.begin() + split.half * lanes, inner.end());
  split.halo_end = split.half + (static_cast<std::int64_t>(outer.size()) + fill + lanes - 1) / lanes;
  return split;
}

template <class T>
std::vector<std::int64_t> SimdOperator<T>::execution_order(std::int64_t elements, int order) {
  const int n = order + 1;
  std::vector<int> points;  // of one element
  points.reserve(cube(n));
  const auto inside = [&](int i) { return i > 0 && i < n - 1; };
  for (const bool inner : {true, false})
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k)
          if ((inside(i) && inside(j) && inside(k)) == inner) points.push_back((k * n + j) * n + i);

  std::vector<std::int64_t> all;
  const std::int64_t blocks = (elements + lanes - 1) / lanes;
  all.reserve(blocks * points_per_block(order));
  for (std::int64_t b = 0; b < blocks; ++b)
    for (const int point : points)
      for (std::int64_t e = b * lanes; e < (b + 1) * lanes; ++e) all.push_back(e < elements ? e * cube(n) + point : -1);
  return all;
}

template <class T>
SimdOperator<T>::SimdOperator(const mesh::Mesh& mesh, int order, Geometry geometry, double lambda,
                              const exchange::Assembly& assembly, const BlockSplit& split,
                              std::shared_ptr<device::Device> device)
    : order_(order), geometry_(geometry), lambda_(static_cast<T>(lambda)) {
  const SimdPasses<T>& passes = simd_passes<T>(order);  // checks the order
  const std::int64_t blocks = split.blocks, n = order + 1, block_points = points_per_block(order);
  const std::int64_t inside = (n - 2) * (n - 2) * (n - 2) * lanes, surface = block_points - inside;
  if (blocks != (mesh.elements() + lanes - 1) / lanes ||
      static_cast<std::int64_t>(assembly.index.size()) != blocks * block_points)
    throw std::invalid_argument("poisson: the assembly is not of this mesh's points in execution order");
  if (geometry == Geometry::trilinear && !mesh.straight())
    throw std::invalid_argument("poisson: geometry = \"trilinear\" needs elements with straight edges, and " +
                                mesh.source + " has curved ones; use \"stored\"");
  if (!device->is_host()) throw std::invalid_argument("poisson: kernels = \"simd\" runs on the host only");

  const element::Gll& gll = element::gll(order);
  std::vector<double> transposed(n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) transposed[i * n + j] = gll.derivative[j * n + i];
  std::vector<T> tables;
  element::append_even_odd(gll.derivative, static_cast<int>(n), tables);
  const std::size_t forward = tables.size();
  element::append_even_odd(transposed, static_cast<int>(n), tables);
  const std::size_t points = tables.size();
  for (const double x : gll.points) tables.push_back(static_cast<T>(x));
  for (const double w : gll.weights) tables.push_back(static_cast<T>(w));
  for (const double w : gll.weights) tables.push_back(static_cast<T>(1 / w));
  tables_ = device::Array<T>(device, std::span<const T>(tables));

  if (geometry == Geometry::trilinear) {
    const std::vector<T> maps = trilinear_blocks<T>(mesh, blocks, gll.points);
    geometry_values_ = device::Array<T>(device, std::span<const T>(maps));
  } else {
    const std::vector<double> g = mesh::geometric_factors(mesh, order).g;
    const std::int64_t element_points = n * n * n;
    geometry_values_ = device::Array<T>(device, blocks * block_points * 6);
    geometry_values_.zero();
    T* to = geometry_values_.data();
    for (std::int64_t e = 0; e < mesh.elements(); ++e)
      for (std::int64_t i = 0; i < element_points * 6; ++i)
        to[(e / lanes * element_points * 6 + i) * lanes + e % lanes] = static_cast<T>(g[e * element_points * 6 + i]);
  }

  std::vector<std::int32_t> index(blocks * surface);
  interior_.resize(blocks);
  conflict_.assign(blocks, 0);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int32_t* from = assembly.index.data() + b * block_points;
    std::copy(from + inside, from + block_points, index.begin() + b * surface);
    for (std::int64_t v = 0; v < surface; v += lanes)
      for (int l = 1; l < lanes; ++l)
        for (int m = 0; m < l; ++m)
          if (from[inside + v + l] == from[inside + v + m] && from[inside + v + l] != assembly.local) conflict_[b] = 1;
    bool in_a_row = true;
    for (std::int64_t i = 1; i < inside; ++i) in_a_row = in_a_row && from[i] == from[0] + i;
    if (inside > 0 && in_a_row) {
      interior_[b] = from[0];
    } else {
      interior_[b] = -1 - static_cast<std::int64_t>(interior_index_.size());
      interior_index_.insert(interior_index_.end(), from, from + inside);
    }
  }
  index_ = device::Array<std::int32_t>(device, std::span<const std::int32_t>(index));

  plan_ = make_plan<T>(assembly, split, block_points, interior_, inside, omp_get_max_threads());
  for (int t = 0; t < plan_.threads; ++t) {
    const std::size_t bytes = scratch_vectors(order) * sizeof(Vec<T>);
    scratch_.emplace_back(static_cast<T*>(::operator new[](bytes, std::align_val_t{4096})));
  }
  const T* table = tables_.data();
  blocks_ = {table,
             table + forward,
             table + points,
             table + points + n,
             table + points + 2 * n,
             index_.data(),
             interior_.data(),
             interior_index_.data(),
             conflict_.data(),
             geometry_values_.data(),
             geometry == Geometry::trilinear ? passes.trilinear : passes.stored};
}

template <class T>
void SimdOperator<T>::begin(const T* x, T* y, int fields) const {
  const auto pieces = static_cast<std::int64_t>(plan_.apart.size());
  for (int f = 0; f < fields; ++f, x += plan_.zero + 1, y += plan_.zero + 1) {
#pragma omp parallel for num_threads(plan_.threads) if (plan_.threads > 1)
    for (std::int64_t i = 0; i < pieces; ++i) OperatorSweep<T>(x, y, lambda_).before(plan_.apart[i]);
    std::fill(y + plan_.halo.begin, y + plan_.halo.end, T{0});
    y[plan_.zero] = 0;
  }
}

template <class T>
void SimdOperator<T>::apply(const T* x, T* y, int part, int fields) const {
  static constexpr std::array<const char*, 3> names{"operator: first half", "operator: halo", "operator: second half"};
  const trace::Span span(names.at(part), trace::Category::cpu);
  const auto pass = simd_passes<T>(order_).apply;
  const std::int64_t entries = plan_.zero + 1;
  for_chunks(plan_.chunks[part], plan_.threads, [&](const Range& chunk, int thread) {
    if (fields == 1) {
      OperatorSweep<T> sweep(x, y, lambda_);
      pass(blocks_, plan_, sweep, chunk, scratch(thread));
      return;
    }
    for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
      for (int f = 0; f < fields; ++f) {
        OperatorSweep<T> sweep(x + f * entries, y + f * entries, lambda_);
        pass(blocks_, plan_, sweep, {b, b + 1}, scratch(thread));
      }
    }
  });
  for (int f = 0; f < fields; ++f) y[f * entries + plan_.zero] = 0;  // where masked points added theirs
}

template <class T>
std::map<std::string, std::int64_t> SimdOperator<T>::memory_bytes() const {
  const auto bytes = [](const auto& v) { return static_cast<std::int64_t>(v.size() * sizeof(v[0])); };
  return {{"geometry", static_cast<std::int64_t>(geometry_values_.bytes())},
          {"index", static_cast<std::int64_t>(index_.bytes()) + bytes(interior_) + bytes(interior_index_)},
          {"plan", bytes(plan_.before) + bytes(plan_.ahead) + bytes(plan_.after) + bytes(plan_.after_begin) +
                       bytes(plan_.apart) + bytes(conflict_)},
          {"scratch", static_cast<std::int64_t>(plan_.threads * scratch_vectors(order_) * sizeof(Vec<T>))}};
}

template const SimdPasses<double>& simd_passes<double>(int);
template const SimdPasses<float>& simd_passes<float>(int);
template class SimdOperator<double>;
template class SimdOperator<float>;

}  // namespace weft::poisson
