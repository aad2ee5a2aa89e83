// Binds kvtier.set_logger(), which puts the application's logger in the place of stderr.
#ifndef KVTIER_CLIENT_PYTHON_LOGGER_BINDING_H_
#define KVTIER_CLIENT_PYTHON_LOGGER_BINDING_H_

#include <pybind11/pybind11.h>

namespace kvtier::python {

void BindLogger(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_LOGGER_BINDING_H_
