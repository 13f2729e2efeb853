// The description of a checkpoint on a mesh, for Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "weft/bindings/bindings.hpp"
#include "weft/mesh/element_file.hpp"

namespace weft::bindings {

inline AnyDict to_dict(const mesh::ElementFile& file) {
  const mesh::ElementFileHeader& h = file.header();
  nanobind::dict fields;
  for (const mesh::ElementField& field : h.fields) fields[field.name.c_str()] = field.components;
  nanobind::dict d;
  d["path"] = file.path();
  d["bytes"] = file.bytes();
  d["order"] = h.order;
  d["precision"] = h.value_bytes == 4 ? "single" : "double";
  d["elements"] = h.mesh.elements;
  d["step"] = h.step;
  d["time"] = h.time;
  d["fields"] = fields;
  d["text"] = h.text;
  return d;
}

}  // namespace weft::bindings
