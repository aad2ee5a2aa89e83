// One plane of kPackedExponents, on the host (codec_layout.h has the format). Called
// by codec.cc only.
#ifndef KVTIER_KERNELS_PACK_PLANE_H_
#define KVTIER_KERNELS_PACK_PLANE_H_

#include <cstddef>

#include "core/codec_layout.h"

namespace kvtier::kernels {

// Writes PackedPlaneOf(shape).bytes to `encoded`, or returns false: a value is not
// finite, or there are more escapes than have room.
bool PackPlane(const KvShape& shape, const std::byte* raw, std::byte* encoded);

// Reads PackedPlaneOf(shape).bytes, writes RawPlaneBytes(shape). Returns false if the
// escapes do not fit the deltas; `raw` then has any content.
bool UnpackPlane(const KvShape& shape, const std::byte* encoded, std::byte* raw);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PACK_PLANE_H_
