// Whether a function may be called through a pointer of another type: the same arguments, passed in the same way.
#pragma once

#include <type_traits>

template <class Ours, class Theirs>
constexpr bool same_abi();

// Pointers to numbers must agree in what they point to; handles and void* are opaque.
template <class Ours, class Theirs>
constexpr bool same_pointee() {
  if constexpr (std::is_function_v<Ours> && std::is_function_v<Theirs>) {
    return same_abi<Ours, Theirs>();
  } else if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> || std::is_arithmetic_v<Ours> || std::is_enum_v<Ours>) {
    return sizeof(Ours) == sizeof(Theirs) && std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs);  // structs
  }
}

template <class Ours, class Theirs>
constexpr bool same_argument() {
  constexpr bool floating = std::is_floating_point_v<Ours>;
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {  // results
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    return same_pointee<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>();
  } else {
    return sizeof(Ours) == sizeof(Theirs) && floating == std::is_floating_point_v<Theirs> &&
           std::is_class_v<Ours> == std::is_class_v<Theirs>;
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};  // other numbers of arguments
template <class Result, class... Arguments, class TheirResult, class... TheirArguments>
  requires(sizeof...(Arguments) == sizeof...(TheirArguments))
struct SameFunction<Result(Arguments...), TheirResult(TheirArguments...)>
    : std::bool_constant<same_argument<Result, TheirResult>() && (same_argument<Arguments, TheirArguments>() && ...)> {
};

template <class Ours, class Theirs>
constexpr bool same_abi() {
  return SameFunction<Ours, Theirs>::value;
}

// cuFFT's plan is an int, which is passed in a register as weft's void* is.
template <class Ours, class Theirs>
struct SameFftFunction : SameFunction<Ours, Theirs> {};
template <class... Arguments, class TheirResult, class... TheirArguments>
struct SameFftFunction<int(void*, Arguments...), TheirResult(int, TheirArguments...)>
    : SameFunction<int(Arguments...), TheirResult(TheirArguments...)> {};
template <class TheirResult>
struct SameFftFunction<int(void**), TheirResult(int*)> : std::true_type {};  // its upper half is left alone
