// Named is an argument of a binding with its name. A value of another type raises a TypeError that
// names the argument and says what it must be; the error that pybind11 raises for other arguments
// shows the values of all of them instead.
#ifndef KVTIER_CLIENT_PYTHON_NAMED_H_
#define KVTIER_CLIENT_PYTHON_NAMED_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kvtier::python {

template <size_t kSize>
struct ArgumentName {
  // NOLINTNEXTLINE(google-explicit-constructor): names are written as text.
  constexpr ArgumentName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

template <ArgumentName kName, typename T>
struct Named {
  T value{};

  // NOLINTNEXTLINE(google-explicit-constructor): an argument is used as its value.
  operator const T&() const { return value; }
};

// Names of the parts of a tuple, for errors; none for other types.
template <typename T>
inline constexpr std::array<const char*, 0> kPartNames{};

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// Returns what a value of type T must be.
template <typename T>
std::string Wanted() {
  if constexpr (std::same_as<T, bool>) {
    return "a bool";
  } else if constexpr (std::integral<T>) {
    return absl::StrCat("an int of ", std::numeric_limits<T>::min(), " to ",
                        std::numeric_limits<T>::max());
  } else if constexpr (std::floating_point<T>) {
    return "a number";
  } else if constexpr (std::same_as<T, std::string>) {
    return "a str in UTF-8";
  } else if constexpr (std::same_as<T, pybind11::bytes>) {
    return "bytes";
  } else {
    return kIsVector<T> ? "a list" : "a tuple";
  }
}

// Returns a number as it is, and the type of any other value, which may be long, or a secret.
std::string Shown(pybind11::handle value);

// Returns whether Python's `value` can be used as a T.
template <typename T>
bool Fits(pybind11::handle value) {
  return pybind11::detail::make_caster<T>().load(value, /*convert=*/true);
}

// Raises TypeError for an argument that is no T, and ValueError for an int out of T's range: of a
// list or a tuple for the first part that does not fit. `or_none` says whether None would fit.
template <typename T>
[[noreturn]] void RefuseType(const std::string& name, pybind11::handle value, bool or_none) {
  if constexpr (kIsOptional<T>) {
    RefuseType<typename T::value_type>(name, value, /*or_none=*/true);
  } else {
    if constexpr (kIsVector<T>) {
      using Item = typename T::value_type;
      const bool is_list = PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
      const size_t size = is_list ? pybind11::len(value) : 0;
      for (size_t i = 0; i < size; ++i) {
        const pybind11::object item = value[pybind11::int_(i)];
        if (Fits<Item>(item)) continue;
        // The only sequence of a call is not named, as in other errors.
        const bool is_only = size == 1 && !kPartNames<Item>.empty();
        RefuseType<Item>(is_only ? std::string() : absl::StrCat(name, "[", i, "]"), item, false);
      }
    } else if constexpr (!kPartNames<T>.empty()) {
      if (PyTuple_Check(value.ptr()) && pybind11::len(value) == std::tuple_size_v<T>) {
        [&]<size_t... kPart>(std::index_sequence<kPart...>) {
          const auto look = [&]<typename Part>(size_t part, Part*) {
            const pybind11::object item = value[pybind11::int_(part)];
            if (Fits<Part>(item)) return;
            const char* const dot = name.empty() ? "" : ".";
            RefuseType<Part>(absl::StrCat(name, dot, kPartNames<T>[part]), item, false);
          };
          (look(kPart, static_cast<std::tuple_element_t<kPart, T>*>(nullptr)), ...);
        }(std::make_index_sequence<std::tuple_size_v<T>>());
      }
    }
    const std::string text = absl::StrCat(name, " is ", Shown(value), "; must be ", Wanted<T>(),
                                          or_none ? " or None" : "");
    if (std::integral<T> && PyLong_Check(value.ptr())) throw pybind11::value_error(text);
    throw pybind11::type_error(text);
  }
}

}  // namespace kvtier::python

namespace pybind11::detail {

template <kvtier::python::ArgumentName kName, typename T>
struct type_caster<kvtier::python::Named<kName, T>> {
  using Argument = kvtier::python::Named<kName, T>;
  PYBIND11_TYPE_CASTER(Argument, make_caster<T>::name);

  bool load(handle source, bool convert) {
    make_caster<T> inner;
    if (!inner.load(source, convert)) kvtier::python::RefuseType<T>(kName.text, source, false);
    value.value = cast_op<T&&>(std::move(inner));
    return true;
  }
};

}  // namespace pybind11::detail

#endif  // KVTIER_CLIENT_PYTHON_NAMED_H_
