// Shared by the tests of the exchange: random ids, and the ids or values of all ranks on every rank.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "weft/mpi/comm.hpp"

using Ids = std::vector<std::int64_t>;

// The values of all ranks, on every rank (a reference implementation may be wasteful).
template <class T>
std::vector<std::vector<T>> of_all_ranks(const std::vector<T>& mine, const weft::mpi::Comm& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const int bytes = static_cast<int>(mine.size() * sizeof(T));
  std::vector<int> counts(ranks), begins(ranks + 1);
  MPI_Allgather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, comm.get());
  std::inclusive_scan(counts.begin(), counts.end(), begins.begin() + 1);
  std::vector<T> together(static_cast<std::size_t>(begins.back()) / sizeof(T));
  MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, together.data(), counts.data(), begins.data(), MPI_BYTE, comm.get());
  std::vector<std::vector<T>> all;
  auto next = together.begin();
  for (const int count : counts) {
    const auto begin = next;
    next += static_cast<std::ptrdiff_t>(static_cast<std::size_t>(count) / sizeof(T));
    all.emplace_back(begin, next);
  }
  return all;
}

// Random multisets, including ids <= 0. Of every five seeds, one has ids of 62 bits, one has empty ranks, and in one a
// single rank has everything.
inline Ids random_ids(unsigned seed, const weft::mpi::Comm& comm) {
  std::mt19937_64 random(seed * 1000 + static_cast<unsigned>(comm.rank()));
  const unsigned kind = seed % 5;
  std::size_t count = random() % 300;
  if (kind == 3 && comm.rank() % 2 == 1) count = 0;
  if (kind == 4 && comm.rank() != 0) count = 0;
  Ids ids(count);
  for (auto& id : ids) {
    id = static_cast<std::int64_t>(random() % 200) - 10;
    if (kind == 2 && id > 0) id = (id << 54) + id;
  }
  return ids;
}

// All kinds on one and two ranks; two of them on more ranks, which share cores, so that every message waits for a time
// slice.
inline std::vector<unsigned> seeds(const weft::mpi::Comm& comm) {
  if (comm.size() <= 2) return {0, 1, 2, 3, 4};
  return comm.size() % 2 == 1 ? std::vector<unsigned>{1, 3} : std::vector<unsigned>{2, 4};
}
