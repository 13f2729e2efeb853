#include "weft/poisson/transfer.hpp"

#include <stdexcept>
#include <vector>

#include "weft/device/tiles.hpp"
#include "weft/element/gll.hpp"

namespace weft::poisson {
namespace {

constexpr device::Shape gather_shape{256};
constexpr std::int64_t gather_chunk = 1024;  // as in kernels/gather.hpp
unsigned gather_blocks(std::int64_t dofs) { return static_cast<unsigned>((dofs + gather_chunk - 1) / gather_chunk); }

}  // namespace

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
  const auto& device = options.device;
  if (!device->is_host() && !transfer_fits(options.order, sizeof(T)))
    throw std::invalid_argument("poisson: a multigrid cycle of order " + std::to_string(options.order) +
                                " in double needs more shared memory than a GPU's block has; use single precision");
  const auto n = static_cast<unsigned>(options.order + 1);
  shape_ = {n, n};
  const std::vector<double> j =
      element::interpolation(element::gll(coarse.options().order).points, element::gll(options.order).points);
  interpolation_ = device::Array<T>(device, std::vector<T>(j.begin(), j.end()));

  // The first point that touches an owned degree of freedom speaks for it.
  std::vector<std::int32_t> place = fine.point_index();
  std::vector<char> taken(fine.unknowns());
  for (std::int32_t& dof : place) {
    const bool mine = dof < fine.unknowns() && taken[dof] == 0;
    if (mine)
      taken[dof] = 1;
    else
      dof = -1;
  }
  place_ = device::Array<std::int32_t>(device, place);

  const std::vector<std::int32_t> index = coarse.point_index();
  const auto local = static_cast<std::int32_t>(coarse.entries() - 1);
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
    return device->kernel(
        {"transfer", name, {{"WEFT_N", std::to_string(options.order)}, {"WEFT_REAL", device::type_name<T>()}}});
  };
  prolong_ = kernel("prolong");
  restrict_ = kernel("restrict_points");
  gather_ = device->kernel({"gather", "gather_points", {{"WEFT_REAL", device::type_name<T>()}}});
}

template <class T>
void Transfer<T>::prolong(T* x_c, T* x_f, bool add, device::Stream& stream) {
  auto& exchange = coarse_.exchange();
  exchange.start_halo(x_c, stream);
  exchange.finish_halo(x_c, stream);
  prolong_(stream, static_cast<unsigned>(fine_.elements()), shape_, add ? 0 : 1, coarse_points_,
           static_cast<const T*>(interpolation_.data()), static_cast<const std::int32_t*>(index_.data()),
           static_cast<const std::int32_t*>(place_.data()), static_cast<const T*>(x_c), x_f);
}

template <class T>
void Transfer<T>::restrict_to(const T* r_f, T* r_c, device::Stream& stream) {
  auto& exchange = coarse_.exchange();
  restrict_(stream, static_cast<unsigned>(fine_.elements()), shape_, coarse_points_,
            static_cast<const T*>(interpolation_.data()), static_cast<const std::int32_t*>(place_.data()), r_f,
            points_.data());
  const long local = coarse_.entries() - 1;
  gather_(stream, gather_blocks(local), gather_shape, 0L, local, static_cast<const std::int32_t*>(offsets_.data()),
          static_cast<const std::int32_t*>(columns_.data()), static_cast<const T*>(points_.data()), T(0),
          static_cast<const T*>(nullptr), r_c);
  exchange.start_gather(r_c, stream);
  exchange.finish_gather(r_c, exchange::Op::add, stream);
}

template <class T>
std::int64_t Transfer<T>::memory_bytes() const {
  return static_cast<std::int64_t>(interpolation_.bytes() + points_.bytes() + place_.bytes() + index_.bytes() +
                                   offsets_.bytes() + columns_.bytes());
}

template class Transfer<float>;
template class Transfer<double>;

}  // namespace weft::poisson
