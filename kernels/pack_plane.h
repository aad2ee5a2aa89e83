// Packs one plane with kPackedExponents on the host (codec_layout.h has the format). Only codec.cc
// calls it.
#ifndef KVTIER_KERNELS_PACK_PLANE_H_
#define KVTIER_KERNELS_PACK_PLANE_H_

#include <cstddef>

#include "core/codec_layout.h"

namespace kvtier::kernels {

// Writes PackedPlaneOf(shape).bytes to `encoded`. Returns false if a value is not finite, or there
// are more escapes than room for them.
bool PackPlane(const KvShape& shape, const std::byte* raw, std::byte* encoded);

// Reads PackedPlaneOf(shape).bytes and writes RawPlaneBytes(shape). Returns false if the escapes do
// not match the deltas; the content of `raw` is then undefined.
bool UnpackPlane(const KvShape& shape, const std::byte* encoded, std::byte* raw);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PACK_PLANE_H_
