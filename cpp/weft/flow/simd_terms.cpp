#include "weft/flow/simd_terms.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "weft/device/host_compiler.hpp"
#include "weft/element/even_odd.hpp"
#include "weft/element/gauss.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/points.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {
namespace {

// [block][3][column j n + i][k][lanes]
template <class T>
std::vector<T> coordinate_blocks(const mesh::Mesh& mesh, int order, std::int64_t blocks) {
  constexpr int lanes = simd::lanes<T>;
  const int n = order + 1, points = n * n * n;
  const std::vector<double> x = mesh::point_coordinates(mesh, order);
  std::vector<T> values(blocks * 3 * points * lanes);
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    for (int p = 0; p < points; ++p)
      for (int c = 0; c < 3; ++c) {
        const int column = p % (n * n), k = p / (n * n);
        values[((e / lanes * 3 + c) * points + column * n + k) * lanes + e % lanes] =
            static_cast<T>(x[3 * (e * points + p) + c]);
      }
  return values;
}

}  // namespace

template <class T>
const SimdFunctions<T>& simd_functions(int order) {
  element::gll(order);  // checks the order
  return device::host_table<SimdFunctions<T>>("flow/simd_order", "functions", order, device::type_name<T>());
}

template <class T>
SimdTerms<T>::SimdTerms(space::Space<T>& space) : space_(space) {
  const int order = space.order(), n = order + 1;
  const mesh::Mesh mesh = space.numbering().executed_mesh();
  const auto& device = space.device();
  const element::Gll& gll = element::gll(order);
  const element::Dealiasing fine = element::dealiasing(order);
  const int m = fine.points;
  std::vector<double> transposed(n * n), conservative(n * n), project(n * m);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      transposed[i * n + j] = gll.derivative[j * n + i];
      conservative[i * n + j] = gll.weights[i] * gll.derivative[i * n + j] / gll.weights[j];
    }
    for (int j = 0; j < m; ++j) project[i * m + j] = fine.interpolation[j * n + i] * fine.weights[j];
  }
  std::vector<T> values;
  std::vector<std::size_t> begins;
  const auto matrix = [&](const std::vector<double>& a, int rows, int columns, bool symmetric) {
    begins.push_back(values.size());
    element::append_even_odd(a, rows, columns, symmetric, values);
  };
  const auto list = [&](const std::vector<double>& a) {
    begins.push_back(values.size());
    for (const double value : a) values.push_back(static_cast<T>(value));
  };
  matrix(gll.derivative, n, n, false);
  matrix(transposed, n, n, false);
  matrix(conservative, n, n, false);
  matrix(fine.interpolation, m, n, true);
  matrix(fine.derivative, m, n, false);
  matrix(project, n, m, true);
  list(gll.points);
  list(gll.weights);
  list(fine.nodes);
  values_ = device::Array<T>(device, values);
  const auto at = [&](int i) { return static_cast<const T*>(values_.data() + begins[i]); };
  tables_ = {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)};

  // The terms have no kernels for boxes.
  shapes_ = space.numbering().shapes;
  for (Shape& shape : shapes_) shape = std::max(shape, Shape::affine);
  if (blocks(Shape::curved) > 0)
    coordinates_ = device::Array<T>(device, coordinate_blocks<T>(mesh, order, space.numbering().split.blocks));
  const bool all_curved = blocks(Shape::curved) == space.numbering().split.blocks;
  geometry_ = {shapes_.data(), all_curved ? nullptr : space.trilinear_blocks().data(), coordinates_.data()};
  scratch_ = {space.blocks()->plan().threads, simd_functions<T>(order).scratch_values};
}

template <class T>
void SimdTerms<T>::begin(T* out, int outputs) const {
  const space::Plan& plan = space_.blocks()->plan();
  for (int i = 0; i < outputs; ++i) {
    T* y = out + i * space_.entries();
    for (const space::Range& range : plan.apart) std::fill(y + range.begin, y + range.end, T{0});
    std::fill(y + plan.halo.begin, y + plan.halo.end, T{0});
    y[plan.zero] = 0;
  }
}

template <class T>
void SimdTerms<T>::work(Term term, const T* u, const T* f, int count, T* out, int outputs, space::Part part) const {
  const space::Plan& plan = space_.blocks()->plan();
  const std::int64_t entries = space_.entries();
  const SimdCall<T> call{space_.blocks()->index(), plan, tables_, geometry_, u, f, out, entries, count};
  const auto function = simd_functions<T>(space_.order()).terms.at(static_cast<std::size_t>(term));
  for (int p = part.first; p <= part.last; ++p) {
    space::for_chunks(plan.chunks[p], plan.threads,
                      [&](const space::Range& chunk, int thread) { function(call, chunk, scratch_.of(thread)); });
    for (int i = 0; i < outputs; ++i) out[i * entries + plan.zero] = 0;  // the entry that unused lanes add to
  }
}

template <class T>
std::int64_t SimdTerms<T>::blocks(Shape shape) const {
  return std::ranges::count(shapes_, shape);
}

template <class T>
std::map<std::string, std::int64_t> SimdTerms<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  if (!coordinates_.empty()) bytes["coordinates of points"] = static_cast<std::int64_t>(coordinates_.bytes());
  bytes["scratch of terms"] = scratch_.bytes();
  return bytes;
}

template const SimdFunctions<double>& simd_functions<double>(int);
template const SimdFunctions<float>& simd_functions<float>(int);
template class SimdTerms<double>;
template class SimdTerms<float>;

}  // namespace weft::flow
