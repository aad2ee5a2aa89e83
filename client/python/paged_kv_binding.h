// Binds PagedKv for Python: block tables over granted slots of the GPU pool.
#ifndef KVTIER_CLIENT_PYTHON_PAGED_KV_BINDING_H_
#define KVTIER_CLIENT_PYTHON_PAGED_KV_BINDING_H_

#include <pybind11/pybind11.h>

#include <memory>

#include "client/paged_kv.h"

namespace kvtier::python {

// Owned by Python. Not thread-safe, as PagedKv is not: its swaps let go of the GIL.
struct PyPagedKv {
  std::unique_ptr<PagedKv> kv;
};

void BindPagedKv(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_PAGED_KV_BINDING_H_
