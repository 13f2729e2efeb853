#include "weft/poisson/transfer.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/device/tiles.hpp"
#include "weft/element/gll.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

constexpr device::Shape gather_shape{256};
constexpr std::int64_t gather_chunk = 1024;  // as in kernels/gather.hpp
unsigned gather_blocks(std::int64_t dofs) { return static_cast<unsigned>((dofs + gather_chunk - 1) / gather_chunk); }

template <class T, int... I>
std::array<const LevelPasses<T>*, sizeof...(I)> all_levels(std::integer_sequence<int, I...>) {
  return {&LevelOrder<I + 1, T>::passes...};
}

}  // namespace

template <class T>
const LevelPasses<T>& level_passes(int order) {
  static const auto passes = all_levels<T>(std::make_integer_sequence<int, element::max_order>());
  return *passes.at(order - 1);
}
template const LevelPasses<float>& level_passes<float>(int);
template const LevelPasses<double>& level_passes<double>(int);

bool transfer_fits(int order, int scalar_bytes) {
  const int n = order + 1;
  return (2 * n * n * n + n * n) * scalar_bytes <= device::shared_bytes_of_a_block;
}

template <class T>
Transfer<T>::Transfer(Operator<T>& fine, Operator<T>& coarse)
    : fine_(fine), coarse_(coarse), coarse_points_(coarse.options().order + 1) {
  const Options& options = fine.options();
  if (options.storage != Storage::assembled || coarse.options().storage != Storage::assembled)
    throw std::invalid_argument("poisson: transfers between orders are for assembled storage");
  if (options.order <= coarse.options().order)
    throw std::invalid_argument("poisson: a coarse level of order " + std::to_string(coarse.options().order) +
                                " under one of order " + std::to_string(options.order));
  if (fine.simd() != nullptr)
    set_up_simd();
  else
    set_up_portable();
}

template <class T>
void Transfer<T>::set_up_portable() {
  const Options& options = fine_.options();
  const auto& device = options.device;
  if (!device->is_host() && !transfer_fits(options.order, sizeof(T)))
    throw std::invalid_argument("poisson: a multigrid cycle of order " + std::to_string(options.order) +
                                " in double needs more shared memory than a GPU's block has; use single precision");
  const auto n = static_cast<unsigned>(options.order + 1);
  shape_ = {n, n};
  const std::vector<double> j =
      element::interpolation(element::gll(coarse_.options().order).points, element::gll(options.order).points);
  interpolation_ = device::Array<T>(device, std::vector<T>(j.begin(), j.end()));

  // The first point that touches an owned degree of freedom speaks for it.
  std::vector<std::int32_t> place = fine_.index();
  std::vector<char> taken(fine_.unknowns());
  for (std::int32_t& dof : place) {
    const bool mine = dof < fine_.unknowns() && taken[dof] == 0;
    if (mine)
      taken[dof] = 1;
    else
      dof = -1;
  }
  place_ = device::Array<std::int32_t>(device, place);

  const std::vector<std::int32_t> index = coarse_index();
  const auto local = static_cast<std::int32_t>(coarse_.entries() - 1);
  std::vector<std::int32_t> offsets(local + 1);
  for (const std::int32_t dof : index)
    if (dof < local) ++offsets[dof + 1];
  for (std::int32_t g = 0; g < local; ++g) offsets[g + 1] += offsets[g];
  std::vector<std::int32_t> columns(offsets.back()), next(offsets.begin(), offsets.end() - 1);
  for (std::size_t p = 0; p < index.size(); ++p)
    if (index[p] < local) columns[next[index[p]]++] = static_cast<std::int32_t>(p);
  index_ = device::Array<std::int32_t>(device, index);
  offsets_ = device::Array<std::int32_t>(device, offsets);
  columns_ = device::Array<std::int32_t>(device, columns);
  points_ = device::Array<T>(device, index.size());

  const auto kernel = [&](const char* name) {
    return device->kernel<T>("transfer", name, {{"WEFT_N", std::to_string(options.order)}});
  };
  prolong_ = kernel("prolong");
  restrict_ = kernel("restrict_points");
  gather_ = device->kernel<T>("gather", "gather_points");
}

template <class T>
void Transfer<T>::set_up_simd() {
  constexpr int lanes = simd::lanes<T>;
  const SimdOperator<T>& op = *fine_.simd();
  const SimdBlocks<T>& d = op.blocks();
  const auto& device = fine_.options().device;
  const int n = op.order() + 1, c = coarse_points_;
  const std::int64_t blocks = fine_.split().blocks, surface = cube(n) - cube(n - 2);

  const std::vector<double> j = element::interpolation(element::gll(c - 1).points, element::gll(op.order()).points);
  std::vector<T> transposed(c * n);
  for (int i = 0; i < n; ++i)
    for (int m = 0; m < c; ++m) transposed[m * n + i] = static_cast<T>(j[i * c + m]);
  interpolation_ = device::Array<T>(device, transposed);

  std::vector<std::uint16_t> speaks(blocks * surface);
  std::vector<char> taken(fine_.unknowns());
  for (std::int64_t q = 0; q < blocks * surface; ++q) {
    for (int l = 0; l < lanes; ++l) {
      const std::int32_t dof = d.index[q * lanes + l];
      if (dof >= fine_.unknowns() || taken[dof] != 0) continue;
      taken[dof] = 1;
      speaks[q] |= static_cast<std::uint16_t>(1u << l);
    }
  }
  speaks_ = device::Array<std::uint16_t>(device, speaks);

  const std::vector<std::int32_t> points = coarse_index();
  const std::int64_t each = cube(c), zero = coarse_.entries() - 1;
  std::vector<std::int32_t> index(blocks * each * lanes, static_cast<std::int32_t>(zero));
  for (std::int64_t e = 0; e < fine_.elements(); ++e)
    for (std::int64_t p = 0; p < each; ++p) index[((e / lanes) * each + p) * lanes + e % lanes] = points[e * each + p];
  conflict_.assign(blocks, 0);
  for (std::int64_t q = 0; q < blocks * each; ++q) {
    const std::int32_t* at = index.data() + q * lanes;
    for (int l = 1; l < lanes; ++l)
      for (int m = 0; m < l; ++m)
        if (at[l] == at[m] && at[l] != zero) conflict_[q / each] = 1;
  }
  index_ = device::Array<std::int32_t>(device, index);
  simd_ = {c, interpolation_.data(), index_.data(), conflict_.data(), speaks_.data()};
}

template <class T>
std::vector<std::int32_t> Transfer<T>::coarse_index() const {
  const std::int64_t each = coarse_points_ * coarse_points_ * coarse_points_;
  std::unordered_map<std::int64_t, std::int64_t> places;  // the levels split their elements each in its own way
  const std::vector<std::int64_t>&theirs = coarse_.mesh().element_ids, &ours = fine_.mesh().element_ids;
  for (std::size_t e = 0; e < theirs.size(); ++e) places[theirs[e]] = static_cast<std::int64_t>(e);
  std::vector<std::int32_t> index(coarse_.index().size());
  for (std::size_t e = 0; e < ours.size(); ++e)
    std::copy_n(coarse_.index().begin() + places.at(ours[e]) * each, each,
                index.begin() + static_cast<std::int64_t>(e) * each);
  return index;
}

template <class T>
void Transfer<T>::prolong(T* x_c, T* x_f, bool add, device::Stream& stream) {
  const trace::Span span("prolong", trace::Category::cpu);
  auto& exchange = coarse_.exchange();
  exchange.start_halo(x_c, stream);
  exchange.finish_halo(x_c, stream);
  if (const SimdOperator<T>* op = fine_.simd()) {
    const auto pass = level_passes<T>(op->order()).prolong;
    for (const auto& part : op->plan().chunks)
      for_chunks(part, op->plan().threads, [&](const Range& chunk, int thread) {
        pass(op->blocks(), simd_, chunk, x_c, x_f, add, op->scratch(thread));
      });
    x_f[op->plan().zero] = 0;
    return;
  }
  prolong_(stream, static_cast<unsigned>(fine_.elements()), shape_, add ? 0 : 1, coarse_points_,
           static_cast<const T*>(interpolation_.data()), static_cast<const std::int32_t*>(index_.data()),
           static_cast<const std::int32_t*>(place_.data()), static_cast<const T*>(x_c), x_f);
}

template <class T>
void Transfer<T>::restrict_to(const T* r_f, T* r_c, device::Stream& stream) {
  const trace::Span span("restrict", trace::Category::cpu);
  auto& exchange = coarse_.exchange();
  const long local = coarse_.entries() - 1;
  if (const SimdOperator<T>* op = fine_.simd()) {
    std::fill_n(r_c, local, T{0});
    const auto pass = level_passes<T>(op->order()).restrict_to;
    for (const auto& part : op->plan().chunks)
      for_chunks(part, op->plan().threads, [&](const Range& chunk, int thread) {
        pass(op->blocks(), simd_, chunk, r_f, r_c, op->scratch(thread));
      });
    r_c[local] = 0;  // where masked points added theirs
  } else {
    restrict_(stream, static_cast<unsigned>(fine_.elements()), shape_, coarse_points_,
              static_cast<const T*>(interpolation_.data()), static_cast<const std::int32_t*>(place_.data()), r_f,
              points_.data());
    gather_(stream, gather_blocks(local), gather_shape, 0L, local, static_cast<const std::int32_t*>(offsets_.data()),
            static_cast<const std::int32_t*>(columns_.data()), static_cast<const T*>(points_.data()), T(0),
            static_cast<const T*>(nullptr), r_c);
  }
  exchange.start_gather(r_c, stream);
  exchange.finish_gather(r_c, exchange::Op::add, stream);
}

template <class T>
std::int64_t Transfer<T>::memory_bytes() const {
  return static_cast<std::int64_t>(interpolation_.bytes() + points_.bytes() + place_.bytes() + index_.bytes() +
                                   offsets_.bytes() + columns_.bytes() + speaks_.bytes() + conflict_.size());
}

template class Transfer<float>;
template class Transfer<double>;

}  // namespace weft::poisson
