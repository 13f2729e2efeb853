#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/bindings/coarse.hpp"
#include "weft/bindings/options.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/poisson/merged_cg.hpp"
#include "weft/poisson/multigrid_solver.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/solver/cg.hpp"
#include "weft/solver/timed.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

// Called with the iteration and the norm of the residual; may be None.
using Progress = std::optional<nb::typed<nb::callable, void(int, double)>>;

// Coordinates [n][3] as an array.
Numpy<double, 2> places(std::vector<double>&& coordinates) {
  const std::size_t n = coordinates.size() / 3;
  return to_numpy(std::move(coordinates), {n, 3});
}

// An operator, with the vectors and the solver that a Python user needs.
template <class T>
class Poisson {
 public:
  using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig>;
  using HostVector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using LevelValues = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  Poisson(const mesh::Mesh& mesh, const poisson::Options& options)
      : device_(options.device), stream_(device_), op_(poisson::make_operator<T>(mesh, options)) {
    for (device::Array<T>* vector : {&x_, &y_}) {
      *vector = device::Array<T>(device_, op_->entries());
      vector->zero();
    }
  }

  poisson::AnyOperator<T>& op() { return *op_; }
  space::Space<T>& space() { return op_->space(); }
  std::string geometry_reason() const {
    const auto* op = dynamic_cast<const poisson::Operator<T>*>(op_.get());
    return op == nullptr || op->simd() == nullptr ? "" : op->simd()->geometry_reason();
  }

  nb::any apply(const Vector& x) {
    {
      const Source source = checked(x);
      nb::gil_scoped_release release;
      load(source, x_);
      op_->apply(x_.data(), y_.data(), stream_);
    }
    return result(y_);
  }

  // The time in seconds of each of `repeats` runs of the element kernel alone, after one warm-up run.
  std::vector<double> time_kernel(int repeats) {
    nb::gil_scoped_release release;
    std::vector<double> seconds;
    device::Event begin(device_), end(device_);
    for (int i = 0; i <= repeats; ++i) {
      stream_.synchronize();
      begin.record(stream_);
      op_->apply_local(x_.data(), y_.data(), stream_);
      end.record(stream_);
      end.synchronize();
      if (i > 0) seconds.push_back(end.seconds_since(begin));
    }
    return seconds;
  }

  // Sets up the levels; returns this rank's triplets of the coarse matrix, for the library that coarsens it further.
  AnyDict make_multigrid(const mesh::Mesh& mesh, const std::vector<int>& orders, const std::string& smoother,
                         int degree, bool single, const std::string& method, int restart, bool algebraic,
                         const std::vector<LevelValues>& screening) {
    using poisson::Smoothing;
    const Smoothing smoothing = one_of<Smoothing>("poisson: smoother", smoother);
    poisson::Triplets matrix;
    poisson::MultigridOptions options{orders, degree, smoothing, algebraic};
    for (const LevelValues& v : screening) options.screening.emplace_back(v.data(), v.data() + v.size());
    {
      nb::gil_scoped_release release;
      const auto krylov = method == "cg" ? poisson::Method::cg : poisson::Method::gmres;
      multigrid_.reset();
      multigrid_ =
          std::make_unique<poisson::MultigridSolver<T>>(assembled("multigrid"), mesh, options, single, krylov, restart);
      if (multigrid_->algebraic()) matrix = multigrid_->coarse_matrix();
    }
    nb::dict d = to_dict(std::move(matrix));
    d["algebraic"] = multigrid_->algebraic();
    d["singular"] = multigrid_->singular();
    d["smoother"] = poisson::name(multigrid_->smoothing());
    d["largest_eigenvalues"] = nb::cast(multigrid_->largest_eigenvalues());
    Tunings tunings;
    for (const auto& [use, tuning] : multigrid_->tunings()) tunings[use.c_str()] = to_dict(tuning);
    d["exchange"] = tunings;
    return d;
  }
  void set_coarse(const nb::list& levels, const DenseMatrix& coarsest) {
    solver::Amg hierarchy = amg_of(levels, coarsest, multigrid_->singular());
    nb::gil_scoped_release release;
    multigrid_->set_coarse(std::move(hierarchy));
  }
  std::int64_t coarse_unknowns() const { return multigrid_->coarse_unknowns(); }  // on this rank
  AnyDict solve_multigrid(const Vector& b, std::optional<Vector> guess, int max_iterations, double tolerance,
                          const Progress& progress) {
    return solve(
        "multigrid", b, guess, max_iterations, tolerance, progress, [] {},
        [this](auto&&... arguments) { return multigrid_->solve(arguments...); });
  }

  AnyDict cg(const Vector& b, std::optional<Vector> guess, int max_iterations, double tolerance,
             const std::string& preconditioner, bool merged, const Progress& progress) {
    if (preconditioner != "none" && preconditioner != "jacobi")
      throw std::invalid_argument("poisson: preconditioner = \"" + preconditioner + "\" is not one of: none, jacobi");
    return solve(
        "cg", b, guess, max_iterations, tolerance, progress, [&] { prepare(preconditioner == "jacobi", merged); },
        [&](auto&&... arguments) { return merged ? merged_->solve(arguments...) : cg_->solve(arguments...); });
  }

  // Whatever a solve needs besides the operator is created on first use, outside the timed part.
  void prepare(bool jacobi, bool merged) {
    if ((merged ? merged_ != nullptr : cg_ != nullptr) && jacobi == !inverse_diagonal_.empty()) return;
    const bool simd = op_->options().kernels == poisson::Kernels::simd;
    if (merged && !simd) throw std::invalid_argument("poisson: algorithm = \"merged\" needs kernels = \"simd\"");
    cg_.reset();
    merged_.reset();
    inverse_diagonal_ = jacobi ? op_->inverse_diagonal() : device::Array<T>();
    if (merged) {
      merged_ = std::make_unique<poisson::MergedCg<T>>(*assembled("merged CG").simd(), inverse_diagonal_.data());
      return;
    }
    solver::System<T> system = op_->system();
    system.inverse_diagonal = inverse_diagonal_.data();
    cg_ = std::make_unique<solver::ConjugateGradients<T>>(std::move(system), device_, op_->comm());
  }

  std::map<std::string, std::int64_t> memory_bytes() const {
    auto bytes = op_->memory_bytes();
    bytes["x and b"] = static_cast<std::int64_t>(x_.bytes() + y_.bytes());
    if (cg_ || merged_) bytes["CG: r, p, A p"] = cg_ ? cg_->memory_bytes() : merged_->memory_bytes();
    if (!inverse_diagonal_.empty()) bytes["inverse diagonal"] = static_cast<std::int64_t>(inverse_diagonal_.bytes());
    if (multigrid_) bytes.merge(multigrid_->memory_bytes());
    return bytes;
  }

 private:
  poisson::Operator<T>& assembled(const std::string& who) {
    auto* op = dynamic_cast<poisson::Operator<T>*>(op_.get());
    if (op == nullptr) throw std::invalid_argument(who + ": for assembled storage only");
    return *op;
  }
  struct Source {
    const T* data;
    device::CopyKind kind;
  };
  // Any DLPack array that is on the host or on the operator's device.
  Source checked(const Vector& v) const {
    if (static_cast<std::int64_t>(v.size()) != op_->unknowns())
      throw std::invalid_argument("poisson: a vector has " + std::to_string(op_->unknowns()) +
                                  " values on this rank, not " + std::to_string(v.size()));
    if (v.device_type() == nb::device::cpu::value) return {v.data(), device::CopyKind::host_to_device};
    if (v.device_type() == dlpack_device(*device_)) return {v.data(), device::CopyKind::device_to_device};
    throw std::invalid_argument("poisson: the vector is on another device than the operator, which is on " +
                                device::name(device_->backend()));
  }
  void load(const Source& source, device::Array<T>& to) {
    if (op_->unknowns() > 0) device_->copy(to.data(), source.data, op_->unknowns() * sizeof(T), source.kind, stream_);
    stream_.synchronize();
  }
  // A copy for the user: NumPy on the host, an array with __dlpack__ on a GPU.
  nb::any result(const device::Array<T>& vector) {
    const auto size = static_cast<std::size_t>(op_->unknowns());
    if (device_->is_host())
      return nb::cast<nb::any>(nb::cast(to_numpy(std::vector<T>(vector.data(), vector.data() + size))));
    auto copy = std::make_unique<device::Array<T>>(device_, size);
    T* data = copy->data();
    if (size > 0) device_->copy(data, vector.data(), size * sizeof(T), device::CopyKind::device_to_device, stream_);
    stream_.synchronize();
    nb::capsule keeper(copy.release(), [](void* p) noexcept { delete static_cast<device::Array<T>*>(p); });
    return nb::cast<nb::any>(nb::cast(nb::ndarray<nb::array_api, T>(data, {size}, keeper, {}, nb::dtype<T>(),
                                                                    dlpack_device(*device_), device_->info().ordinal)));
  }

  // The part common to all solves. `prepare` and `run` are called without Python's lock.
  template <class Prepare, class Run>
  AnyDict solve(const char* name, const Vector& b, std::optional<Vector> guess, int max_iterations, double tolerance,
                const Progress& progress, const Prepare& prepare, const Run& run) {
    const Source right_hand_side = checked(b);
    std::optional<Source> first;
    if (guess) first = checked(*guess);
    solver::SolveOptions options{.name = name, .max_iterations = max_iterations, .tolerance = tolerance};
    // On a GPU, the host would have to wait for every iteration to read its residual, so this is done only on request.
    if (device_->is_host() || progress.has_value()) {
      options.progress = [&](int iteration, double norm) {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (progress) (*progress)(iteration, norm);
      };
    }
    solver::SolveResult result;
    {
      nb::gil_scoped_release release;
      prepare();
      load(right_hand_side, y_);
      if (first) load(*first, x_);
      result = solver::timed(op_->comm(), stream_, [&] { return run(y_.data(), x_.data(), !first, options, stream_); });
    }
    nb::dict d;
    d["x"] = this->result(x_);
    d["residuals"] = nb::cast(result.residuals);
    d["iterations"] = result.iterations;
    d["converged"] = result.converged;
    d["seconds"] = result.seconds;
    return d;
  }

  std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  std::unique_ptr<poisson::AnyOperator<T>> op_;
  device::Array<T> x_, y_, inverse_diagonal_;
  std::unique_ptr<solver::ConjugateGradients<T>> cg_;
  std::unique_ptr<poisson::MergedCg<T>> merged_;
  std::unique_ptr<poisson::MultigridSolver<T>> multigrid_;
};

// Values at points and at degrees of freedom.
template <class T>
void bind_values(nb::class_<Poisson<T>>& cls) {
  using P = Poisson<T>;
  using HostVector = typename P::HostVector;
  const auto span = [](const HostVector& v) { return std::span<const T>(v.data(), v.size()); };
  cls.def("unknown_ids", [](P& self) { return to_numpy(self.op().unknown_ids()); })
      .def("coordinates", [](P& self) { return places(self.op().coordinates()); })
      .def("point_coordinates", [](P& self) { return places(self.space().point_coordinates()); })
      .def("masked", [](P& self) { return to_numpy(self.space().masked()); })
      .def("mass", [](P& self) { return to_numpy(unlocked([&] { return self.space().point_mass(); })); })
      .def(
          "sum_points",
          [span](P& self, const HostVector& v) {
            return to_numpy(unlocked([&] { return self.op().sum_points(span(v)); }));
          },
          "values"_a.noconvert())
      .def(
          "at_points",
          [span](P& self, const HostVector& v) {
            return to_numpy(unlocked([&] { return self.op().at_points(span(v)); }));
          },
          "x"_a.noconvert())
      .def(
          "stiffness_of_points",
          [span](P& self, const HostVector& v) {
            return to_numpy(unlocked([&] { return self.op().stiffness_of_points(span(v)); }));
          },
          "values"_a.noconvert());
}

template <class T>
void bind(nb::module_& m, const char* name) {
  using P = Poisson<T>;
  using HostVector = typename P::HostVector;
  const auto span = [](const HostVector& v) { return std::span<const T>(v.data(), v.size()); };
  nb::class_<P> cls(m, name);
  cls.def(
         "__init__",
         [](P* self, const mesh::Mesh& mesh, const poisson::Options& options) {
           nb::gil_scoped_release release;
           new (self) P(mesh, options);
         },
         "mesh"_a, "options"_a)
      .def("apply", &P::apply, "x"_a.noconvert())
      .def(
          "set_screening",
          [span](P& self, const HostVector& v) { unlocked([&] { self.op().set_screening(span(v)); }); },
          "mass"_a.noconvert())
      .def("cg", &P::cg, "b"_a.noconvert(), "guess"_a.noconvert().none(), "max_iterations"_a, "tolerance"_a,
           "preconditioner"_a, "merged"_a, "progress"_a.none())
      .def("make_multigrid", &P::make_multigrid, "mesh"_a, "orders"_a, "smoother"_a, "degree"_a, "single"_a, "method"_a,
           "restart"_a, "algebraic"_a, "screening"_a)
      .def("set_coarse", &P::set_coarse, "levels"_a, "coarsest"_a.noconvert())
      .def_prop_ro("coarse_unknowns", [](P& self) { return self.coarse_unknowns(); })
      .def("solve_multigrid", &P::solve_multigrid, "b"_a.noconvert(), "guess"_a.noconvert().none(), "max_iterations"_a,
           "tolerance"_a, "progress"_a.none())
      .def("time_kernel", &P::time_kernel, "repeats"_a)
      .def("memory_bytes", &P::memory_bytes)
      .def_prop_ro("dofs", [](P& self) { return self.space().dofs(); })
      .def_prop_ro("unknowns", [](P& self) { return self.op().unknowns(); })
      .def_prop_ro("points", [](P& self) { return self.space().points(); })
      .def_prop_ro("elements", [](P& self) { return self.space().elements(); })
      .def_prop_ro("elements_by_shape",
                   [](P& self) {
                     const auto [boxes, affine, trilinear, curved] = self.op().elements_by_shape();
                     CountDict d;
                     d["parallelepiped"] = boxes + affine;
                     d["trilinear"] = trilinear;
                     d["stored"] = curved;
                     return d;
                   })
      .def_prop_ro("boxes", [](P& self) { return self.op().elements_by_shape()[0]; })
      .def_prop_ro("halo_elements", [](P& self) { return self.space().numbering().halo_elements; })
      .def_prop_ro("bytes_sent", [](P& self) { return self.op().bytes_sent(); })
      .def_prop_ro("messages", [](P& self) { return self.op().messages(); })
      .def_prop_ro("exchange",
                   [](P& self) {
                     Tunings tunings;
                     for (const auto& [use, tuning] : self.op().tunings()) tunings[use.c_str()] = to_dict(tuning);
                     return tunings;
                   })
      .def_prop_ro("geometry", [](P& self) { return poisson::name(self.op().options().geometry); })
      .def_prop_ro("geometry_reason", [](P& self) { return self.geometry_reason(); })
      .def_prop_ro("access",
                   [](P& self) -> std::optional<std::string> {
                     const space::Blocks* blocks = self.space().blocks();
                     if (blocks == nullptr) return std::nullopt;
                     return space::name(blocks->access()) + ": " + blocks->access_reason();
                   })
      .def_prop_ro("threads",
                   [](P& self) -> std::optional<std::string> {
                     const auto* local = self.op().local();
                     if (local == nullptr) return std::nullopt;
                     return poisson::name(local->threads());
                   })
      .def("resources",
           [](P& self) {
             const auto* local = self.op().local();
             if (local == nullptr) return CountDict();
             CountDict d = to_dict(local->resources());
             d["threads_per_block"] = local->threads_per_block();
             d["elements_per_block"] = local->elements_per_block();
             return d;
           })
      .def(
          "random_values",
          [](P& self, std::int64_t seed) { return to_numpy(unlocked([&] { return self.op().random_values(seed); })); },
          "seed"_a);
  bind_values<T>(cls);
}

}  // namespace

void bind_poisson(nb::module_& m) {
  nb::module_ p = m.def_submodule("poisson", "The screened Poisson operator; use weft.Poisson");
  bind_options<poisson::Options>(p, "Options", "poisson: ", "The options of `weft.Poisson`.");
  bind<double>(p, "PoissonDouble");
  bind<float>(p, "PoissonSingle");
}

}  // namespace weft::bindings
