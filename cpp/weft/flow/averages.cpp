#include "weft/flow/averages.hpp"

#include "weft/device/vector.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::flow {

template <class T>
Averages<T>::Averages(std::shared_ptr<device::Device> device, std::int64_t entries, int scalars)
    : entries_(entries), scalars_(scalars), values_(device, static_cast<std::size_t>(components() * entries)) {
  values_.zero();
  const auto kernel = [&](const char* name) { return device->kernel<T>("flow_averages", name); };
  flow_ = kernel("average_flow");
  scalar_ = kernel("average_scalar");
}

template <class T>
void Averages<T>::begin(double time) {
  values_.zero();
  set(time, time, 0);
}

template <class T>
void Averages<T>::set(double since, double until, std::int64_t samples) {
  since_ = since;
  until_ = until;
  samples_ = samples;
}

template <class T>
void Averages<T>::add(const State<T>& state, device::Stream& stream) {
  if (!(state.time > until_)) return;
  const trace::Span span("averages", trace::Category::cpu);
  const double weight = (state.time - until_) / (state.time - since_);
  const std::int64_t n = entries_, blocks = device::vector_blocks(n);
  T* means = values_.data();
  for (int s = 0; s < scalars_; ++s) {
    T* mine = values_.data() + (11 + 5 * s) * entries_;
    scalar_(stream, blocks, device::vector_shape, n, weight, state.velocity(), means, state.scalar(s), mine,
            mine + entries_);
  }
  flow_(stream, blocks, device::vector_shape, n, weight, state.velocity(), state.pressure(), means,
        means + 4 * entries_);
  until_ = state.time;
  ++samples_;
}

template <class T>
std::vector<std::string> Averages<T>::names() const {
  std::vector<std::string> names{"u", "v", "w", "p", "uu", "vv", "ww", "uv", "uw", "vw", "pp"};
  for (int s = 0; s < scalars_; ++s) {
    const std::string name = "s" + std::to_string(s);
    for (const std::string& each : {name, name + name, "u" + name, "v" + name, "w" + name}) names.push_back(each);
  }
  return names;
}

template class Averages<float>;
template class Averages<double>;

}  // namespace weft::flow
