// Binds the reader of secret files for Python.
#ifndef KVTIER_CLIENT_PYTHON_SECRET_BINDING_H_
#define KVTIER_CLIENT_PYTHON_SECRET_BINDING_H_

#include <pybind11/pybind11.h>

namespace kvtier::python {

void BindSecret(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_SECRET_BINDING_H_
