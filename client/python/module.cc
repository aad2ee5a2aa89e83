// Defines the extension module _kvtier, with everything that the bindings bind.
#include <pybind11/pybind11.h>

#include "client/python/blocks_binding.h"
#include "client/python/client_binding.h"
#include "client/python/codec_binding.h"
#include "client/python/kept_binding.h"
#include "client/python/lanes_binding.h"
#include "client/python/logger_binding.h"
#include "client/python/paged_kv_binding.h"
#include "client/python/secret_binding.h"
#include "client/python/space_binding.h"
#include "client/python/token_keys_binding.h"

PYBIND11_MODULE(_kvtier, module) {
  module.doc() = "The C++ client under the kvtier package; use that.";
  module.attr("__version__") = KVTIER_VERSION;
  kvtier::python::BindBlocks(module);
  kvtier::python::BindPagedKv(module);
  kvtier::python::BindKept(module);
  kvtier::python::BindLanes(module);
  kvtier::python::BindSpace(module);
  kvtier::python::BindClient(module);
  kvtier::python::BindCodec(module);
  kvtier::python::BindTokenKeys(module);
  kvtier::python::BindLogger(module);
  kvtier::python::BindSecret(module);
}
