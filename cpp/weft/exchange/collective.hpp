// What the schedules that are one MPI collective share.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "weft/exchange/schedule.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {

// MPI counts with an int; lengths and places are therefore told in units: of the largest power of two that divides
// those of all ranks. That is at least a value, and no rank has more values than an int can count.
class Unit {
 public:
  explicit Unit(const Route& route);  // (collective)
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  MPI_Datatype type() const { return type_; }
  int count(std::size_t bytes) const;  // std::length_error if an int cannot hold it

 private:
  std::size_t bytes_ = 1;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Lengths and places of the parts as MPI's v-collectives take them.
struct Arguments {
  explicit Arguments(std::size_t entries)
      : send_counts(entries), send_places(entries), receive_counts(entries), receive_places(entries) {}
  void set(std::size_t entry, const Part& part, const Unit& unit);
  std::vector<int> send_counts, send_places, receive_counts, receive_places;
};

// A collective that is started and finished over and over. Where MPI has persistent collectives (MPI-4), `request_` is
// one that the derived class made in its set-up; else its begin() makes one each time. Recorded as the messages it
// stands for: who waits for whom is the same.
class CollectiveTransfer : public Transfer {
 public:
  explicit CollectiveTransfer(const Route& route);
  ~CollectiveTransfer() override;

  void post() final {}
  void start() final;
  void finish() final;

 protected:
  virtual void begin() = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;

 private:
  std::int64_t bytes_ = 0;
  std::shared_ptr<const trace::Traffic> started_traffic_, waited_traffic_;  // of the same request
};

}  // namespace weft::exchange
