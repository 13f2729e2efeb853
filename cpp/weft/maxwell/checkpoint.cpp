#include "weft/maxwell/checkpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "weft/trace/recorder.hpp"

namespace weft::maxwell {
namespace {

// The fields of the file, six components each: E and H, and the auxiliary variables of the layer.
std::vector<mesh::ElementField> fields_of(bool layered) {
  std::vector<mesh::ElementField> fields{{"E and H", 6}};
  if (layered) fields.push_back({"matched layer", 6});
  return fields;
}

}  // namespace

template <class T>
std::string save(Solver<T>& solver, const CheckpointOptions& options) {
  const trace::Span span("checkpoint", trace::Category::cpu);
  const Operator<T>& op = solver.op();
  mesh::ElementFileHeader header;
  header.order = op.options().order;
  header.step = solver.steps();
  header.time = solver.time();
  header.text = options.text;
  header.fields = fields_of(op.layered());
  std::vector<T> copy, layer;  // copy: for fields that the host cannot read
  op.comm().together([&] {
    solver.stream().synchronize();
    if (!op.options().device->is_host()) copy = solver.fields().download();
    if (op.layered()) layer = op.layer_memory();
  });
  const T* fields = op.options().device->is_host() ? solver.fields().data() : copy.data();
  const std::int64_t each = op.elements() > 0 ? op.entries() / op.elements() : 0;
  return files::write_checkpoint_folder(options.folder, checkpoint_kind, header.step, options.keep, op.comm(),
                                        [&](const std::filesystem::path& folder, std::int64_t number) {
                                          header.number = number;
                                          mesh::write_element_file<T>(
                                              folder / checkpoint_kind.file, checkpoint_kind.format, header, op.mesh(),
                                              [&](std::int64_t e, T* to) {
                                                to = std::copy_n(fields + e * each, each, to);
                                                if (op.layered()) std::copy_n(layer.data() + e * each, each, to);
                                              });
                                        });
}

template <class T>
mesh::ElementFile restore(Solver<T>& solver, const std::string& path) {
  Operator<T>& op = solver.op();
  mesh::ElementFile file(path, checkpoint_kind, op.comm());
  std::vector<T> fields(static_cast<std::size_t>(op.entries())), layer;
  if (op.layered()) layer.resize(fields.size());
  const std::int64_t each = op.elements() > 0 ? op.entries() / op.elements() : 0;
  file.read<T>(op.mesh(), op.options().order, fields_of(op.layered()), [&](std::int64_t e, const T* from) {
    std::copy_n(from, each, fields.data() + e * each);
    if (op.layered()) std::copy_n(from + each, each, layer.data() + e * each);
  });
  op.comm().together([&] {
    solver.stream().synchronize();
    solver.fields().upload(fields);
    if (op.layered()) op.set_layer_memory(layer);
  });
  solver.start(file.header().time, file.header().step);
  return file;
}

#define WEFT_CHECKPOINT(T)                                            \
  template std::string save<T>(Solver<T>&, const CheckpointOptions&); \
  template mesh::ElementFile restore<T>(Solver<T>&, const std::string&);
WEFT_CHECKPOINT(double)
WEFT_CHECKPOINT(float)
#undef WEFT_CHECKPOINT

}  // namespace weft::maxwell
