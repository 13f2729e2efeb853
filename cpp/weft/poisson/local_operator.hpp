// y_L = (S_L + lambda W) Z x on a range of a rank's elements, on any device: hipBone's kernel, in several variants.
// Consecutive elements of the same shape take one launch, of the kernel for that shape.
//
// The gather Z^T and communication are in Operator.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/shape.hpp"
#include "weft/poisson/options.hpp"

namespace weft::poisson {

// T: float or double.
template <class T>
class LocalOperator {
 public:
  // index: [points] entry of x for each local point; empty if x itself is stored by points (scattered storage).
  // inverse_degree: [points]; empty: the lambda term is left to the caller (not with stored geometry). elements: the
  // order of the mesh's elements in index, in inverse_degree and in this operator; empty: the mesh's own order, and all
  // elements count as the most general shape among them. std::invalid_argument for an order outside 1..15, for
  // trilinear geometry on a curved mesh and for a block of more than 1024 threads on a GPU. CollectiveError for a
  // Jacobian that is not positive. (collective)
  LocalOperator(const mesh::Mesh& mesh, const Options& options, std::span<const std::int32_t> index,
                std::span<const double> inverse_degree, std::span<const std::int64_t> elements = {});

  // y: [points]; elements [begin, end). For several fields in one launch: x [fields][x_field], y [fields][points].
  void apply(const T* x, T* y, std::int64_t begin, std::int64_t end, device::Stream& stream, int fields = 1,
             std::int64_t x_field = 0) const;
  // On all elements, for one field, and also (Z x) . y: products [product_partials()] (in device memory) receives its
  // partial sums. Only after product_partials() was found to be positive, for which it loads kernels of their own:
  // there are none with one thread per point.
  void apply(const T* x, T* y, double* products, device::Stream& stream) const;
  std::int64_t product_partials();

  // For the kernel of the most general shape:
  Threads threads() const { return most_general_.kind; }
  int elements_per_block() const { return most_general_.tile; }
  int threads_per_block() const { return static_cast<int>(most_general_.threads.x * most_general_.threads.y); }
  device::KernelResources resources() const { return resources_; }
  // The number of elements for each mesh::Shape, by how they are treated (curved: the metric is stored).
  std::array<std::int64_t, 4> elements_by_shape() const;
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  // Passed to kernels by value: must match those of kernels/poisson.hpp.
  struct Splitting {
    T even[64], odd[64];
  };
  struct Stiffness {
    T even[64], odd[64];
  };
  struct Nodes {
    T points[16], weights[16];
  };
  // Elements [begin, end) of one shape; `first` is the position of the first one in the tables of that shape.
  struct Run {
    std::int64_t begin, end;
    mesh::Shape shape;
    std::int64_t first;
  };

  // Elements and threads per block.
  struct Blocks {
    Threads kind = Threads::automatic;
    int tile = 1;
    device::Shape threads;
  };

  void make_reference(int order);
  Threads threads_of(mesh::Shape shape) const;
  void load_kernels(bool products);
  std::int64_t blocks_of(const Run& run) const;
  void launch(const Run& run, const T* x, T* y, device::Stream& stream, int fields, std::int64_t x_field,
              double* products = nullptr) const;

  std::shared_ptr<device::Device> device_;
  Threads threads_;
  T lambda_;
  int order_;
  bool has_products_ = false;
  std::int64_t elements_, each_;  // number of elements, and of points per element
  std::array<Blocks, 4> blocks_;  // by shape
  Blocks most_general_;
  std::vector<Run> runs_;
  int factors_each_ = 6;
  Splitting splitting_{};
  Stiffness stiffness_{};
  Nodes nodes_{};
  device::Array<T> reference_, factors_, maps_, metrics_, inverse_degree_;
  device::Array<std::int32_t> index_;
  // The kernels' parameters that describe the elements come between the element count and the parameters that all
  // variants share. Only the kernels for existing shapes, with threads_, are set.
  template <class... Elements>
  using Points = device::Kernel<int, Elements..., T, const std::int32_t*, int, long, long, const T*, T*>;
  template <class... Elements>
  using OneVariant = device::Kernel<int, Elements..., T, const std::int32_t*, int, long, long, const T*, T*, double*>;
  template <class... Elements>
  struct Columns {
    OneVariant<Elements...> plain, with_product;
  };
  Points<const T*, const T*> stored_points_;
  Columns<Splitting, const T*> stored_columns_;
  Points<const T*, const T*, const T*> trilinear_points_;
  Columns<Splitting, Nodes, const T*, const T*, const T*> trilinear_columns_;
  Points<const T*, const T*, const T*> affine_points_;
  Columns<Splitting, Nodes, const T*, const T*, const T*> affine_columns_;
  Columns<Stiffness, Nodes, const T*, const T*, const T*> box_columns_;
  device::KernelResources resources_{};
};

// Whether there are matrix kernels, for trilinear elements and parallelepipeds.
bool matrices_fit(int order, int scalar_bytes);
// Threads of a GPU block per element, and elements per block, within 48 KiB of shared memory.
int threads_per_element(int order, Threads threads, int scalar_bytes);
int elements_per_block(int order, Threads threads, int scalar_bytes);

}  // namespace weft::poisson
