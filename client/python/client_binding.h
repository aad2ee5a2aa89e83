// Binds the client for Python, as the kvtier package uses it.
#ifndef KVTIER_CLIENT_PYTHON_CLIENT_BINDING_H_
#define KVTIER_CLIENT_PYTHON_CLIENT_BINDING_H_

#include <pybind11/pybind11.h>

namespace kvtier::python {

void BindClient(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_CLIENT_BINDING_H_
