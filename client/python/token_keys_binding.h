// Binds the functions that compute keys from token ids, a buffer or a sequence, for Python.
#ifndef KVTIER_CLIENT_PYTHON_TOKEN_KEYS_BINDING_H_
#define KVTIER_CLIENT_PYTHON_TOKEN_KEYS_BINDING_H_

#include <pybind11/pybind11.h>

namespace kvtier::python {

void BindTokenKeys(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_TOKEN_KEYS_BINDING_H_
