#include "weft/flow/filter.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "weft/device/vector.hpp"
#include "weft/element/gll.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::flow {
namespace {

// The inverse of a small matrix [n][n] by Gauss-Jordan elimination with pivoting.
std::vector<double> inverse(std::vector<double> a, int n) {
  std::vector<double> b(a.size());
  for (int i = 0; i < n; ++i) b[i * n + i] = 1;
  for (int column = 0; column < n; ++column) {
    int pivot = column;
    for (int row = column + 1; row < n; ++row)
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    for (int m = 0; m < n; ++m) {
      std::swap(a[column * n + m], a[pivot * n + m]);
      std::swap(b[column * n + m], b[pivot * n + m]);
    }
    const double scale = 1 / a[column * n + column];
    for (int m = 0; m < n; ++m) {
      a[column * n + m] *= scale;
      b[column * n + m] *= scale;
    }
    for (int row = 0; row < n; ++row) {
      if (row == column) continue;
      const double factor = a[row * n + column];
      for (int m = 0; m < n; ++m) {
        a[row * n + m] -= factor * a[column * n + m];
        b[row * n + m] -= factor * b[column * n + m];
      }
    }
  }
  return b;
}

}  // namespace

std::vector<double> filter_matrix(int order, const FilterOptions& options) {
  if (options.modes < 1 || options.modes > order - 1) {
    std::ostringstream text;
    text << "flow: a filter of " << options.modes << " modes at order " << order << "; allowed: 1 to " << order - 1
         << (order == 1 ? " (none: use a higher order)" : "");
    throw std::invalid_argument(text.str());
  }
  if (!(options.strength >= 0 && options.strength <= 1)) {
    std::ostringstream text;
    text << "flow: the filter's strength must be between 0 and 1, not " << options.strength;
    throw std::invalid_argument(text.str());
  }
  const int n = order + 1;
  const auto& x = element::gll(order).points;
  std::vector<double> basis(static_cast<std::size_t>(n) * n);  // [point][mode]
  for (int i = 0; i < n; ++i) {
    std::vector<double> legendre{1, x[i]};
    for (int k = 2; k < n; ++k)
      legendre.push_back(((2 * k - 1) * x[i] * legendre[k - 1] - (k - 1) * legendre[k - 2]) / k);
    basis[i * n] = (1 - x[i]) / 2;
    basis[i * n + 1] = (1 + x[i]) / 2;
    for (int k = 2; k < n; ++k) basis[i * n + k] = legendre[k] - legendre[k - 2];
  }
  const std::vector<double> modes = inverse(basis, n);
  std::vector<double> matrix(basis.size());
  for (int i = 0; i < n; ++i) {
    for (int m = 0; m < n; ++m) {
      // The identity minus what is removed from the highest modes, so that rows sum to 1 up to rounding.
      double sum = i == m ? 1 : 0;
      for (int k = order - options.modes + 1; k <= order; ++k) {
        const double place = static_cast<double>(k - order + options.modes) / options.modes;
        sum -= basis[i * n + k] * options.strength * place * place * modes[k * n + m];
      }
      matrix[i * n + m] = sum;
    }
  }
  return matrix;
}

template <class T>
Filter<T>::Filter(space::Space<T>& space, const FilterOptions& options) : space_(space) {
  const auto& device = space.device();
  std::vector<double> matrix;
  space.comm().together([&] { matrix = filter_matrix(space.order(), options); });
  matrix_ = device::Array<T>(device, std::vector<T>(matrix.begin(), matrix.end()));
  std::vector<std::int32_t> index = space.point_index();
  std::vector<std::uint8_t> written(space.entries());
  for (std::int32_t& entry : index)
    if (written[entry]++ != 0) {
      written[entry] = 1;
      entry = ~entry;
    }
  index_ = device::Array<std::int32_t>(device, index);
  filter_ = device->template kernel<T>("flow_filter", "flow_filter", {{"WEFT_N", std::to_string(space.order())}});
  replace_ = device->template kernel<T>("flow", "flow_replace");
}

template <class T>
void Filter<T>::apply(int fields, const T* mask, T* u, T* work, device::Stream& stream) {
  const trace::Span span("filter", trace::Category::cpu);
  space_.fill_halo(u, stream, fields);
  const auto n = static_cast<unsigned>(space_.order() + 1);
  const long stride = space_.entries(), owned = space_.unknowns();
  filter_(stream, space_.mesh().elements(), {n, n}, fields, stride, matrix_.data(), index_.data(), u, work);
  replace_(stream, device::vector_blocks(owned), device::vector_shape, owned, stride, fields, mask, work, u);
}

template class Filter<float>;
template class Filter<double>;

}  // namespace weft::flow
