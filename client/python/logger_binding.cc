#include "client/python/logger_binding.h"

#include <memory>
#include <string>
#include <utility>

#include "client/logger.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

// Python callable that is released under the GIL, whichever thread drops the last reference.
using Callable = std::shared_ptr<py::function>;

Callable Share(py::function callable) {
  return {new py::function(std::move(callable)), [](py::function* held) {
            py::gil_scoped_acquire gil;
            delete held;
          }};
}

void SetPythonLogger(const py::object& logger) {
  if (logger.is_none()) {
    py::gil_scoped_release release;
    SetLogger(nullptr);
    return;
  }
  Callable callable = Share(py::reinterpret_borrow<py::function>(logger));
  py::gil_scoped_release release;
  SetLogger([callable = std::move(callable)](LogLevel level, absl::string_view line) {
    py::gil_scoped_acquire gil;
    try {
      (*callable)(static_cast<int>(level), std::string(line));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("kvtier's logger");
    }
  });
}

}  // namespace

void BindLogger(py::module_& module) { module.def("set_logger", &SetPythonLogger); }

}  // namespace kvtier::python
