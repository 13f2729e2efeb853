#include "weft/poisson/transfer.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/device/host_compiler.hpp"
#include "weft/device/tiles.hpp"
#include "weft/element/gll.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
template <class T>
const LevelPasses<T>& level_passes(int order) {
  return device::host_table<LevelPasses<T>>("poisson/simd_order", "levels", order, device::type_name<T>());
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
    throw std::invalid_argument(
        "poisson: a multigrid cycle of order " + std::to_string(options.order) +
        " in double precision needs more shared memory than a GPU block has; use single precision");
  const auto n = static_cast<unsigned>(options.order + 1);
  shape_ = {n, n};
  const std::vector<double> j =
      element::interpolation(element::gll(coarse_.options().order).points, element::gll(options.order).points);
  interpolation_ = device::Array<T>(device, std::vector<T>(j.begin(), j.end()));

  // Each owned degree of freedom takes its value from the first point that touches it.
  std::vector<std::int32_t> place = fine_.space().numbering().index;
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
  index_ = device::Array<std::int32_t>(device, index);
  gather_.emplace(index, coarse_.entries(), device);

  const auto kernel = [&](const char* name) {
    return device->kernel<T>("transfer", name, {{"WEFT_N", std::to_string(options.order)}});
  };
  prolong_ = kernel("prolong");
  restrict_ = kernel("restrict_points");
}

template <class T>
void Transfer<T>::set_up_simd() {
  constexpr int lanes = simd::lanes<T>;
  const space::BlockIndex& d = fine_.space().blocks()->index();
  const auto& device = fine_.options().device;
  const int order = fine_.options().order, n = order + 1, c = coarse_points_;
  const std::int64_t blocks = fine_.space().numbering().split.blocks, surface = cube(n) - cube(n - 2);

  const std::vector<double> j = element::interpolation(element::gll(c - 1).points, element::gll(order).points);
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
  const std::int64_t each = cube(c);
  const auto zero = static_cast<std::int32_t>(coarse_.entries() - 1);
  const int threads = fine_.space().blocks()->plan().threads;
  std::vector<std::int32_t> index(blocks * each * lanes, zero);
  for (std::int64_t e = 0; e < fine_.space().elements(); ++e)
    for (std::int64_t p = 0; p < each; ++p) index[((e / lanes) * each + p) * lanes + e % lanes] = points[e * each + p];
  conflict_.assign(blocks, 0);
  for (std::int64_t q = 0; q < blocks * each; ++q)
    conflict_[q / each] |= space::conflict(index.data() + q * lanes, lanes, zero, threads);
  index_ = device::Array<std::int32_t>(device, index);
  simd_ = {c, interpolation_.data(), index_.data(), conflict_.data(), zero, speaks_.data()};
}

template <class T>
std::vector<std::int32_t> Transfer<T>::coarse_index() const {
  // Each level orders its elements in its own way.
  return fine_.space().numbering().template to_execution<std::int32_t>(coarse_.space().point_index());
}

template <class T>
void Transfer<T>::prolong(T* x_c, T* x_f, bool add, device::Stream& stream) {
  const trace::Span span("prolong", trace::Category::cpu);
  coarse_.space().fill_halo(x_c, stream);
  if (const SimdOperator<T>* op = fine_.simd()) {
    const auto pass = level_passes<T>(op->order()).prolong;
    for (const auto& part : op->plan().chunks)
      space::for_chunks(part, op->plan().threads, [&](const Range& chunk, int thread) {
        pass(op->elements().blocks, simd_, chunk, x_c, x_f, add, op->scratch(thread));
      });
    x_f[op->plan().zero] = 0;
    return;
  }
  prolong_(stream, fine_.space().elements(), shape_, !add, coarse_points_, interpolation_.data(), index_.data(),
           place_.data(), x_c, x_f);
}

template <class T>
void Transfer<T>::restrict_to(const T* r_f, T* r_c, device::Stream& stream) {
  const trace::Span span("restrict", trace::Category::cpu);
  const std::int64_t local = coarse_.entries() - 1;
  if (const SimdOperator<T>* op = fine_.simd()) {
    std::fill_n(r_c, local, T{0});
    const auto pass = level_passes<T>(op->order()).restrict_to;
    for (const auto& part : op->plan().chunks)
      space::for_chunks(part, op->plan().threads, [&](const Range& chunk, int thread) {
        pass(op->elements().blocks, simd_, chunk, r_f, r_c, op->scratch(thread));
      });
    r_c[local] = 0;  // where masked points added their values
  } else {
    restrict_(stream, fine_.space().elements(), shape_, coarse_points_, interpolation_.data(), place_.data(), r_f,
              gather_->values(1, stream));
    (*gather_)({0, coarse_.entries()}, r_c, 1, stream);
  }
  coarse_.space().add_halo(r_c, stream);
}

template <class T>
std::int64_t Transfer<T>::memory_bytes() const {
  auto bytes = static_cast<std::int64_t>(interpolation_.bytes() + place_.bytes() + index_.bytes() + speaks_.bytes() +
                                         conflict_.size());
  if (gather_)
    for (const auto& [name, value] : gather_->memory_bytes()) bytes += value;
  return bytes;
}

template class Transfer<float>;
template class Transfer<double>;

}  // namespace weft::poisson
