#include "weft/fft/work_fields.hpp"

#include <cstddef>
#include <cstring>

namespace weft::fft {

template <class T>
WorkFields<T>::WorkFields(const Decomposition& decomposition, std::shared_ptr<device::Device> device,
                          const mpi::Comm& comm, int count, bool shared)
    : decomposition_(decomposition) {
  struct Introduction {
    device::SharedHandle memory;
    std::int64_t values;
  };
  Introduction mine{{}, decomposition.field_values()};
  device::SharedMemory memory;
  comm.together([&] {
    const std::size_t all = static_cast<std::size_t>(count * mine.values);
    Complex* data = nullptr;
    if (shared) {
      memory = device::SharedMemory::allocate(device, all * sizeof(Complex));
      std::memset(memory.data(), 0, all * sizeof(Complex));
      mine.memory = memory.handle();
      data = reinterpret_cast<Complex*>(memory.data());
    } else {
      alone_ = device::Array<Complex>(device, all);
      alone_.zero();
      data = alone_.data();
    }
    for (int f = 0; f < count; ++f) own_.push_back(data + f * mine.values);
  });
  if (!shared) return;
  std::vector<Introduction> ranks(static_cast<std::size_t>(comm.size()));
  constexpr int bytes = sizeof(Introduction);
  mpi::check(MPI_Allgather(&mine, bytes, MPI_BYTE, ranks.data(), bytes, MPI_BYTE, comm.get()), "MPI_Allgather");
  comm.together([&] {
    for (const Introduction& rank : ranks) {
      const bool own = static_cast<int>(memory_.size()) == comm.rank();
      memory_.push_back(own ? std::move(memory) : device::SharedMemory::open(device, rank.memory));
      values_.push_back(rank.values);
    }
  });
  memory_[static_cast<std::size_t>(comm.rank())].stop_sharing();
  meeting_.emplace(device, comm);
}

template <class T>
Pieces<std::complex<T>> WorkFields<T>::planes_of_all(int number) const {
  Pieces<Complex> pieces;
  for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
    auto* const first = reinterpret_cast<Complex*>(memory_[rank].data());
    pieces.push_back(whole(first + number * values_[rank], decomposition_.spectral(static_cast<int>(rank))));
  }
  return pieces;
}

template <class T>
void WorkFields<T>::meet(Toward toward, int variables, device::Stream& stream) {
  const auto [told, fresh] = told_.try_emplace({toward, variables});
  if (fresh) {
    told->second = meeting_->told([&](int from, int to) {
      const int ends = toward == Toward::middle ? from : to, middle = toward == Toward::middle ? to : from;
      const Box common = intersection(decomposition_.spectral(ends), decomposition_.middle(middle));
      return common.size() * variables * static_cast<std::int64_t>(sizeof(Complex));
    });
  }
  const trace::Span span("column exchange", trace::Category::mpi);
  meeting_->publish(told->second, stream);
  meeting_->wait(told->second, stream);
}

template <class T>
std::int64_t WorkFields<T>::bytes() const {
  return static_cast<std::int64_t>(own_.size() * sizeof(Complex)) * decomposition_.field_values();
}

template class WorkFields<float>;
template class WorkFields<double>;

}  // namespace weft::fft
