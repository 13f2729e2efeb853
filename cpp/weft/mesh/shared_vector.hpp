// A vector whose copies share its values, so that a mesh can be copied at no cost.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace weft::mesh {

template <class T>
class SharedVector {
 public:
  SharedVector() = default;
  SharedVector(std::vector<T> values) : values_(std::make_shared<std::vector<T>>(std::move(values))) {}

  const std::vector<T>& get() const { return *values_; }
  operator const std::vector<T>&() const { return *values_; }
  std::size_t size() const { return values_->size(); }
  const T* data() const { return values_->data(); }
  const T& operator[](std::size_t i) const { return (*values_)[i]; }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }

  // Write access to the values of this copy alone; copies the values first if they are shared.
  std::vector<T>& change() {
    if (values_.use_count() > 1) values_ = std::make_shared<std::vector<T>>(*values_);
    return *values_;
  }

 private:
  std::shared_ptr<std::vector<T>> values_ = std::make_shared<std::vector<T>>();
};

}  // namespace weft::mesh
