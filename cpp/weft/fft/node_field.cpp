#include "weft/fft/node_field.hpp"

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/device/shared.hpp"
#include "weft/fft/meeting.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {
namespace {

// Distance between planes, in values: an odd number of whole cache lines.
template <class T>
std::int64_t plane_pitch(const Sizes& sizes) {
  constexpr std::int64_t line = 64, value = sizeof(std::complex<T>);
  const std::int64_t lines = (sizes.y * (sizes.x / 2 + 1) * value + line - 1) / line;
  return (lines | 1) * line / value;
}

}  // namespace

template <class T>
struct NodeField<T>::State {
  State(const Decomposition& decomposition_in, std::shared_ptr<device::Device> device_in, const mpi::Comm& comm_in)
      : decomposition(decomposition_in),
        device(std::move(device_in)),
        comm(comm_in),
        pitch(plane_pitch<T>(decomposition.sizes())) {}

  void check(bool one_node) const {
    const Grid& grid = decomposition.grid();
    if (!device->is_host() || grid.rows != 1 || !one_node || !decomposition.keeps_all_modes())
      throw std::invalid_argument(
          "transforms by planes on several ranks need a process grid of 1xP, all modes in x, and ranks that share a "
          "node's memory");
    if (const std::string problem = device->sharing_problem(); !problem.empty()) throw std::runtime_error(problem);
  }

  Piece<Complex> piece(const Box& box) const {
    const std::int64_t row = decomposition.modes_x();
    auto* const field = reinterpret_cast<Complex*>(memory.data());
    return {field + box.first[2] * pitch + box.first[1] * row, box, row, pitch};
  }

  // What is reported of a transform that starts on the given side.
  Meeting::Told told(Side first) const {
    return meeting->told([&](int from, int to) {
      const auto rows = [&](int rank) { return decomposition.middle(rank); };
      const auto planes = [&](int rank) { return decomposition.spectral(rank); };
      const Box common =
          first == Side::rows ? intersection(rows(from), planes(to)) : intersection(planes(from), rows(to));
      return common.size() * static_cast<std::int64_t>(sizeof(Complex));
    });
  }

  const Decomposition& decomposition;
  std::shared_ptr<device::Device> device;
  mpi::Comm comm;
  std::int64_t pitch;
  device::SharedMemory memory;  // allocated by rank 0
  std::unique_ptr<Meeting> meeting;
  std::optional<Side> last;  // the side on which the last transform began
  Meeting::Told from_rows, from_planes;
};

template <class T>
NodeField<T>::NodeField(const Decomposition& decomposition, std::shared_ptr<device::Device> device,
                        const mpi::Comm& comm)
    : state_(std::make_unique<State>(decomposition, std::move(device), comm)) {
  State& s = *state_;
  const bool one_node = static_cast<int>(comm.node().size()) == comm.size();
  device::SharedHandle handle;
  comm.together([&] {
    s.check(one_node);
    if (comm.rank() != 0) return;
    const std::int64_t values = s.pitch * decomposition.sizes().z;
    s.memory = device::SharedMemory::allocate(s.device, static_cast<std::size_t>(values) * sizeof(Complex));
    handle = s.memory.handle();
  });
  mpi::check(MPI_Bcast(&handle, sizeof handle, MPI_BYTE, 0, comm.get()), "MPI_Bcast");
  comm.together([&] {
    if (comm.rank() != 0) s.memory = device::SharedMemory::open(s.device, handle);
  });
  s.memory.stop_sharing();
  s.meeting = std::make_unique<Meeting>(s.device, comm);
  s.from_rows = s.told(Side::rows);
  s.from_planes = s.told(Side::planes);
}
template <class T>
NodeField<T>::~NodeField() = default;

template <class T>
Piece<std::complex<T>> NodeField<T>::rows() const {
  return state_->piece(state_->decomposition.middle());
}
template <class T>
Piece<std::complex<T>> NodeField<T>::planes() const {
  return state_->piece(state_->decomposition.spectral());
}

template <class T>
void NodeField<T>::begin(Side first, device::Stream& stream) {
  State& s = *state_;
  // The part that this rank writes now was last read by this rank, unless the last transform had the same direction.
  if (s.last == first) {
    const trace::Span span("until read", trace::Category::mpi);
    s.meeting->wait({}, stream);
  }
  s.last = first;
}

template <class T>
void NodeField<T>::pass(device::Stream& stream) {
  State& s = *state_;
  const trace::Span span("column exchange", trace::Category::mpi);
  const Meeting::Told& told = s.last == Side::rows ? s.from_rows : s.from_planes;
  s.meeting->publish(told, stream);
  s.meeting->wait(told, stream);
}

template <class T>
void NodeField<T>::end(device::Stream& stream) {
  state_->meeting->publish({}, stream);
}

template <class T>
std::int64_t NodeField<T>::bytes() const {
  const State& s = *state_;
  const Box planes = s.decomposition.spectral();
  return s.pitch * planes.count[2] * static_cast<std::int64_t>(sizeof(Complex));
}

template class NodeField<float>;
template class NodeField<double>;

}  // namespace weft::fft
