#include "client/python/space_binding.h"

#include "core/space.h"

namespace py = pybind11;

namespace kvtier::python {

void BindSpace(py::module_& module) {
  py::class_<SpaceSpec>(module, "SpaceSpec")
      .def(py::init<>())
      .def_readwrite("model", &SpaceSpec::model)
      .def_readwrite("weights_digest", &SpaceSpec::weights_digest)
      .def_readwrite("lora", &SpaceSpec::lora)
      .def_readwrite("dtype", &SpaceSpec::dtype)
      .def_readwrite("layout", &SpaceSpec::layout)
      .def_readwrite("layers", &SpaceSpec::layers)
      .def_readwrite("kv_heads", &SpaceSpec::kv_heads)
      .def_readwrite("head_dim", &SpaceSpec::head_dim)
      .def_readwrite("tokens_per_block", &SpaceSpec::tokens_per_block)
      .def_readwrite("tensor_rank", &SpaceSpec::tensor_rank)
      .def_readwrite("tensor_size", &SpaceSpec::tensor_size)
      .def_readwrite("pipeline_rank", &SpaceSpec::pipeline_rank)
      .def_readwrite("pipeline_size", &SpaceSpec::pipeline_size)
      .def_readwrite("block_bytes", &SpaceSpec::block_bytes)
      .def_readwrite("codec", &SpaceSpec::codec)
      .def_readwrite("any_length", &SpaceSpec::any_length);
}

}  // namespace kvtier::python
