#include "weft/flow/checkpoint.hpp"

#include <algorithm>

#include "weft/trace/recorder.hpp"

namespace weft::flow {
namespace {

// What goes on needs of so many levels: level 0's explicit terms are made by the next step.
template <class T>
std::vector<NamedVectors<T>> vectors_of(State<T>& state, int levels, bool explicit_terms) {
  std::vector<NamedVectors<T>> vectors{{"pressure", 1, state.pressure()}};
  for (int level = 0; level < levels; ++level)
    vectors.push_back({"fields " + std::to_string(level), state.components(), state.fields(level)});
  for (int level = 1; level < levels && explicit_terms; ++level)
    vectors.push_back({"explicit terms " + std::to_string(level), state.components(), state.explicit_terms(level)});
  return vectors;
}

}  // namespace

template <class T>
std::string write_checkpoint(space::Space<T>& space, State<T>& state, Averages<T>* averages,
                             const CheckpointOptions& options) {
  const trace::Span span("checkpoint", trace::Category::cpu);
  CheckpointHeader header;
  header.step = state.step;
  header.time = state.time;
  header.text = options.text;
  header.numbers["dt"] = {state.dt.begin(), state.dt.end()};
  header.numbers["known levels"] = {static_cast<double>(state.known)};
  std::vector<NamedVectors<T>> vectors = vectors_of(state, state.known, true);
  if (averages != nullptr) {
    vectors.push_back({averages_name, averages->components(), averages->data()});
    header.numbers[averages_name] = {averages->since(), averages->until(), static_cast<double>(averages->samples())};
  }
  return files::write_checkpoint_folder(options.folder, checkpoint_kind, state.step, options.keep, space.comm(),
                                        [&](const std::filesystem::path& folder, std::int64_t number) {
                                          header.number = number;
                                          write_checkpoint_file<T>(folder / checkpoint_kind.file, header, space,
                                                                   vectors);
                                        });
}

template <class T>
Restored restore(const CheckpointFile& file, space::Space<T>& space, State<T>& state, Averages<T>* averages) {
  const CheckpointHeader& h = file.header();
  const auto numbers = [&](const char* name, std::size_t least) {
    const auto found = h.numbers.find(name);
    if (found == h.numbers.end() || found->second.size() < least)
      throw mpi::CollectiveError(file.path() + ": says nothing of its " + name + ": take another checkpoint");
    return found->second;
  };
  Restored restored;
  restored.same_order = h.order == space.order();
  const std::vector<double> dt = numbers("dt", max_time_order);
  const auto written = static_cast<int>(std::clamp(numbers("known levels", 1)[0], 1.0, double(max_time_order)));
  const int known = restored.same_order ? std::min(written, state.order) : 1;
  std::vector<NamedVectors<T>> vectors = vectors_of(state, known, true);
  if (averages != nullptr) {
    const CheckpointField* field = file.find(averages_name);
    restored.averages = field != nullptr && field->components == averages->components();
    if (restored.averages) vectors.push_back({averages_name, averages->components(), averages->data()});
  }
  file.read<T>(space, vectors);
  state.step = h.step;
  state.time = h.time;
  state.known = known;
  std::copy_n(dt.begin(), max_time_order, state.dt.begin());
  if (restored.averages) {
    const std::vector<double> times = numbers(averages_name, 3);
    averages->set(times[0], times[1], static_cast<std::int64_t>(times[2]));
  } else if (averages != nullptr) {
    averages->begin(state.time);
  }
  return restored;
}

#define WEFT_CHECKPOINT(T)                                                                                       \
  template std::string write_checkpoint<T>(space::Space<T>&, State<T>&, Averages<T>*, const CheckpointOptions&); \
  template Restored restore<T>(const CheckpointFile&, space::Space<T>&, State<T>&, Averages<T>*);
WEFT_CHECKPOINT(double)
WEFT_CHECKPOINT(float)
#undef WEFT_CHECKPOINT

}  // namespace weft::flow
