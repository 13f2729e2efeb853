// The members of a plain struct and the enumerators of an enum, with their names, as the compiler knows them. So a
// struct can be bound to Python without a second list of its members.
//
// The struct must be an aggregate without base classes and C arrays, with at most 20 members, each of which can be
// initialised from any type. This relies on two things: a structured binding gives the members in order, and
// __PRETTY_FUNCTION__ (GCC 11, Clang 16 and later) contains the name of the member that a template argument points to.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace weft::bindings {
namespace detail {

// A stand-in for the initialiser of a member of any type.
struct Anything {
  template <class T>
  operator T() const;
};

template <class S, std::size_t... i>
constexpr bool has_members(std::index_sequence<i...>) {
  return requires { S{(static_cast<void>(i), Anything{})...}; };
}

template <class S, std::size_t n = 0>
constexpr std::size_t count() {
  if constexpr (has_members<S>(std::make_index_sequence<n + 1>{}))
    return count<S, n + 1>();
  else
    return n;
}

}  // namespace detail

template <class S>
inline constexpr std::size_t field_count = detail::count<std::remove_const_t<S>>();

// References to the members, in order.
template <class S>
constexpr auto fields(S& whole) {
  constexpr std::size_t n = field_count<S>;
  static_assert(n > 0 && n <= 20, "a struct of options has 1 to 20 members: give what belongs together its own struct");
#define WEFT_TIE(count, ...)      \
  if constexpr (n == count) {     \
    auto& [__VA_ARGS__] = whole;  \
    return std::tie(__VA_ARGS__); \
  } else
  // clang-format off
  WEFT_TIE(1, a)
  WEFT_TIE(2, a, b)
  WEFT_TIE(3, a, b, c)
  WEFT_TIE(4, a, b, c, d)
  WEFT_TIE(5, a, b, c, d, e)
  WEFT_TIE(6, a, b, c, d, e, f)
  WEFT_TIE(7, a, b, c, d, e, f, g)
  WEFT_TIE(8, a, b, c, d, e, f, g, h)
  WEFT_TIE(9, a, b, c, d, e, f, g, h, i)
  WEFT_TIE(10, a, b, c, d, e, f, g, h, i, j)
  WEFT_TIE(11, a, b, c, d, e, f, g, h, i, j, k)
  WEFT_TIE(12, a, b, c, d, e, f, g, h, i, j, k, l)
  WEFT_TIE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  WEFT_TIE(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  WEFT_TIE(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  WEFT_TIE(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  WEFT_TIE(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  WEFT_TIE(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  WEFT_TIE(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  WEFT_TIE(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  // clang-format on
  return std::tuple<>();
#undef WEFT_TIE
}

namespace detail {

template <class S>
struct Holder {
  S value;
};
// Never defined: only the compiler uses it, for the addresses of its members.
template <class S>
extern const Holder<S> example;

template <class M>
struct Address {
  const M* of;
};
template <class M>
Address(const M*) -> Address<M>;

template <Address member>
constexpr std::string_view text_of_member() {
  return __PRETTY_FUNCTION__;
}
template <auto value>
constexpr std::string_view text_of_value() {
  return __PRETTY_FUNCTION__;
}

// "… value.radius}]" from Clang, "… value.weft::turbulence::Forcing::radius)}; …]" from GCC.
constexpr std::string_view member_of(std::string_view text) {
  text.remove_prefix(text.rfind("value."));
  text = text.substr(6, text.find_first_of(")}") - 6);
  const std::size_t scope = text.rfind(':');
  if (scope != text.npos) text.remove_prefix(scope + 1);
  return text == "lambda" ? "lambda_" : text;  // a Python keyword
}

template <class S, std::size_t... i>
constexpr auto names(std::index_sequence<i...>) {
  return std::array<std::string_view, sizeof...(i)>{
      member_of(text_of_member<Address{&std::get<i>(fields(example<S>.value))}>())...};
}

// "… value = weft::turbulence::Scheme::rk2]"; a value that is no enumerator is shown as a cast: "value =
// (weft::turbulence::Scheme)2]".
template <class E, int i>
constexpr bool is_enumerator() {
  constexpr std::string_view text = text_of_value<static_cast<E>(i)>();
  return text[text.find("value = ") + 8] != '(';
}

}  // namespace detail

template <class S>
inline constexpr auto field_names = detail::names<S>(std::make_index_sequence<field_count<S>>{});

// The enumerators of an enum whose values are 0, 1, 2, …
template <class E, int n = 0>
constexpr auto enumerators() {
  if constexpr (detail::is_enumerator<E, n>())
    return enumerators<E, n + 1>();
  else
    return []<int... i>(std::integer_sequence<int, i...>) {
      return std::array<E, n>{static_cast<E>(i)...};
    }(std::make_integer_sequence<int, n>{});
}

}  // namespace weft::bindings
