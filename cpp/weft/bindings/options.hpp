// Binds structs of options to Python. bind_options turns a struct's members (fields.hpp) into a class that is filled by
// their names. A member added to the struct is available in Python without further changes.
//
// Members may be numbers, flags and texts; enumerators, given by their name(); structs of this kind, given as an object
// of the bound class, as a mapping by name or as a sequence in order; vectors, arrays, pairs, optionals and
// string-keyed maps of these; exchange::Asked; mesh::BoundarySet; and whatever else nanobind can cast. None keeps the
// struct's default.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/bindings/fields.hpp"
#include "weft/bindings/one_of.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/mesh/boundary_set.hpp"

namespace weft::bindings {

template <class T, template <class...> class Kind>
inline constexpr bool is = false;
template <class... X, template <class...> class Kind>
inline constexpr bool is<Kind<X...>, Kind> = true;
template <class T>
inline constexpr bool is_array = false;
template <class X, std::size_t n>
inline constexpr bool is_array<std::array<X, n>> = true;
template <class T>
concept OptionStruct = std::is_aggregate_v<T> && !is_array<T>;

using NamedValues = std::vector<std::pair<std::string, nanobind::object>>;

// ValueError "turbulence: dt = 'soon' is not a number".
[[noreturn]] void refuse(const std::string& key, nanobind::handle value, const char* wanted);
// TypeError "turbulence: there is no option 'viscocity'; nearest: 'viscosity'; known: …".
[[noreturn]] void refuse_name(const std::string& prefix, const std::string& name,
                              std::span<const std::string_view> known);
// The items of a sequence. An error if the value is not a sequence, or not of length `count` (-1: any).
std::vector<nanobind::object> items(const std::string& key, nanobind::handle value, int count = -1);
// The items of a mapping whose keys are strings.
NamedValues named_items(const std::string& key, nanobind::handle value);
// Assigns names to values by position; TypeError if there are more values than names.
NamedValues in_order(std::vector<nanobind::object> values, std::span<const std::string_view> names,
                     const std::string& key);
std::string text(const std::string& key, nanobind::handle value);
std::int64_t integer(const std::string& key, nanobind::handle value);
double number(const std::string& key, nanobind::handle value);
// The numbers of an array of any shape, as an array of NumPy's type `kind` ('f', 'i', 'u') with that many bytes per
// value. An error if they are of another kind.
nanobind::object flat_array(const std::string& key, nanobind::handle value, char kind, std::size_t bytes);
// shown: "Forcing(kind='band', radius=2.5, …)". same: whether two objects of one class have equal values.
std::string shown(nanobind::handle options);
bool same(nanobind::handle options, nanobind::handle other);

// The Python value of a member: enumerators become their names, vectors lists, arrays tuples.
template <class M>
nanobind::object to_python(const M& value) {
  if constexpr (std::is_enum_v<M>) {
    return nanobind::cast(name(value));
  } else if constexpr (is<M, std::vector> || is_array<M>) {
    nanobind::list list;
    for (const auto& item : value) list.append(to_python<typename M::value_type>(item));
    if constexpr (is_array<M>) return nanobind::tuple(list);
    return list;
  } else if constexpr (is<M, std::pair>) {
    return nanobind::make_tuple(to_python(value.first), to_python(value.second));
  } else if constexpr (is<M, std::map>) {
    nanobind::dict dict;
    for (const auto& [key, item] : value) dict[nanobind::cast(key)] = to_python(item);
    return dict;
  } else if constexpr (is<M, std::optional>) {
    return value ? to_python(*value) : nanobind::none();
  } else if constexpr (std::same_as<M, exchange::Asked>) {
    return nanobind::make_tuple(value.text, value.cache);
  } else if constexpr (std::same_as<M, mesh::BoundarySet>) {
    return nanobind::cast(value != mesh::BoundarySet());  // whether the set has any boundaries
  } else {
    return nanobind::cast(value);
  }
}

template <OptionStruct S>
void fill(S& options, const NamedValues& values, const std::string& prefix);

// Sets a member from a Python value. `key` names the member in errors: "turbulence: forcing.radius".
template <class M>
void assign(M& member, nanobind::handle value, const std::string& key) {
  if constexpr (is<M, std::optional>) {
    if (value.is_none()) return member.reset();
    assign(member.emplace(), value, key);
  } else if (value.is_none()) {
    return;
  } else if constexpr (std::is_enum_v<M>) {
    member = one_of<M>(key, text(key, value));
  } else if constexpr (std::same_as<M, bool>) {
    if (!nanobind::try_cast(value, member)) refuse(key, value, "True or False");
  } else if constexpr (std::integral<M>) {
    const std::int64_t given = integer(key, value);
    if (!std::in_range<M>(given)) refuse(key, value, "in the range of this integer");
    member = static_cast<M>(given);
  } else if constexpr (std::floating_point<M>) {
    member = static_cast<M>(number(key, value));
  } else if constexpr (std::same_as<M, std::string>) {
    member = text(key, value);
  } else if constexpr (std::same_as<M, exchange::Asked>) {
    if (nanobind::isinstance<nanobind::str>(value)) {
      member = exchange::Asked(text(key, value), member.cache);
    } else {
      const auto parts = items(key, value, 2);
      member = exchange::Asked(text(key, parts[0]), nanobind::cast<bool>(parts[1]));
    }
  } else if constexpr (std::same_as<M, mesh::BoundarySet>) {
    bool every = false;
    if (nanobind::try_cast(value, every)) {
      member = every ? mesh::BoundarySet::all() : mesh::BoundarySet();
    } else {
      std::vector<std::string> names;
      if (nanobind::isinstance<nanobind::str>(value)) refuse(key, value, "True, False or a list of boundaries' names");
      assign(names, value, key);
      member = mesh::BoundarySet(std::move(names));
    }
  } else if constexpr (is<M, std::vector>) {
    using X = typename M::value_type;
    if constexpr (std::is_arithmetic_v<X>) {
      using Array = nanobind::ndarray<const X, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
      constexpr char kind = std::is_floating_point_v<X> ? 'f' : std::is_signed_v<X> ? 'i' : 'u';
      const auto array = nanobind::cast<Array>(flat_array(key, value, kind, sizeof(X)));
      member.assign(array.data(), array.data() + array.size());
    } else {
      member.clear();
      for (const nanobind::object& item : items(key, value)) {
        const std::string place = key + "[" + std::to_string(member.size()) + "]";
        assign(member.emplace_back(), item, place);
      }
    }
  } else if constexpr (is_array<M>) {
    const auto parts = items(key, value, static_cast<int>(member.size()));
    for (std::size_t i = 0; i < member.size(); ++i) assign(member[i], parts[i], key + "[" + std::to_string(i) + "]");
  } else if constexpr (is<M, std::pair>) {
    const auto parts = items(key, value, 2);
    assign(member.first, parts[0], key + "[0]");
    assign(member.second, parts[1], key + "[1]");
  } else if constexpr (is<M, std::map>) {
    member.clear();
    for (const auto& [name, item] : named_items(key, value)) assign(member[name], item, key + "['" + name + "']");
  } else if constexpr (OptionStruct<M>) {
    if (nanobind::isinstance<M>(value))
      member = nanobind::cast<M>(value);
    else if (nanobind::isinstance<nanobind::dict>(value))
      fill(member, named_items(key, value), key + ".");
    else
      fill(member, in_order(items(key, value), field_names<M>, key), key + ".");
  } else if (!nanobind::try_cast(value, member)) {
    refuse(key, value, "what this option takes");
  }
}

// How a member of S is read and assigned. All members of S share one type here, so that nanobind's code for a property
// is compiled once per struct, not once per member.
template <OptionStruct S>
struct Member {
  nanobind::object (*read)(const S& options);
  void (*assign)(S& options, nanobind::handle value, const std::string& key);
};

template <OptionStruct S>
inline constexpr auto members = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array{Member<S>{
      .read = [](const S& options) -> nanobind::object { return to_python(std::get<i>(fields(options))); },
      .assign = [](S& options, nanobind::handle value,
                   const std::string& key) { bindings::assign(std::get<i>(fields(options)), value, key); }}...};
}(std::make_index_sequence<field_count<S>>{});

// Sets the members with these names. `prefix` precedes names in errors: "turbulence: forcing.".
template <OptionStruct S>
void fill(S& options, const NamedValues& values, const std::string& prefix) {
  for (const auto& [name, value] : values) {
    const auto& known = field_names<S>;
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) refuse_name(prefix, name, known);
    members<S>[found - known.begin()].assign(options, value, prefix + name);
  }
}

// Binds S as a class. Its objects are constructed from values by position and by name, have the members as attributes,
// and list their names in `fields`. `prefix` as in fill.
template <OptionStruct S>
void bind_options(nanobind::handle scope, const char* name, const std::string& prefix, const char* doc) {
  namespace nb = nanobind;
  nb::class_<S> bound(scope, name, doc);
  bound.def("__init__", [prefix](S* self, const nb::args& args, const nb::kwargs& named) {
    S options;
    fill(options, in_order(items(prefix, args), field_names<S>, prefix), prefix);
    fill(options, named_items(prefix, named), prefix);
    new (self) S(std::move(options));
  });
  nb::list names;
  for (std::size_t i = 0; i < field_count<S>; ++i) {
    const std::string member(field_names<S>[i]);
    names.append(nb::cast(member));
    bound.def_prop_rw(
        member.c_str(), [read = members<S>[i].read](const S& self) { return nb::cast<nb::any>(read(self)); },
        [assign = members<S>[i].assign, key = prefix + member](S& self, nb::handle value) { assign(self, value, key); },
        nb::for_setter(nb::arg("value").none()));
  }
  bound.attr("fields") = nb::tuple(names);
  bound.def("__repr__", [](nb::handle self) { return shown(self); });
  bound.def("__eq__", [](nb::handle self, nb::handle other) { return same(self, other); }, nb::arg().none());
}

}  // namespace weft::bindings
