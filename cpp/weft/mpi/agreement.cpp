#include "weft/mpi/agreement.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>

#include "weft/trace/recorder.hpp"

namespace weft::mpi {

void Agreement::run(std::size_t i, const std::function<void()>& work) {
  std::string& text = texts_[i];
  try {
    work();
  } catch (const std::bad_alloc&) {
    text = "not enough memory";
  } catch (const std::exception& error) {
    text = error.what();
    if (text.empty()) text = "an exception without a text";
  } catch (...) {
    text = "an exception of unknown type";
  }
}

std::span<std::int64_t> Agreement::words() {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const bool failed = !texts_[i].empty();
    words_[2 * i] = failed ? comm_.rank() : comm_.size();
    words_[2 * i + 1] = failed ? 1 : 0;
  }
  std::ranges::copy(least_, words_.end() - std::ssize(least_));
  return words_;
}

std::vector<std::string> Agreement::errors() {
  std::copy(words_.end() - std::ssize(least_), words_.end(), least_.begin());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    std::string& text = texts_[i];
    const int culprit = static_cast<int>(words_[2 * i]);
    if (culprit == comm_.size()) continue;
    int length = static_cast<int>(text.size());
    check(MPI_Bcast(&length, 1, MPI_INT, culprit, comm_.get()), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(length));
    check(MPI_Bcast(text.data(), length, MPI_CHAR, culprit, comm_.get()), "MPI_Bcast");
    if (words_[2 * i + 1] == 0) text = "rank " + std::to_string(culprit) + ": " + text;
  }
  return texts_;
}

void Agreement::require_success() {
  for (const std::string& error : errors()) {
    if (!error.empty()) throw CollectiveError(error);
  }
}

namespace {

void agree(const Comm& comm, std::span<std::int64_t> words) {
  trace::Traffic traffic;
  traffic.group = comm.group();
  traffic.collective = "allreduce";
  const auto shared = std::make_shared<const trace::Traffic>(traffic);
  const trace::Span span("agree", trace::Category::mpi, static_cast<std::int64_t>(words.size_bytes()), &shared);
  check(MPI_Allreduce(MPI_IN_PLACE, words.data(), static_cast<int>(words.size()), MPI_INT64_T, MPI_MIN, comm.get()),
        "MPI_Allreduce");
}

}  // namespace

void together(const Comm& comm, const std::function<void()>& work, std::span<std::int64_t> least) {
  Agreement agreement(comm, 1, least);
  agreement.run(0, work);
  agree(comm, agreement.words());
  agreement.require_success();
}

std::vector<std::string> attempt(const Comm& comm, std::span<const std::function<void()>> works,
                                 std::span<std::int64_t> least) {
  Agreement agreement(comm, works.size(), least);
  for (std::size_t i = 0; i < works.size(); ++i) agreement.run(i, works[i]);
  agree(comm, agreement.words());
  return agreement.errors();
}

}  // namespace weft::mpi
