// Binds blocks as DLPack tensors, which torch.from_dlpack() and numpy.from_dlpack() take without a
// copy.
#ifndef KVTIER_CLIENT_PYTHON_DLPACK_H_
#define KVTIER_CLIENT_PYTHON_DLPACK_H_

#include <pybind11/pybind11.h>

#include "client/python/blocks_binding.h"

namespace kvtier::python {

// Defines __dlpack__() and __dlpack_device__() of Block: a tensor of bytes on the host. Errors:
// BufferError, it is asked for a stream, another device or a copy, or the block is read-only and
// the consumer takes no DLPack of version 1, which alone can say so.
void DefineDlpack(pybind11::class_<Block>* block);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_DLPACK_H_
