#include "weft/bindings/options.hpp"

namespace nb = nanobind;

namespace weft::bindings {
namespace {

std::string repr_of(nb::handle value) { return nb::repr(value).c_str(); }

}  // namespace

void refuse(const std::string& key, nb::handle value, const char* wanted) {
  throw nb::value_error((key + " = " + repr_of(value) + " is not " + wanted).c_str());
}

void refuse_name(const std::string& prefix, const std::string& name, std::span<const std::string_view> known) {
  nb::list names;
  std::string all;
  for (const std::string_view other : known) {
    names.append(nb::cast(std::string(other)));
    all += (all.empty() ? "" : ", ") + std::string(other);
  }
  const nb::list near(nb::module_::import_("difflib").attr("get_close_matches")(name, names, 1));
  const std::string nearest = near.size() > 0 ? "; nearest: " + repr_of(near[0]) : "";
  const std::string where = prefix.ends_with('.') ? prefix.substr(0, prefix.size() - 1) + ": " : prefix;
  throw nb::type_error((where + "there is no option '" + name + "'" + nearest + "; known: " + all).c_str());
}

std::vector<nb::object> items(const std::string& key, nb::handle value, int count) {
  std::vector<nb::object> result;
  if (nb::isinstance<nb::str>(value) || PyObject_HasAttrString(value.ptr(), "__iter__") == 0)
    refuse(key, value, "a sequence");
  for (const nb::handle item : nb::iter(value)) result.push_back(nb::borrow(item));
  if (count >= 0 && static_cast<int>(result.size()) != count)
    refuse(key, value, ("a sequence of " + std::to_string(count)).c_str());
  return result;
}

NamedValues named_items(const std::string& key, nb::handle value) {
  if (PyObject_HasAttrString(value.ptr(), "items") == 0) refuse(key, value, "a mapping");
  NamedValues result;
  for (const nb::handle item : nb::iter(value.attr("items")()))
    result.emplace_back(text(key, item[0]), nb::borrow(item[1]));
  return result;
}

NamedValues in_order(std::vector<nb::object> values, std::span<const std::string_view> names, const std::string& key) {
  if (values.size() > names.size())
    throw nb::type_error(
        (key + " takes " + std::to_string(names.size()) + " values, not " + std::to_string(values.size())).c_str());
  NamedValues result;
  for (std::size_t i = 0; i < values.size(); ++i) result.emplace_back(std::string(names[i]), std::move(values[i]));
  return result;
}

std::string text(const std::string& key, nb::handle value) {
  if (!nb::isinstance<nb::str>(value)) refuse(key, value, "a text");
  return nb::cast<std::string>(value);
}

std::int64_t integer(const std::string& key, nb::handle value) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  std::int64_t result = 0;
  if (!index.is_valid()) {
    PyErr_Clear();
    refuse(key, value, "an integer");
  }
  if (!nb::try_cast(index, result)) refuse(key, value, "an integer of 64 bits");
  return result;
}

double number(const std::string& key, nb::handle value) {
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(key, value, "a number");
  }
  return result;
}

nb::object flat_array(const std::string& key, nb::handle value, char kind, std::size_t bytes) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  const nb::object dtype = numpy.attr("dtype")(std::string(1, kind) + std::to_string(bytes));
  const nb::object given = numpy.attr("asarray")(value);
  if (nb::cast<std::size_t>(given.attr("size")) == 0) return numpy.attr("empty")(0, dtype);
  if (!nb::cast<bool>(numpy.attr("can_cast")(given.attr("dtype"), dtype, "same_kind")))
    refuse(key, value, kind == 'f' ? "an array of numbers" : "an array of integers");
  return numpy.attr("ascontiguousarray")(given, dtype).attr("ravel")();
}

std::string shown(nb::handle options) {
  std::string result;
  for (const nb::handle name : nb::iter(options.attr("fields")))
    result += (result.empty() ? "" : ", ") + nb::cast<std::string>(name) + "=" + repr_of(nb::getattr(options, name));
  return nb::cast<std::string>(options.type().attr("__name__")) + "(" + result + ")";
}

bool same(nb::handle options, nb::handle other) {
  if (!options.type().is(other.type())) return false;
  for (const nb::handle name : nb::iter(options.attr("fields")))
    if (!nb::getattr(options, name).equal(nb::getattr(other, name))) return false;
  return true;
}

}  // namespace weft::bindings
