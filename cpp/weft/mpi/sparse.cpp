#include "weft/mpi/sparse.hpp"

#include <algorithm>
#include <limits>
#include <thread>

#include "weft/mpi/agreement.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::mpi {

namespace {

// The reduction of the agreement is also the barrier that ends the exchange.
Parcels exchanged(const Comm& comm, const Parcels& send, Agreement& agreement) {
  const trace::Span span("sparse exchange", trace::Category::mpi, 0, &comm.barrier_traffic());
  // A fresh tag per call: a rank that has finished may start the next exchange while another is still in this one.
  const int tag = comm.fresh_tag();
  struct Arrived {
    int rank;
    std::vector<std::int64_t> words;
  };
  std::vector<Arrived> arrived;
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < send.count(); ++i) {
    const auto part = send.part(i);
    if (send.ranks[i] == comm.rank()) {
      arrived.push_back({send.ranks[i], {part.begin(), part.end()}});
      continue;
    }
    // More words than an MPI count allows are split into several messages; MPI keeps their order between two ranks.
    constexpr std::size_t most = std::numeric_limits<int>::max();
    for (std::size_t from = 0; from == 0 || from < part.size(); from += most) {
      const auto piece = part.subspan(from, std::min(most, part.size() - from));
      const trace::Span message_span("parcel", trace::Category::mpi, static_cast<std::int64_t>(piece.size_bytes()));
      check(MPI_Issend(piece.data(), static_cast<int>(piece.size()), MPI_INT64_T, send.ranks[i], tag, comm.get(),
                       &requests.emplace_back()),
            "MPI_Issend");
    }
  }
  const std::span<std::int64_t> agreed = agreement.words();
  MPI_Request reduction = MPI_REQUEST_NULL;
  for (bool in_reduction = false;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, tag, comm.get(), &found, &message, &status), "MPI_Improbe");
    if (found != 0) {
      int count = 0;
      MPI_Get_count(&status, MPI_INT64_T, &count);
      auto& words = arrived.emplace_back(Arrived{status.MPI_SOURCE, {}}).words;
      words.resize(static_cast<std::size_t>(count));
      check(MPI_Mrecv(words.data(), count, MPI_INT64_T, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
      continue;
    }
    std::this_thread::yield();  // if ranks share cores, this lets the others send
    int done = 0;
    if (in_reduction) {
      check(MPI_Test(&reduction, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) break;
    } else {
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      if (done != 0) {
        check(MPI_Iallreduce(MPI_IN_PLACE, agreed.data(), static_cast<int>(agreed.size()), MPI_INT64_T, MPI_MIN,
                             comm.get(), &reduction),
              "MPI_Iallreduce");
        in_reduction = true;
      }
    }
  }
  agreement.require_success();
  std::stable_sort(arrived.begin(), arrived.end(), [](const Arrived& a, const Arrived& b) { return a.rank < b.rank; });
  Parcels result;
  std::size_t words = 0;
  for (const Arrived& a : arrived) words += a.words.size();
  result.words.reserve(words);
  for (Arrived& a : arrived) {
    if (!result.ranks.empty() && result.ranks.back() == a.rank) {  // another piece of the same part
      result.words.insert(result.words.end(), a.words.begin(), a.words.end());
      result.begin.back() = static_cast<std::int64_t>(result.words.size());
    } else {
      result.add(a.rank, a.words);
    }
    a.words = {};
  }
  return result;
}

}  // namespace

Parcels sparse_exchange(const Comm& comm, const Parcels& send) {
  Agreement agreement(comm, 1, {});
  return exchanged(comm, send, agreement);
}

Parcels sparse_exchange(const Comm& comm, const std::function<Parcels()>& work, std::span<std::int64_t> least) {
  Agreement agreement(comm, 1, least);
  Parcels send;
  agreement.run(0, [&] { send = work(); });  // nothing is sent if it fails
  return exchanged(comm, send, agreement);
}

}  // namespace weft::mpi
