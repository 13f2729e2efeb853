#include "weft/maxwell/local_operator.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "weft/device/tiles.hpp"
#include "weft/element/gll.hpp"

namespace weft::maxwell {
namespace {

constexpr int threads_of_block_limit = 512;
constexpr int largest_order_of_points = 7;
constexpr device::Shape line_shape{256};
constexpr std::int64_t line_chunk = 1024;  // must match kernels/maxwell.hpp
std::int64_t line_blocks(std::int64_t items) { return (items + line_chunk - 1) / line_chunk; }

template <class T>
device::Array<T> converted(const std::shared_ptr<device::Device>& device, std::span<const double> values) {
  return device::Array<T>(device, std::vector<T>(values.begin(), values.end()));
}

}  // namespace

exchange::Layout trace_layout(const device::Device& device) {
  return device.is_host() ? exchange::Layout::points_major : exchange::Layout::fields_major;
}

Threads threads_for(int order) { return order <= largest_order_of_points ? Threads::points : Threads::columns; }

int elements_per_block(int order, Threads threads, int scalar_bytes) {
  const int n = order + 1;
  const int each = threads == Threads::points ? n * n * n : 2 * n * n;
  const int shared = scalar_bytes * (threads == Threads::points ? 6 * n * n * n : 12 * n * (n | 1));
  const int most = threads == Threads::points ? threads_of_block_limit : 256;
  return device::elements_per_block(each, shared, most);
}

template <class T>
LocalOperator<T>::LocalOperator(const Geometry& geometry, const Coefficients& coefficients, int order, Threads threads,
                                std::shared_ptr<device::Device> device)
    : elements_(static_cast<std::int64_t>(geometry.spacing.size())), device_(std::move(device)), threads_(threads) {
  if (threads_ == Threads::automatic) threads_ = device_->is_host() ? Threads::points : threads_for(order);
  if (!device_->is_host() && threads_ == Threads::points && order > largest_order_of_points)
    throw std::invalid_argument("maxwell: blocks with one thread per point support orders up to 7, not " +
                                std::to_string(order) + "; use columns");
  const element::Gll& gll = element::gll(order);
  const std::int64_t n = order + 1;
  face_ = n * n;
  points_ = face_ * n;
  derivative_ = converted<T>(device_, gll.derivative);
  weights_ = converted<T>(device_, gll.weights);
  jacobian_ = converted<T>(device_, geometry.jacobian);
  faces_ = converted<T>(device_, geometry.faces);
  media_ = converted<T>(device_, coefficients.media);
  fluxes_ = converted<T>(device_, coefficients.fluxes);
  partials_ = device::Array<double>(device_, 2 * line_blocks(elements_ * points_));
  std::ranges::transform(gll.derivative, matrix_.d, [](double value) { return static_cast<T>(value); });
  if (!device_->is_host()) tile_ = maxwell::elements_per_block(order, threads_, sizeof(T));
  shape_ = threads_ == Threads::points ? device::Shape{static_cast<unsigned>(n), static_cast<unsigned>(face_ * tile_)}
                                       : device::Shape{static_cast<unsigned>(2 * face_ * tile_)};
  const auto kernel = [&](const char* name, int tile = 1) {
    std::vector<device::Define> defines{{"WEFT_N", std::to_string(order)}};
    if (tile > 1) defines.push_back({"WEFT_TILE_ELEMENTS", std::to_string(tile)});
    return device_->kernel<T>("maxwell", name, std::move(defines));
  };
  traces_ = kernel("maxwell_traces");
  if (threads_ == Threads::points)
    curl_points_ = kernel("maxwell_curl_points", tile_);
  else
    curl_columns_ = kernel("maxwell_curl_columns", tile_);
  update_ = kernel("maxwell_update");
  energy_ = kernel("maxwell_energy");
}

template <class T>
void LocalOperator<T>::traces(const T* fields, exchange::View<T> traces, device::Stream& stream) const {
  const long count = elements_ * 6 * face_;
  traces_(stream, line_blocks(count), line_shape, count, faces_.data(), fields, traces.data, traces.entry,
          traces.field);
}

template <class T>
void LocalOperator<T>::curl(T a, T dt, const T* fields, T* residual, device::Stream& stream) const {
  const std::int64_t blocks = (elements_ + tile_ - 1) / tile_;
  if (threads_ == Threads::points)
    curl_points_(stream, blocks, shape_, elements_, derivative_.data(), jacobian_.data(), media_.data(), a, dt, fields,
                 residual);
  else
    curl_columns_(stream, blocks, shape_, elements_, matrix_, jacobian_.data(), media_.data(), a, dt, fields, residual);
}

template <class T>
void LocalOperator<T>::update(T dt, T b, exchange::View<const T> traces, T* fields, T* residual,
                              device::Stream& stream) const {
  const long count = elements_ * points_;
  update_(stream, line_blocks(count), line_shape, count, faces_.data(), fluxes_.data(), traces.data, traces.entry,
          traces.field, dt, b, fields, residual);
}

template <class T>
std::pair<double, double> LocalOperator<T>::energy(const T* fields, device::Stream& stream) const {
  const long count = elements_ * points_;
  energy_(stream, line_blocks(count), line_shape, count, weights_.data(), jacobian_.data(), media_.data(), fields,
          partials_.data());
  stream.synchronize();
  const std::vector<double> partials = partials_.download();
  double electric = 0, magnetic = 0;
  for (std::size_t b = 0; b < partials.size(); b += 2) {
    electric += partials[b];
    magnetic += partials[b + 1];
  }
  return {electric / 2, magnetic / 2};
}

template <class T>
std::map<std::string, std::int64_t> LocalOperator<T>::memory_bytes() const {
  return {{"geometry", static_cast<std::int64_t>(jacobian_.bytes())},
          {"face geometry and fluxes", static_cast<std::int64_t>(faces_.bytes() + fluxes_.bytes() + media_.bytes())}};
}

template class LocalOperator<float>;
template class LocalOperator<double>;

}  // namespace weft::maxwell
