// Raises errors of the library as exceptions of Python.
#ifndef KVTIER_CLIENT_PYTHON_RAISE_H_
#define KVTIER_CLIENT_PYTHON_RAISE_H_

#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier::python {

// Raises ValueError for arguments that are not valid; BlockingIOError if a limit is reached, even
// one that waiting does not lift; RuntimeError for other errors. REQUIRES: the GIL.
[[noreturn]] inline void Raise(const absl::Status& status) {
  const std::string text(status.message());
  if (status.code() == absl::StatusCode::kInvalidArgument) throw pybind11::value_error(text);
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    PyErr_SetString(PyExc_BlockingIOError, text.c_str());
    throw pybind11::error_already_set();
  }
  throw std::runtime_error(text);
}

template <typename T>
T ValueOrRaise(absl::StatusOr<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_RAISE_H_
