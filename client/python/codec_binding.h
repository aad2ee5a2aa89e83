// Binds BlockCodec for Python, over any buffers.
#ifndef KVTIER_CLIENT_PYTHON_CODEC_BINDING_H_
#define KVTIER_CLIENT_PYTHON_CODEC_BINDING_H_

#include <pybind11/pybind11.h>

namespace kvtier::python {

// Binds the codec. REQUIRES: BindClient() has bound SpaceSpec.
void BindCodec(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_CODEC_BINDING_H_
