// The C interface and gslib's entry points against a serial reference that has all ids and values.
#include "weft/gs/gs.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <type_traits>

#include "all_ids.hpp"

using weft::mpi::Comm;
using LongIds = std::vector<long long>;

extern "C" {
struct gslib_comm {
  unsigned id, np;
  MPI_Comm c;
};
void* gslib_gs_setup(const long long* id, unsigned n, const gslib_comm* comm, int unique, int method, int verbose);
void gslib_gs(void* u, int dom, int op, unsigned transpose, void* gs, void* buffer);
void gslib_gs_vec(void* u, unsigned k, int dom, int op, unsigned transpose, void* gs, void* buffer);
void gslib_gs_many(void* const* u, unsigned k, int dom, int op, unsigned transpose, void* gs, void* buffer);
void gslib_igs(void* u, int dom, int op, unsigned transpose, void* gs, void* buffer, int* wait);
void gslib_igs_many(void* const* u, unsigned k, int dom, int op, unsigned transpose, void* gs, void* buffer, int* wait);
void gslib_gs_wait(int wait);
void gslib_gs_free(void* gs);
void* gslib_gs_hf2c(int handle);
void gslib_pw_data_nmsg(void* gs, int* n);
void fgslib_gs_setup_(int* handle, const long long* id, const int* n, const MPI_Fint* comm, const int* np);
void fgslib_gs_op_(const int* handle, void* u, const int* dom, const int* op, const int* transpose);
void fgslib_gs_op_vec_(const int* handle, void* u, const int* k, const int* dom, const int* op, const int* transpose);
void fgslib_gs_op_many_(const int* handle, void* u1, void* u2, void* u3, void* u4, void* u5, void* u6, const int* k,
                        const int* dom, const int* op, const int* transpose);
void fgslib_gs_op_fields_(const int* handle, void* u, const int* stride, const int* k, const int* dom, const int* op,
                          const int* transpose);
void fgslib_igs_op_(const int* handle, void* u, const int* dom, const int* op, const int* transpose, int* wait);
void fgslib_gs_op_wait_(const int* wait);
void fgslib_gs_unique_(long long* id, const int* n, const MPI_Fint* comm, const int* np);
void fgslib_gs_free_(const int* handle);
void gs_setup_(int* handle, const long long* id, const int* n, const MPI_Fint* comm, const int* np);
void gs_op_(const int* handle, void* u, const int* dom, const int* op, const int* transpose);
void gs_op_vec_(const int* handle, void* u, const int* k, const int* dom, const int* op, const int* transpose);
void gs_op_many_(const int* handle, void* u1, void* u2, void* u3, void* u4, void* u5, void* u6, const int* k,
                 const int* dom, const int* op, const int* transpose);
void gs_op_fields_(const int* handle, void* u, const int* stride, const int* k, const int* dom, const int* op,
                   const int* transpose);
void gs_free_(const int* handle);
}

namespace {

// Random ids, about a third of them flagged.
LongIds flagged_ids(unsigned seed, const Comm& comm) {
  std::mt19937_64 random(seed * 31 + static_cast<unsigned>(comm.rank()));
  LongIds ids;
  for (const std::int64_t id : random_ids(seed, comm)) {
    const std::int64_t positive = std::max<std::int64_t>(id, 0);
    ids.push_back(seed % 2 == 0 && random() % 3 == 0 ? -positive : positive);
  }
  return ids;
}

template <class T>
T combined(int op, T a, T b) {
  switch (op) {
    case WEFT_GS_ADD:
      return a + b;
    case WEFT_GS_MUL:
      return a * b;
    case WEFT_GS_MIN:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

// The ids of this rank and, gathered once, of all ranks.
struct Points {
  const LongIds& ids;
  const Comm& comm;
  std::vector<LongIds> all = of_all_ranks(ids, comm);
};

// The behaviour that gslib's manual describes, for one field: flagged points take no part in the combination (transpose
// 0) or do not receive it (transpose 1).
template <class T>
std::vector<T> reference(const Points& points, const std::vector<T>& values, int op, bool transpose) {
  const auto& [ids, comm, all_ids] = points;
  const auto all_values = of_all_ranks(values, comm);
  std::map<long long, T> result;
  for (std::size_t r = 0; r < all_ids.size(); ++r) {
    for (std::size_t i = 0; i < all_ids[r].size(); ++i) {
      const long long id = all_ids[r][i];
      if (id == 0 || (id < 0 && !transpose)) continue;
      const auto [at, fresh] = result.try_emplace(std::abs(id), all_values[r][i]);
      if (!fresh) at->second = combined(op, at->second, all_values[r][i]);
    }
  }
  std::vector<T> expected = values;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == 0 || (ids[i] < 0 && transpose)) continue;
    const auto at = result.find(std::abs(ids[i]));
    if (at != result.end()) expected[i] = at->second;  // otherwise the whole group is flagged: see `without_unflagged`
  }
  return expected;
}

// Groups with only flagged points receive the neutral value of the operation; the reference leaves them unchanged.
std::vector<bool> without_unflagged(const Points& points) {
  std::map<long long, bool> any;
  for (const auto& rank : points.all) {
    for (const long long id : rank) any[std::abs(id)] = any[std::abs(id)] || id > 0;
  }
  std::vector<bool> result;
  for (const long long id : points.ids) result.push_back(id != 0 && !any[std::abs(id)]);
  return result;
}

template <class T>
std::vector<T> small_values(std::size_t count, int op, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& v : values) v = static_cast<T>(op == WEFT_GS_MUL ? (random() % 2 == 0 ? 1 : -1) : int(random() % 41) - 20);
  return values;
}

template <class T>
constexpr weft_gs_type type_of() {
  if constexpr (std::is_same_v<T, double>) return WEFT_GS_DOUBLE;
  if constexpr (std::is_same_v<T, float>) return WEFT_GS_FLOAT;
  if constexpr (std::is_same_v<T, int>) return WEFT_GS_INT;
  return WEFT_GS_LONG_LONG;
}

template <class T>
void expect_field(const Points& points, const std::vector<T>& got, const std::vector<T>& before, int op,
                  bool transpose) {
  const LongIds& ids = points.ids;
  const std::vector<T> expected = reference(points, before, op, transpose);
  const std::vector<bool> neutral = without_unflagged(points);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (neutral[i] && !transpose) {
      EXPECT_TRUE(op != WEFT_GS_ADD || got[i] == T{0});
      EXPECT_TRUE(op != WEFT_GS_MUL || got[i] == T{1});
      EXPECT_TRUE(op != WEFT_GS_MIN || got[i] > T{20});
      EXPECT_TRUE(op != WEFT_GS_MAX || got[i] < T{-20});
    } else {
      EXPECT_EQ(got[i], expected[i]) << "point " << i << ", id " << ids[i];
    }
  }
}

}  // namespace

// Used in turn, so that every type is tested with all of them. The first is tuned for each type and number of fields,
// which takes long if ranks share processors.
constexpr const char* exchanges[] = {nullptr,           "pairwise:direct", "alltoallv:direct",
                                     "neighbor:direct", "crystal:direct",  "pairwise:staged"};

template <class T>
class GsOf : public testing::Test {};
using Types = testing::Types<double, float, int, long long>;
TYPED_TEST_SUITE(GsOf, Types);

TYPED_TEST(GsOf, ops_on_one_array_on_vectors_on_many_arrays_and_on_strided_fields_agree_with_the_reference) {
  using T = TypeParam;
  const Comm comm;
  for (unsigned seed = 0; seed < 6; ++seed) {
    const LongIds ids = flagged_ids(seed, comm);
    const Points points{ids, comm};
    const std::size_t n = ids.size();
    const char* const exchange = exchanges[(seed + sizeof(T) + std::is_integral_v<T>) % std::size(exchanges)];
    weft_gs* gs = weft_gs_setup(ids.data(), n, MPI_COMM_WORLD, 0, exchange);
    for (const int op : {WEFT_GS_ADD, WEFT_GS_MUL, WEFT_GS_MIN, WEFT_GS_MAX}) {
      const auto operation = static_cast<weft_gs_operation>(op);
      const int k = seed % 4 == 1 ? 6 : 1 + static_cast<int>(seed % 3);
      const bool transpose = (seed + static_cast<unsigned>(op)) % 2 == 1;
      std::vector<std::vector<T>> before, many;
      for (int f = 0; f < k; ++f) {
        before.push_back(small_values<T>(n, op, seed * 97 + static_cast<unsigned>(16 * f + comm.rank())));
      }
      many = before;
      const std::size_t stride = n + seed % 3;  // with and without gaps between the fields
      std::vector<T> vec(n * static_cast<std::size_t>(k)), fields(stride * static_cast<std::size_t>(k), T{99});
      for (std::size_t f = 0; f < before.size(); ++f) {
        for (std::size_t i = 0; i < n; ++i) {
          vec[i * before.size() + f] = fields[f * stride + i] = before[f][i];
        }
      }
      std::vector<void*> pointers;
      for (auto& array : many) pointers.push_back(array.data());
      if (seed % 2 == 0) {
        weft_gs_op_vec(gs, vec.data(), k, type_of<T>(), operation, transpose);
        weft_gs_op_many(gs, pointers.data(), k, type_of<T>(), operation, transpose);
      } else {
        weft_gs_start_vec(gs, vec.data(), k, type_of<T>(), operation, transpose);
        weft_gs_start_many(gs, pointers.data(), k, type_of<T>(), operation, transpose);  // finishes the other call
        weft_gs_wait(gs);
        weft_gs_wait(gs);  // nothing remains to be done
      }
      weft_gs_op_fields(gs, fields.data(), stride, k, type_of<T>(), operation, transpose);
      for (std::size_t f = 0; f < before.size(); ++f) {
        std::vector<T> of_vec, of_fields;
        for (std::size_t i = 0; i < n; ++i) {
          of_vec.push_back(vec[i * before.size() + f]);
          of_fields.push_back(fields[f * stride + i]);
        }
        expect_field(points, many[f], before[f], op, transpose);
        EXPECT_EQ(of_vec, many[f]);
        EXPECT_EQ(of_fields, many[f]);
        for (std::size_t i = n; i < stride; ++i) EXPECT_EQ(fields[f * stride + i], T{99});
      }
      std::vector<T> one = before[0];
      weft_gs_op(gs, one.data(), type_of<T>(), operation, transpose);
      EXPECT_EQ(one, many[0]);
    }
    weft_gs_free(gs);
  }
}

TEST(Gs, unique_leaves_one_point_of_every_group_that_had_one_unflagged) {
  const Comm comm;
  for (unsigned seed = 0; seed < 4; ++seed) {
    LongIds ids = flagged_ids(seed, comm);
    const LongIds before = ids;
    weft_gs_unique(ids.data(), ids.size(), MPI_COMM_WORLD);
    const std::vector<bool> none = without_unflagged({before, comm});
    const Points points{ids, comm};
    std::map<long long, int> left;
    for (const auto& rank : points.all) {
      for (const long long id : rank) left[std::abs(id)] += id > 0 ? 1 : 0;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(std::abs(ids[i]), std::abs(before[i]));
      EXPECT_TRUE(before[i] >= 0 || ids[i] < 0) << "a flagged point was chosen";
      EXPECT_TRUE(ids[i] == 0 || left[std::abs(ids[i])] == (none[i] ? 0 : 1));
    }
    // setup with unique does the same and leaves the ids unchanged: Q copies the one value to all points, its transpose
    // sums to it
    LongIds untouched = before;
    weft_gs* gs = weft_gs_setup(untouched.data(), untouched.size(), MPI_COMM_WORLD, 1, "pairwise:direct");
    EXPECT_EQ(untouched, before);
    std::vector<double> values = small_values<double>(ids.size(), WEFT_GS_ADD, seed + 5);
    std::vector<double> expected = values, transposed = values;
    weft_gs_op(gs, values.data(), WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
    expect_field(points, values, expected, WEFT_GS_ADD, false);
    expected = transposed;
    weft_gs_op(gs, transposed.data(), WEFT_GS_DOUBLE, WEFT_GS_ADD, 1);
    expect_field(points, transposed, expected, WEFT_GS_ADD, true);
    weft_gs_free(gs);
  }
}

TEST(Gs, arrays_wherever_they_lie_and_with_more_groups_than_one_part_of_the_index_get_what_each_gets_alone) {
  const Comm comm;
  constexpr std::size_t groups = 40'000, n = 2 * groups;  // a thread's part is 85 x 384 groups
  LongIds ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(1 + static_cast<long long>(i % groups) * 8 + comm.rank());
  weft_gs* gs = weft_gs_setup(ids.data(), ids.size(), MPI_COMM_WORLD, 0, "pairwise:direct");
  std::vector<double> memory(5 * n + 7), alone(n);
  using Places = std::vector<std::size_t>;
  for (const Places& places : {Places{0, n, 2 * n, 3 * n, 4 * n}, Places{0, n + 1, 3 * n}, Places{2 * n + 2, n + 1, 0},
                               Places{4 * n + 7, 0, n, 2 * n + 1, 3 * n + 1}}) {
    std::ranges::fill(memory, -1.0);
    std::vector<void*> pointers;
    for (std::size_t f = 0; f < places.size(); ++f) {
      for (std::size_t i = 0; i < n; ++i) memory[places[f] + i] = static_cast<double>((f + 1) * i);
      pointers.push_back(&memory[places[f]]);
    }
    weft_gs_op_many(gs, pointers.data(), static_cast<int>(places.size()), WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
    for (std::size_t f = 0; f < places.size(); ++f) {
      for (std::size_t i = 0; i < n; ++i) alone[i] = static_cast<double>((f + 1) * i);
      weft_gs_op(gs, alone.data(), WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
      EXPECT_EQ(alone.back(), static_cast<double>((f + 1) * (3 * groups - 2)));
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), &memory[places[f]])) << "array " << f;
    }
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(memory, -1.0)), memory.size() - places.size() * n);
  }
  weft_gs_free(gs);
}

TEST(Gs, index_takes_four_bytes_for_a_point_that_is_combined_and_some_for_a_value_that_is_sent) {
  const Comm comm;
  // A row of elements of (order + 1)^3 points that share faces, divided equally among the ranks.
  constexpr long long order = 7, side = order + 1;
  constexpr int elements = 24;
  LongIds ids;
  for (long long e = comm.rank() * elements; e < (comm.rank() + 1) * elements; ++e) {
    for (long long k = 0; k < side; ++k) {
      for (long long j = 0; j < side; ++j) {
        for (long long i = 0; i < side; ++i) ids.push_back(1 + e * order + i + (j + k * side) * 1'000'000);
      }
    }
  }
  weft_gs* gs = weft_gs_setup(ids.data(), ids.size(), MPI_COMM_WORLD, 0, "pairwise:direct");
  const int neighbors = (comm.rank() > 0 ? 1 : 0) + (comm.rank() + 1 < comm.size() ? 1 : 0);
  const std::size_t sent = static_cast<std::size_t>(neighbors) * side * side;
  const std::size_t combined = 2 * (elements - 1) * side * side + sent;
  const std::size_t groups = combined / 2 + sent, tables = 60 * (groups / 384 + 3);
  const std::size_t first = weft_gs_index_bytes(gs);
  // The contributions to shared ids are contiguous: on the host sixteen of them share an index.
  EXPECT_GE(first, 4 * combined + 8 * sent);
  EXPECT_LE(first, 4 * combined + 24 * sent + tables);
  std::vector<double> u(6 * ids.size(), 1.0);
  weft_gs_op_vec(gs, u.data(), 6, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
  weft_gs_op_vec(gs, u.data(), 3, WEFT_GS_FLOAT, WEFT_GS_ADD, 0);
  EXPECT_LE(weft_gs_index_bytes(gs), first + 8 * sent) << "other types and widths have an index of their own";
  weft_gs_free(gs);
}

TEST(Gslib, c_entry_points_do_what_gslib_s_do) {
  const Comm comm;
  const LongIds ids = flagged_ids(2, comm);
  const Points points{ids, comm};
  const auto n = static_cast<unsigned>(ids.size());
  const gslib_comm c{static_cast<unsigned>(comm.rank()), static_cast<unsigned>(comm.size()), MPI_COMM_WORLD};
  for (const int method : {0, 1, 2, 3}) {
    void* gs = gslib_gs_setup(ids.data(), n, &c, 0, method, 0);
    const auto before = small_values<double>(n, WEFT_GS_ADD, 3 + static_cast<unsigned>(comm.rank()));
    std::vector<double> u = before;
    gslib_gs(u.data(), 0, 0, 1, gs, nullptr);
    expect_field(points, u, before, WEFT_GS_ADD, true);
    const auto whole = small_values<long>(n, WEFT_GS_MAX, 4 + static_cast<unsigned>(comm.rank()));
    std::vector<long> v = whole;
    gslib_gs(v.data(), 3, 3, 0, gs, nullptr);
    expect_field(points, v, whole, WEFT_GS_MAX, false);

    std::vector<double> a = before, b = before;
    const std::array<void*, 2> both{a.data(), b.data()};
    int first = -1, second = -1;
    std::vector<double> other = before;
    gslib_igs(other.data(), 0, 0, 1, gs, nullptr, &first);
    gslib_igs_many(both.data(), 2, 0, 0, 1, gs, nullptr, &second);
    EXPECT_NE(first, second);
    gslib_gs_wait(first);
    gslib_gs_wait(second);
    EXPECT_EQ(other, u);
    EXPECT_EQ(a, u);
    EXPECT_EQ(b, u);
    gslib_gs_many(both.data(), 2, 0, 1, 0, gs, nullptr);
    EXPECT_EQ(a, b);
    int messages = -1;
    gslib_pw_data_nmsg(gs, &messages);
    EXPECT_LT(messages, comm.size());
    EXPECT_GE(messages, 0);
    gslib_gs_free(gs);
  }
}

TEST(Gslib, fortran_entry_points_do_what_gslib_s_do) {
  const Comm comm;
  const LongIds ids = flagged_ids(4, comm);
  const Points points{ids, comm};
  const int n = static_cast<int>(ids.size()), np = comm.size(), add = 1, dp = 1, i8 = 3, no = 0, yes = 1, three = 3;
  const MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD);
  int first = -1, second = -1;
  fgslib_gs_setup_(&first, ids.data(), &n, &world, &np);
  fgslib_gs_setup_(&second, ids.data(), &n, &world, &np);
  EXPECT_NE(first, second);
  EXPECT_NE(gslib_gs_hf2c(first), gslib_gs_hf2c(second));
  fgslib_gs_free_(&first);

  const auto before = small_values<double>(ids.size(), WEFT_GS_ADD, 6 + static_cast<unsigned>(comm.rank()));
  std::vector<double> u = before;
  fgslib_gs_op_(&second, u.data(), &dp, &add, &no);
  expect_field(points, u, before, WEFT_GS_ADD, false);
  std::vector<double> a = before, b = before, c = before;
  fgslib_gs_op_many_(&second, a.data(), b.data(), c.data(), nullptr, nullptr, nullptr, &three, &dp, &add, &no);
  EXPECT_EQ(a, u);
  EXPECT_EQ(c, u);
  int wait = -1;
  a = before;
  fgslib_igs_op_(&second, a.data(), &dp, &add, &no, &wait);
  fgslib_gs_op_wait_(&wait);
  EXPECT_EQ(a, u);

  const auto whole = small_values<long long>(ids.size(), WEFT_GS_ADD, 7 + static_cast<unsigned>(comm.rank()));
  const int stride = n + 5;
  std::vector<long long> fields(static_cast<std::size_t>(3 * stride)), vec(ids.size() * 3), result(ids.size());
  for (std::size_t f = 0; f < 3; ++f) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      fields[f * static_cast<std::size_t>(stride) + i] = vec[3 * i + f] = whole[i];
    }
  }
  fgslib_gs_op_fields_(&second, fields.data(), &stride, &three, &i8, &add, &yes);
  fgslib_gs_op_vec_(&second, vec.data(), &three, &i8, &add, &yes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    result[i] = fields[2 * static_cast<std::size_t>(stride) + i];
    EXPECT_EQ(result[i], vec[3 * i + 2]);
  }
  expect_field(points, result, whole, WEFT_GS_ADD, true);

  LongIds one = ids;
  fgslib_gs_unique_(one.data(), &n, &world, &np);
  LongIds again = ids;
  weft_gs_unique(again.data(), again.size(), MPI_COMM_WORLD);
  EXPECT_EQ(one, again);
  fgslib_gs_free_(&second);
}

TEST(Gslib, early_fortran_names_do_what_todays_do_with_the_datatypes_of_their_time) {
  const Comm comm;
  const LongIds ids = flagged_ids(4, comm);
  const Points points{ids, comm};
  const int n = static_cast<int>(ids.size()), np = comm.size(), max = 4, yes = 1, one = 1;
  const MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD);
  int gs = -1;
  gs_setup_(&gs, ids.data(), &n, &world, &np);
  const auto check = [&]<class T>(int type, T) {
    const auto before = small_values<T>(ids.size(), WEFT_GS_MAX, 8 + static_cast<unsigned>(comm.rank()));
    auto op = before, vec = before, many = before, fields = before;
    gs_op_(&gs, op.data(), &type, &max, &yes);
    gs_op_vec_(&gs, vec.data(), &one, &type, &max, &yes);
    gs_op_many_(&gs, many.data(), nullptr, nullptr, nullptr, nullptr, nullptr, &one, &type, &max, &yes);
    gs_op_fields_(&gs, fields.data(), &n, &one, &type, &max, &yes);
    expect_field(points, op, before, WEFT_GS_MAX, true);
    EXPECT_EQ(vec, op);
    EXPECT_EQ(many, op);
    EXPECT_EQ(fields, op);
  };
  check(1, double{});
  check(2, float{});
  check(3, int{});
  check(4, 0LL);
  gs_free_(&gs);
}

TEST(Gs, those_that_are_gone_leave_no_memory_behind) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* exchange = ranks > 1 ? "pairwise:ipc" : "pairwise:direct";
  const std::vector<long long> ids{1, 2, 3};
  const auto in_use_after = [&](int count) {
    for (int i = 0; i < count; ++i) weft_gs_free(weft_gs_setup(ids.data(), ids.size(), MPI_COMM_WORLD, 0, exchange));
    return static_cast<long long>(mallinfo2().uordblks);
  };
  const long long before = in_use_after(30);
  EXPECT_LT(in_use_after(150) - before, 30'000);  // 200 bytes each
}

TEST(Gs, one_that_is_freed_while_a_call_is_under_way_finishes_it) {
  const Comm comm;
  const long long ids[] = {1, 2};
  double u[] = {1, 1}, v[] = {1, 1};
  weft_gs* gs = weft_gs_setup(ids, 2, MPI_COMM_WORLD, 0, "crystal");
  weft_gs_start(gs, u, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
  weft_gs_free(gs);
  EXPECT_EQ(u[0], comm.size());
  const gslib_comm c{static_cast<unsigned>(comm.rank()), static_cast<unsigned>(comm.size()), MPI_COMM_WORLD};
  void* other = gslib_gs_setup(ids, 2, &c, 0, 1, 0);
  int wait = -1;
  gslib_igs(v, 0, 0, 0, other, nullptr, &wait);
  gslib_gs_free(other);
  gslib_gs_wait(wait);  // nothing remains to be done
  EXPECT_EQ(v[1], comm.size());
}
