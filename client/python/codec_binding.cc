#include "client/python/codec_binding.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "client/block_codec.h"
#include "client/python/buffer.h"
#include "client/python/raise.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

// Returns the name of the codec that the block is stored with; None: it cannot be stored.
std::optional<std::string> Encode(const BlockCodec& codec, const py::object& raw,
                                  const py::object& slot) {
  const Buffer from(raw, "raw", Access::kRead);
  const Buffer to(slot, "block", Access::kWrite);
  absl::StatusOr<Codec> stored = Codec::kRaw;
  {
    py::gil_scoped_release release;
    stored = codec.Encode(from.bytes(), to.bytes());
  }
  if (stored.status().code() == absl::StatusCode::kOutOfRange) return std::nullopt;
  return std::string(CodecName(ValueOrRaise(std::move(stored))));
}

// Returns false if the block is no encoding of this space.
bool Decode(const BlockCodec& codec, const py::object& block, const py::object& raw) {
  const Buffer from(block, "block", Access::kRead);
  const Buffer to(raw, "raw", Access::kWrite);
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = codec.Decode(from.bytes(), to.bytes());
  }
  if (status.code() == absl::StatusCode::kDataLoss) return false;
  if (!status.ok()) throw py::value_error(std::string(status.message()));
  return true;
}

}  // namespace

void BindCodec(py::module_& module) {
  module.def("codec_sizes", [](const SpaceSpec& spec) {
    const SpaceCodec space = ValueOrRaise(SpaceCodec::Of(spec));
    return py::make_tuple(space.raw_bytes(), space.encoded_bytes(), space.max_encoded_bytes());
  });
  py::class_<BlockCodec>(module, "BlockCodec")
      .def(py::init([](const SpaceSpec& spec) { return ValueOrRaise(BlockCodec::For(spec)); }))
      .def("encode", &Encode)
      .def("decode", &Decode);
}

}  // namespace kvtier::python
