#include "weft/bench/exchange_timing.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weft::bench {

struct ExchangeTiming::State {
  State(std::span<const std::int64_t> ids, const mpi::Comm& comm_in, std::shared_ptr<device::Device> device_in,
        int fields_in)
      : comm(comm_in),
        device(std::move(device_in)),
        fields(fields_in),
        connectivity(std::make_shared<const exchange::Connectivity>(ids, comm)),
        assembly(connectivity->points, connectivity->by_id, connectivity->sharing,
                 std::max<std::int64_t>(connectivity->points, 1), comm),
        stream(device) {
    comm.together([&] {
      const auto width = static_cast<std::size_t>(fields);
      dofs = device::Array<double>(device, static_cast<std::size_t>(assembly.local + 1) * width);
      points = device::Array<double>(device, static_cast<std::size_t>(connectivity->points) * width);
    });
  }

  mpi::Comm comm;
  std::shared_ptr<device::Device> device;
  int fields;
  std::shared_ptr<const exchange::Connectivity> connectivity;
  exchange::Assembly assembly;
  device::Stream stream;
  device::Array<double> dofs, points;  // shared by everything that is timed in turn; zero between the checks
};

namespace {

using State = ExchangeTiming::State;

// Exact in double precision, and different for neighbouring ids.
double value_of(std::int64_t id, int field) { return static_cast<double>(id % 1000003) * 16 + field; }

// An array [entry][field] of value(i, field) for all entries.
template <class F>
std::vector<double> table(std::int64_t entries, int fields, F&& value) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(entries * fields));
  for (std::int64_t i = 0; i < entries; ++i) {
    for (int field = 0; field < fields; ++field) values.push_back(value(static_cast<std::size_t>(i), field));
  }
  return values;
}

class OfState : public Timed {
 public:
  OfState(std::shared_ptr<State> state, const char* what) : Timed(state->comm), state_(std::move(state)), what_(what) {}

 protected:
  void wait_for_device() override { state_->stream.synchronize(); }
  // Uploads `before`, runs `work` once, and compares the result with `expected`. Leaves zeros, which stay zero however
  // often they are summed.
  template <class F>
  std::string compare(device::Array<double>& array, const std::vector<double>& before,
                      const std::vector<double>& expected, F&& work) {
    array.upload(before);
    work();
    state_->stream.synchronize();
    const std::vector<double> after = array.download();
    array.zero();
    const auto found = std::ranges::mismatch(after, expected).in1;
    if (found == after.end()) return {};
    const auto at = found - after.begin();
    return std::string("the ") + what_ + " delivered a wrong value to entry " + std::to_string(at / state_->fields) +
           ": " + std::to_string(*found) + " instead of " + std::to_string(expected[static_cast<std::size_t>(at)]);
  }

  std::shared_ptr<State> state_;
  const char* what_;
};

class Halo final : public OfState {
 public:
  Halo(std::shared_ptr<State> state, const exchange::Choice& choice)
      : OfState(std::move(state), "halo exchange"),
        exchange_(state_->assembly.pattern, state_->device, state_->comm, choice, state_->fields) {}

 private:
  void once() override {
    exchange_.start_halo(state_->dofs.data(), state_->stream);
    exchange_.finish_halo(state_->dofs.data(), state_->stream);
  }
  std::string wrong() override {
    const exchange::Assembly& a = state_->assembly;
    const auto all = table(a.local + 1, state_->fields, [&](std::size_t i, int field) {
      return i < a.dof_ids.size() ? value_of(a.dof_ids[i], field) : 0.0;
    });
    std::vector<double> before = all;
    std::fill(before.begin() + a.owned * state_->fields, before.end() - state_->fields, -1.0);
    return compare(state_->dofs, before, all, [&] { once(); });
  }

  exchange::Exchange<double> exchange_;
};

class Gather final : public OfState {
 public:
  Gather(std::shared_ptr<State> state, const exchange::Choice& choice)
      : OfState(std::move(state), "gather"),
        exchange_(state_->assembly.pattern, state_->device, state_->comm, choice, state_->fields) {}

 private:
  void once() override { gather(exchange::Op::add); }
  void gather(exchange::Op op) {
    exchange_.start_gather(state_->dofs.data(), state_->stream);
    exchange_.finish_gather(state_->dofs.data(), op, state_->stream);
  }
  // Every copy is lower than its owner's value by an amount that depends on its rank, so an owned entry with copies
  // must end up with the lowest of them.
  std::string wrong() override {
    const exchange::Assembly& a = state_->assembly;
    const int fields = state_->fields;
    const auto before = table(a.local + 1, fields, [&](std::size_t i, int field) {
      if (i >= a.dof_ids.size()) return 0.0;
      return value_of(a.dof_ids[i], field) - (static_cast<std::int64_t>(i) < a.owned ? 0 : state_->comm.rank() + 1);
    });
    std::vector<double> expected = before;
    std::size_t at = 0;
    for (const auto& n : a.pattern.neighbors) {
      for (std::int64_t k = 0; k < n.owned; ++k, ++at) {
        const auto i = static_cast<std::size_t>(a.pattern.owned_index[at]);
        for (int field = 0; field < fields; ++field) {
          double& e = expected[i * static_cast<std::size_t>(fields) + static_cast<std::size_t>(field)];
          e = std::min(e, value_of(a.dof_ids[i], field) - (n.rank + 1));
        }
      }
    }
    return compare(state_->dofs, before, expected, [&] { gather(exchange::Op::min); });
  }

  exchange::Exchange<double> exchange_;
};

class Whole final : public OfState {
 public:
  Whole(std::shared_ptr<State> state, const exchange::Choice& choice)
      : OfState(std::move(state), "gather-scatter"),
        gather_scatter_(state_->connectivity, state_->device, choice, state_->fields) {}

 private:
  void once() override { gather_scatter_.gather_scatter(state_->points.data(), exchange::Op::add, state_->stream); }
  // Every holder adds its rank to the value, so the result must be that of the lowest holder.
  std::string wrong() override {
    const exchange::Connectivity& c = *state_->connectivity;
    const auto points = static_cast<std::size_t>(c.points);
    std::vector<std::int64_t> id(points, 0);
    std::vector<int> lowest(points, 0);
    std::size_t shared = 0;
    for (std::size_t g = 0; g < c.by_id.ids.size(); ++g) {
      int holder = state_->comm.rank();
      if (shared < c.sharing.positions.size() && c.sharing.positions[shared] == static_cast<std::int32_t>(g)) {
        holder = c.sharing.holders[static_cast<std::size_t>(c.sharing.begin[shared++])];
      }
      for (auto k = c.by_id.begin[g]; k < c.by_id.begin[g + 1]; ++k) {
        const auto point = static_cast<std::size_t>(c.by_id.points[static_cast<std::size_t>(k)]);
        id[point] = c.by_id.ids[g];
        lowest[point] = holder;
      }
    }
    const auto values = [&](auto&& on_top) {
      return table(c.points, state_->fields,
                   [&](std::size_t i, int field) { return value_of(id[i], field) + (id[i] > 0 ? on_top(i) : 0); });
    };
    const int rank = state_->comm.rank();
    return compare(state_->points, values([&](std::size_t) { return rank; }),
                   values([&](std::size_t i) { return lowest[i]; }),
                   [&] { gather_scatter_.gather_scatter(state_->points.data(), exchange::Op::min, state_->stream); });
  }

  exchange::GatherScatter<double> gather_scatter_;
};

}  // namespace

ExchangeTiming::ExchangeTiming(std::span<const std::int64_t> ids, const mpi::Comm& comm,
                               std::shared_ptr<device::Device> device, int fields)
    : state_(std::make_shared<State>(ids, comm, std::move(device), fields)) {}
ExchangeTiming::~ExchangeTiming() = default;

std::vector<ExchangeTiming::Message> ExchangeTiming::messages(Operation operation) const {
  const std::int64_t entry = std::int64_t{8} * state_->fields;
  std::vector<Message> all;
  if (operation == Operation::gather_scatter) {
    // Every holder of an id sends its contribution to all others.
    const exchange::Sharing& sharing = state_->connectivity->sharing;
    std::map<int, std::int64_t> with;
    for (const std::int32_t holder : sharing.holders) {
      if (holder != state_->comm.rank()) with[holder] += entry;
    }
    for (const auto& [rank, bytes] : with) all.push_back({rank, bytes});
    return all;
  }
  for (const auto& n : state_->assembly.pattern.neighbors) {
    const std::int64_t entries = operation == Operation::halo ? n.owned : n.halo;
    if (entries > 0) all.push_back({n.rank, entries * entry});
  }
  return all;
}

exchange::Choice ExchangeTiming::tuned(Operation operation) {
  State& s = *state_;
  if (operation == Operation::gather_scatter) {
    return exchange::GatherScatter<double>(s.connectivity, s.device, "auto", s.fields).tuning().chosen;
  }
  const exchange::Exchange<double> both(s.assembly.pattern, s.device, s.comm, "auto", s.fields);
  return (operation == Operation::halo ? both.halo_tuning() : both.gather_tuning()).chosen;
}

std::unique_ptr<Timed> ExchangeTiming::timed(Operation operation, const exchange::Choice& choice) {
  switch (operation) {
    case Operation::halo:
      return std::make_unique<Halo>(state_, choice);
    case Operation::gather:
      return std::make_unique<Gather>(state_, choice);
    case Operation::gather_scatter:
      break;
  }
  return std::make_unique<Whole>(state_, choice);
}

}  // namespace weft::bench
