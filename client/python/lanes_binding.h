// Binds AnyLanes for Python: lanes over an engine's tensors, in this process's memory or on a GPU.
#ifndef KVTIER_CLIENT_PYTHON_LANES_BINDING_H_
#define KVTIER_CLIENT_PYTHON_LANES_BINDING_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/device_lanes/any_lanes.h"
#include "client/python/open_client.h"

namespace kvtier::python {

// Addresses and sizes of the tensors, layers, axes, order, blocks, run_bytes, block_stride and
// bases of a kvtier.KvMemory.
using PyKvMemory =
    std::tuple<std::vector<std::pair<uint64_t, uint64_t>>, uint32_t, std::string, std::string,
               uint32_t, uint64_t, uint64_t, std::vector<std::pair<uint32_t, uint64_t>>>;

// OpenLanes are lanes with the client, which they need to their end. A thread in a call shares
// them, so they live until the call returns, also if another thread calls close().
struct OpenLanes {
  std::shared_ptr<OpenClient> client;
  AnyLanes lanes;
};

// Owned by Python; null: closed. Read and written under the GIL.
struct PyLanes {
  std::shared_ptr<OpenLanes> open;

  PyLanes(std::shared_ptr<OpenClient> client, uint32_t space, const PyKvMemory& memory,
          const AnyLanesOptions& options);
  PyLanes(PyLanes&&) = default;
  ~PyLanes() { Close(); }
  void Close();
};

void BindLanes(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_LANES_BINDING_H_
