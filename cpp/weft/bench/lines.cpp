#include "weft/bench/lines.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "weft/fft/gpu_library.hpp"
#include "weft/fft/library.hpp"

namespace weft::bench {
namespace {

using fft::Kind;
using fft::LinesShape;

// Transposes between planes [n][width] and lines [width][n], in blocks as wide as a cache line.
template <class C>
void transpose(const C* from, C* to, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t block = 16;
  for (std::int64_t r = 0; r < rows; r += block) {
    const std::int64_t end = std::min(r + block, rows);
    for (std::int64_t c = 0; c < columns; c += block) {
      const std::int64_t last = std::min(c + block, columns);
      for (std::int64_t i = r; i < end; ++i) {
        for (std::int64_t j = c; j < last; ++j) to[j * rows + i] = from[i * columns + j];
      }
    }
  }
}

template <class T>
class Lines : public Timed {
 public:
  using Complex = std::complex<T>;
  Lines(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, int n, std::int64_t width,
        std::int64_t planes)
      : Timed(comm),
        n_(n),
        width_(width),
        planes_(planes),
        stream_(device),
        values_(device, static_cast<std::size_t>(2 * n * width * planes)) {
    values_.zero();
  }

 protected:
  void wait_for_device() override { stream_.synchronize(); }
  Complex* plane(std::int64_t p) { return reinterpret_cast<Complex*>(values_.data()) + p * n_ * width_; }

  // Fills the first plane with random numbers, transforms it, and compares with the expected result.
  std::string wrong() override {
    std::vector<T> given(static_cast<std::size_t>(2 * n_ * width_));
    unsigned seed = 1;
    for (T& value : given) {
      seed = seed * 1664525U + 1013904223U;
      value = static_cast<T>(seed >> 8) / static_cast<T>(1U << 24) - T(0.5);
    }
    std::vector<T> all(values_.size());
    std::ranges::copy(given, all.begin());
    values_.upload(std::span<const T>(all));
    once();
    wait_for_device();
    expect(reinterpret_cast<Complex*>(given.data()));
    all = values_.download();
    T worst = 0;
    for (std::size_t i = 0; i < given.size(); ++i) worst = std::max(worst, std::abs(all[i] - given[i]));
    values_.zero();
    const T tolerance = std::numeric_limits<T>::epsilon() * 8 * static_cast<T>(std::max(n_, 16));
    return worst <= tolerance ? "" : "transforms differ by " + std::to_string(worst);
  }
  // Applies to a plane what once() is expected to do.
  virtual void expect(Complex* values) const {
    fft::HostLines<T>(LinesShape::columns(Kind::forward, n_, width_, width_, width_, true))(values, values);
  }

  int n_;
  std::int64_t width_, planes_;
  device::Stream stream_;
  device::Array<T> values_;
};

template <class T>
class HostWay final : public Lines<T> {
 public:
  using typename Lines<T>::Complex;
  HostWay(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, LinesWay way, int n, std::int64_t width,
          std::int64_t planes)
      : Lines<T>(comm, device, n, width, planes), way_(way) {
    // A panel of neighbouring columns fills part of the second-level cache.
    constexpr std::int64_t panel_bytes = 128 << 10;
    constexpr std::int64_t neighbours = 64 / sizeof(Complex);
    panel_ = std::clamp(panel_bytes / static_cast<std::int64_t>(sizeof(Complex)) / n / neighbours * neighbours,
                        neighbours, std::max(neighbours, width));
    switch (way) {
      case LinesWay::strided:
        plan_ = fft::HostLines<T>(LinesShape::columns(Kind::forward, n, width, width, width, true));
        break;
      case LinesWay::contiguous:
        plan_ = fft::HostLines<T>(LinesShape::contiguous(Kind::forward, n, width, true));
        break;
      case LinesWay::panels:
        plan_ = fft::HostLines<T>(LinesShape::columns(Kind::forward, n, panel_, panel_, panel_, true));
        copy_ = device::Array<T>(device, static_cast<std::size_t>(2 * n * panel_));
        copy_.zero();
        break;
      default:
        copy_ = device::Array<T>(device, static_cast<std::size_t>(2 * n * width * planes));
        copy_.zero();
    }
  }

 private:
  void once() override {
    for (std::int64_t p = 0; p < this->planes_; ++p) {
      Complex* plane = this->plane(p);
      auto* copy = reinterpret_cast<Complex*>(copy_.data());
      switch (way_) {
        case LinesWay::unpack:
          transpose(plane, copy + p * this->n_ * this->width_, this->n_, this->width_);
          break;
        case LinesWay::pack:
          transpose(copy + p * this->n_ * this->width_, plane, this->width_, this->n_);
          break;
        case LinesWay::panels:
          in_panels(plane, copy);
          break;
        default:
          plan_(plane, plane);
      }
    }
  }
  void in_panels(Complex* plane, Complex* panel) {
    for (std::int64_t first = 0; first < this->width_; first += panel_) {
      const std::int64_t count = std::min(panel_, this->width_ - first);
      for (int j = 0; j < this->n_; ++j) std::copy_n(plane + j * this->width_ + first, count, panel + j * panel_);
      plan_(panel, panel);
      for (int j = 0; j < this->n_; ++j) std::copy_n(panel + j * panel_, count, plane + j * this->width_ + first);
    }
  }
  std::string wrong() override {
    if (way_ == LinesWay::unpack || way_ == LinesWay::pack) {  // checks that numbered values end up where they belong
      const bool unpack = way_ == LinesWay::unpack;
      Complex *plane = this->plane(0), *copy = reinterpret_cast<Complex*>(copy_.data());
      const auto at_plane = [&](std::int64_t x, int j) -> Complex& { return plane[j * this->width_ + x]; };
      const auto at_copy = [&](std::int64_t x, int j) -> Complex& { return copy[x * this->n_ + j]; };
      const auto number = [&](std::int64_t x, int j) { return Complex(static_cast<T>(x), static_cast<T>(j)); };
      for (std::int64_t x = 0; x < this->width_; ++x) {
        for (int j = 0; j < this->n_; ++j) (unpack ? at_plane(x, j) : at_copy(x, j)) = number(x, j);
      }
      once();
      bool right = true;
      for (std::int64_t x = 0; x < this->width_; ++x) {
        for (int j = 0; j < this->n_; ++j) right = right && (unpack ? at_copy(x, j) : at_plane(x, j)) == number(x, j);
      }
      this->values_.zero();
      copy_.zero();
      return right ? "" : "copied values are in the wrong places";
    }
    return Lines<T>::wrong();
  }
  void expect(Complex* values) const override {
    if (way_ != LinesWay::contiguous) return Lines<T>::expect(values);
    fft::HostLines<T>(LinesShape::contiguous(Kind::forward, this->n_, this->width_, true))(values, values);
  }

  LinesWay way_;
  std::int64_t panel_;
  fft::HostLines<T> plan_;
  device::Array<T> copy_;
};

template <class T>
class GpuWay final : public Lines<T> {
 public:
  using typename Lines<T>::Complex;
  GpuWay(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, LinesWay way, int n, std::int64_t width,
         std::int64_t planes)
      : Lines<T>(comm, device, n, width, planes), contiguous_(way == LinesWay::contiguous) {
    if (contiguous_) {
      plan_.emplace(device, LinesShape::contiguous(Kind::forward, n, width * planes, true));
    } else {
      plan_.emplace(device, LinesShape::columns(Kind::forward, n, width, width, width, true));
    }
    work_ = device::Array<char>(device, plan_->work_bytes());
    if (!work_.empty()) plan_->set_work_area(work_.data());
  }

 private:
  void once() override {
    for (std::int64_t p = 0; p < (contiguous_ ? 1 : this->planes_); ++p)
      (*plan_)("fft", this->stream_, this->plane(p), this->plane(p));
  }
  void expect(Complex* values) const override {
    if (!contiguous_) return Lines<T>::expect(values);
    fft::HostLines<T>(LinesShape::contiguous(Kind::forward, this->n_, this->width_, true))(values, values);
  }

  bool contiguous_;
  std::optional<fft::GpuLines<T>> plan_;
  device::Array<char> work_;
};

const std::vector<std::pair<std::string, LinesWay>>& ways() {
  static const std::vector<std::pair<std::string, LinesWay>> all{{"strided", LinesWay::strided},
                                                                 {"unpack", LinesWay::unpack},
                                                                 {"contiguous", LinesWay::contiguous},
                                                                 {"pack", LinesWay::pack},
                                                                 {"panels", LinesWay::panels}};
  return all;
}

}  // namespace

LinesWay lines_way(const std::string& name) {
  for (const auto& [known, way] : ways()) {
    if (known == name) return way;
  }
  throw std::invalid_argument("unknown method '" + name + "' to transform lines");
}

std::vector<std::string> lines_ways(const device::Device& device) {
  if (!device.is_host()) return {"strided", "contiguous"};
  std::vector<std::string> names;
  for (const auto& [name, way] : ways()) names.push_back(name);
  return names;
}

template <class T>
std::unique_ptr<Timed> lines(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, LinesWay way, int n,
                             std::int64_t width, std::int64_t planes) {
  std::unique_ptr<Timed> timed;
  comm.together([&] {
    if (device->is_host())
      timed = std::make_unique<HostWay<T>>(comm, device, way, n, width, planes);
    else
      timed = std::make_unique<GpuWay<T>>(comm, device, way, n, width, planes);
  });
  return timed;
}

template std::unique_ptr<Timed> lines<double>(const mpi::Comm&, const std::shared_ptr<device::Device>&, LinesWay, int,
                                              std::int64_t, std::int64_t);
template std::unique_ptr<Timed> lines<float>(const mpi::Comm&, const std::shared_ptr<device::Device>&, LinesWay, int,
                                             std::int64_t, std::int64_t);

}  // namespace weft::bench
