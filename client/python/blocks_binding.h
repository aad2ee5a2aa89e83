// Binds hits and puts for Python, with their blocks as buffers over the mapped memory.
#ifndef KVTIER_CLIENT_PYTHON_BLOCKS_BINDING_H_
#define KVTIER_CLIENT_PYTHON_BLOCKS_BINDING_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>

#include "client/mapping.h"
#include "client/onboarded_blocks.h"
#include "client/reserved_blocks.h"

namespace kvtier::python {

// The bytes of one block, for the buffer protocol. Keeps them mapped, not leased: a
// memoryview may outlive its hit, and then shows whatever the memory holds.
struct Block {
  std::shared_ptr<const void> mapping;
  const void* data;
  size_t size;
  bool read_only;
};

// Returns a mapping as one block.
Block BlockOf(const std::shared_ptr<const Mapping>& mapping, bool read_only);

// Owned by Python; used under the GIL, and by Commit(), CopyIn() and CopyOut() without it.
struct Hit {
  OnboardedBlocks blocks;
};
struct Put {
  ReservedBlocks blocks;
};

void BindBlocks(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_BLOCKS_BINDING_H_
