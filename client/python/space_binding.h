// Binds SpaceSpec, the description of a space, for Python.
#ifndef KVTIER_CLIENT_PYTHON_SPACE_BINDING_H_
#define KVTIER_CLIENT_PYTHON_SPACE_BINDING_H_

#include <pybind11/pybind11.h>

namespace kvtier::python {

void BindSpace(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_SPACE_BINDING_H_
