#include "weft/bindings/launched_kernels.hpp"

#include <string_view>
#include <utility>

#include "weft/device/kernel_texts.hpp"
#include "weft/flow/portable_terms.hpp"
#include "weft/maxwell/local_operator.hpp"
#include "weft/poisson/local_operator.hpp"
#include "weft/poisson/schwarz.hpp"
#include "weft/poisson/transfer.hpp"

namespace weft::bindings {
namespace {

// Adds every kernel of a file that does not depend on the order, for each type; all of them are hot.
void add_file(std::vector<LaunchedKernel>& list, std::string_view file, std::initializer_list<const char*> types) {
  for (const device::KernelText& text : device::kernel_texts()) {
    if (text.file != file) continue;
    for (const std::string& name : device::kernel_names(text)) {
      for (const char* type : types) list.push_back({{std::string(file), name, {{"WEFT_REAL", type}}}, true});
    }
  }
}

template <class T>
void add_poisson(std::vector<LaunchedKernel>& list) {
  for (int order = 1; order <= 15; ++order) {
    const auto add = [&](const char* file, const std::string& name, int tile, bool product) {
      std::vector<device::Define> defines{{"WEFT_N", std::to_string(order)},
                                          {"WEFT_REAL", device::type_name<T>()},
                                          {"WEFT_TILE_ELEMENTS", std::to_string(tile)}};
      list.push_back({{file, name, defines}, true});
      if (!product) return;
      defines.push_back({"WEFT_WITH_PRODUCT", "1"});
      list.push_back({{file, name, std::move(defines)}, true});
    };
    if (poisson::matrices_fit(order, sizeof(T))) {
      const int tile = poisson::elements_per_block(order, poisson::Threads::matrices, sizeof(T));
      for (const char* name : {"poisson_trilinear_matrix", "poisson_affine_matrix"})
        add("poisson_matrix", name, tile, true);
    }
    for (const poisson::Threads threads : {poisson::Threads::points, poisson::Threads::columns}) {
      if (threads == poisson::Threads::points && order > 9) continue;  // exceeds the threads per block
      const int tile = poisson::elements_per_block(order, threads, sizeof(T));
      for (const char* geometry : {"stored", "curved", "trilinear", "affine", "box"}) {
        if (threads == poisson::Threads::points && std::string_view(geometry) == "box") continue;  // same as affine
        const bool points = threads == poisson::Threads::points;
        add("poisson", std::string("poisson_") + geometry + (points ? "_3d" : "_2d"), tile, !points);
      }
    }
  }
}

template <class T>
void add_transfer(std::vector<LaunchedKernel>& list) {
  for (int order = 2; order <= 15 && poisson::transfer_fits(order, sizeof(T)); ++order)
    for (const char* name : {"prolong", "restrict_points"})
      list.push_back(
          {{"transfer", name, {{"WEFT_N", std::to_string(order)}, {"WEFT_REAL", device::type_name<T>()}}}, true});
}

template <class T>
void add_schwarz(std::vector<LaunchedKernel>& list) {
  for (int order = 2; order <= 15; ++order) {
    auto defines = poisson::subdomain_constants(order, poisson::subdomain_blocks(order, sizeof(T)));
    defines.push_back({"WEFT_REAL", device::type_name<T>()});
    list.push_back({{"schwarz", "schwarz_points", std::move(defines)}, true});
  }
}

template <class T>
void add_maxwell(std::vector<LaunchedKernel>& list) {
  for (int order = 1; order <= 15; ++order) {
    const auto add = [&](const char* name, int tile) {
      std::vector<device::Define> defines{{"WEFT_N", std::to_string(order)}, {"WEFT_REAL", device::type_name<T>()}};
      if (tile > 1) defines.push_back({"WEFT_TILE_ELEMENTS", std::to_string(tile)});
      list.push_back({{"maxwell", name, defines}, true});
    };
    const maxwell::Threads threads = maxwell::threads_for(order);
    add(threads == maxwell::Threads::points ? "maxwell_curl_points" : "maxwell_curl_columns",
        maxwell::elements_per_block(order, threads, sizeof(T)));
    // In these kernels the order matters only in index arithmetic, so the lowest and highest order and those of the
    // paper represent all.
    if (order == 1 || order == 7 || order == 14 || order == 15)
      for (const char* name : {"maxwell_traces", "maxwell_update", "maxwell_energy"}) add(name, 1);
  }
}

template <class T>
void add_flow(std::vector<LaunchedKernel>& list) {
  for (int order = 1; order <= 15; ++order) {
    auto defines = flow::convect_constants(order, flow::convect_blocks(order, sizeof(T)));
    defines.push_back({"WEFT_REAL", device::type_name<T>()});
    list.push_back({{"flow_convect", "flow_convect", std::move(defines)}, true});
  }
  const auto add_term = [&](const std::string& name, int order) {
    const int tile = flow::flow_elements_per_block(order, sizeof(T));
    std::vector<device::Define> defines{{"WEFT_N", std::to_string(order)}, {"WEFT_REAL", device::type_name<T>()}};
    if (tile > 1) defines.push_back({"WEFT_TILE_ELEMENTS", std::to_string(tile)});
    // For these cases hipRTC 5.2 moves up to 80 bytes of scalar registers to scratch memory; other compilers spill
    // nothing.
    const bool spills = sizeof(T) == 4 && order >= 13 && name == "flow_weak_divergence";
    list.push_back({{"flow_terms", name, defines}, !spills});
  };
  for (int order = 1; order <= 15; ++order)
    for (const char* name :
         {"flow_gradient", "flow_weak_divergence", "flow_divergence", "flow_curl", "flow_convect_skew"})
      add_term(name, order);
  for (const int order : {1, 7, 15})
    for (const char* name : {"flow_wall_vorticity", "flow_filter"})
      list.push_back({{name == std::string_view("flow_filter") ? "flow_filter" : "flow_faces",
                       name,
                       {{"WEFT_N", std::to_string(order)}, {"WEFT_REAL", device::type_name<T>()}}},
                      true});
}

}  // namespace

std::vector<LaunchedKernel> launched_kernels() {
  std::vector<LaunchedKernel> list;
  add_file(list, "vector", {"double", "float"});
  add_file(list, "cg", {"double", "float"});
  add_file(list, "cg_gather", {"double", "float"});
  add_file(list, "gather", {"double", "float"});
  add_file(list, "exchange", {"double", "float", "int", "long"});
  add_file(list, "pieces", {"int", "long"});
  add_file(list, "fft", {"double", "float"});
  add_file(list, "limits", {"double", "float"});
  add_file(list, "turbulence", {"double", "float"});
  add_file(list, "smoother", {"double", "float"});
  add_file(list, "component_cg", {"double", "float"});
  add_file(list, "projection", {"double", "float"});
  add_file(list, "flow", {"double", "float"});
  add_file(list, "flow_averages", {"double", "float"});
  add_transfer<double>(list);
  add_transfer<float>(list);
  add_schwarz<double>(list);
  add_schwarz<float>(list);
  add_poisson<double>(list);
  add_poisson<float>(list);
  add_file(list, "maxwell_sources", {"double", "float"});
  add_file(list, "program", {"double", "float"});
  add_file(list, "flow_measures", {"double", "float"});
  // sin() uses a stack for the reduction of large arguments. A pulse never gets there, and few points have a pulse.
  // Programs run only where a case has expressions, seldom at all points in every step.
  for (LaunchedKernel& launched : list)
    for (const char* name : {"maxwell_incident", "maxwell_current", "run_program"})
      if (launched.spec.name == name) launched.hot = false;
  add_maxwell<double>(list);
  add_maxwell<float>(list);
  add_flow<double>(list);
  add_flow<float>(list);
  return list;
}

}  // namespace weft::bindings
