#include "weft/gs/handle.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "weft/exchange/hash.hpp"

namespace weft::gs {
namespace {

using exchange::Op;

// The neutral value of the operation.
template <class T>
T identity(Op op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case Op::add:
      return T{0};
    case Op::mul:
      return T{1};
    case Op::min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Op::max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  throw std::invalid_argument("there is no such operation");
}

int count(int k) {
  if (k < 0) throw std::invalid_argument("k is " + std::to_string(k) + "; it must be 0 or more");
  return k;
}

std::vector<std::int64_t> groups_of(std::span<const long long> ids) {
  if (ids.data() == nullptr && !ids.empty()) {
    throw std::invalid_argument("the ids of " + std::to_string(ids.size()) + " points are NULL");
  }
  std::vector<std::int64_t> groups(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == std::numeric_limits<long long>::min()) {
      throw std::invalid_argument("the id of point " + std::to_string(i) + " is " + std::to_string(ids[i]) +
                                  ", which has no absolute value");
    }
    groups[i] = ids[i] < 0 ? -ids[i] : ids[i];
  }
  return groups;
}

// By rank: the number of ids shared with it.
std::map<std::int32_t, std::int64_t> values_with(const exchange::Sharing& sharing, int me) {
  std::map<std::int32_t, std::int64_t> values;
  for (const std::int32_t holder : sharing.holders) {
    if (holder != me) ++values[holder];
  }
  return values;
}

// Calls each(value) for the values of the flagged points, always in the same order.
template <class T, class F>
void for_each_value(const Arrays& arrays, std::span<const std::int32_t> points, F&& each) {
  const auto width = static_cast<std::size_t>(arrays.interleaved ? arrays.k : 1);
  for (void* array : arrays.each) {
    for (const std::int32_t point : points) {
      T* values = static_cast<T*>(array) + static_cast<std::size_t>(point) * width;
      for (std::size_t f = 0; f < width; ++f) each(values[f]);
    }
  }
}

}  // namespace

Arrays interleaved(void* u, int k) { return {true, {u}, count(k)}; }
Arrays separate(void* const* u, int k) {
  if (u == nullptr && count(k) > 0) throw std::invalid_argument("the list of arrays is NULL");
  return {false, {u, u + count(k)}, k};
}
Arrays strided(void* u, std::ptrdiff_t stride, int k, Type type) {
  const std::ptrdiff_t bytes = type == Type::f64 || type == Type::i64 ? 8 : 4;
  Arrays arrays{false, {}, count(k)};
  for (int f = 0; f < k; ++f) arrays.each.push_back(u == nullptr ? u : static_cast<char*>(u) + f * stride * bytes);
  return arrays;
}

void leave_one(std::span<long long> ids, const mpi::Comm& comm) {
  // For each id of which it has an unflagged point, every rank draws a number; the smallest number over all ranks wins.
  // The number is a hash of id and rank, so that no rank wins more often than others.
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> groups, lots;
  std::vector<bool> candidate;
  std::shared_ptr<const exchange::Connectivity> connectivity;
  comm.together([&] {
    groups = groups_of(ids);
    lots.assign(ids.size(), none);
    candidate.assign(ids.size(), false);
  });
  connectivity = std::make_shared<const exchange::Connectivity>(groups, comm);
  comm.together([&] {
    const exchange::PointsById& by_id = connectivity->by_id;
    for (std::size_t g = 0; g < by_id.ids.size(); ++g) {
      for (std::int64_t p = by_id.begin[g]; p < by_id.begin[g + 1]; ++p) {
        const auto i = static_cast<std::size_t>(by_id.points[static_cast<std::size_t>(p)]);
        if (ids[i] <= 0) continue;
        // The low bits hold the rank, so that no two ranks draw the same number.
        const auto draw = exchange::hash(groups[i] ^ static_cast<std::int64_t>(exchange::hash(comm.rank()) >> 1));
        lots[i] = static_cast<std::int64_t>(draw >> 33 << 31) | comm.rank();
        candidate[i] = true;
        break;
      }
    }
  });
  const auto host = device::open("host");
  std::vector<std::int64_t> least = lots;
  exchange::GatherScatter<std::int64_t> gs(connectivity, host, exchange::Choice{});  // used once: not worth tuning
  device::Stream stream(host);
  gs.gather_scatter(least.data(), Op::min, stream);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!candidate[i] || lots[i] != least[i]) ids[i] = -groups[i];
  }
}

Handle::Handle(std::span<const long long> ids, const mpi::Comm& comm, bool unique, const std::string& exchange)
    : comm_(comm), device_(device::open("host")), exchange_(exchange), stream_(device_) {
  std::vector<long long> one;
  if (unique) {
    comm_.together([&] { one.assign(ids.begin(), ids.end()); });
    leave_one(one, comm_);
    ids = one;
  }
  std::vector<std::int64_t> groups;
  comm_.together([&] {
    groups = groups_of(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0) flagged_.push_back(static_cast<std::int32_t>(i));
    }
  });
  connectivity_ = std::make_shared<exchange::Connectivity>(groups, comm_);
  for (const auto& [rank, values] : values_with(connectivity_->sharing, comm_.rank())) shared_.push_back(values);
  groups = {};
  of<double>(1);  // the most common one, so that its cost is part of the setup
  connectivity_->forget_points();
}

template <class T>
exchange::GatherScatter<T>& Handle::of(int k) {
  ByCount<T>* made = nullptr;
  if constexpr (std::is_same_v<T, double>) made = &f64_;
  if constexpr (std::is_same_v<T, float>) made = &f32_;
  if constexpr (std::is_same_v<T, std::int32_t>) made = &i32_;
  if constexpr (std::is_same_v<T, std::int64_t>) made = &i64_;
  const auto found = made->find(k);
  if (found != made->end()) return found->second;
  return made->emplace(k, exchange::GatherScatter<T>(connectivity_, device_, exchange_, k)).first->second;
}

template <class T>
void Handle::start_as(const Call& call) {
  if (!flagged_.empty()) {
    if (call.transpose) {
      kept_.resize(flagged_.size() * static_cast<std::size_t>(call.arrays.k) * sizeof(T));
      auto* kept = reinterpret_cast<T*>(kept_.data());
      for_each_value<T>(call.arrays, flagged_, [&](const T& value) { *kept++ = value; });
    } else {
      const T neutral = identity<T>(call.op);
      for_each_value<T>(call.arrays, flagged_, [&](T& value) { value = neutral; });
    }
  }
  exchange::GatherScatter<T>& gs = of<T>(call.arrays.k);
  if (call.arrays.interleaved) {
    gs.start(static_cast<T*>(call.arrays.each.front()), call.op, stream_);
    return;
  }
  std::vector<T*> arrays;
  for (void* array : call.arrays.each) arrays.push_back(static_cast<T*>(array));
  gs.start(arrays, call.op, stream_);
}

template <class T>
void Handle::finish_as(const Call& call) {
  of<T>(call.arrays.k).finish(stream_);
  if (call.transpose && !flagged_.empty()) {
    const auto* kept = reinterpret_cast<const T*>(kept_.data());
    for_each_value<T>(call.arrays, flagged_, [&](T& value) { value = *kept++; });
  }
}

std::int64_t Handle::start(Call call) {
  if (call.arrays.k > 0 && connectivity_->points > 0 && std::ranges::count(call.arrays.each, nullptr) > 0) {
    throw std::invalid_argument("an array is NULL");
  }
  if (active_) finish();
  if (call.arrays.k == 0) return ++started_;
  switch (call.type) {
    case Type::f64:
      start_as<double>(call);
      break;
    case Type::f32:
      start_as<float>(call);
      break;
    case Type::i32:
      start_as<std::int32_t>(call);
      break;
    case Type::i64:
      start_as<std::int64_t>(call);
      break;
  }
  active_ = std::move(call);
  return ++started_;
}

void Handle::finish(std::int64_t number) {
  if (!active_ || number != started_) return;
  const Call call = std::move(*active_);
  active_.reset();
  switch (call.type) {
    case Type::f64:
      return finish_as<double>(call);
    case Type::f32:
      return finish_as<float>(call);
    case Type::i32:
      return finish_as<std::int32_t>(call);
    case Type::i64:
      return finish_as<std::int64_t>(call);
  }
}

std::size_t Handle::index_bytes() const {
  std::size_t bytes = connectivity_->index_bytes() + flagged_.capacity() * sizeof(std::int32_t);
  const auto add = [&](const auto& made) {
    for (const auto& [k, gs] : made) bytes += gs.index_bytes();
  };
  add(f64_);
  add(f32_);
  add(i32_);
  add(i64_);
  return bytes;
}

}  // namespace weft::gs
