// Converts one plane with a quantising codec on the host (codec_layout.h has the format). Only
// codec.cc calls it.
#ifndef KVTIER_KERNELS_QUANTIZE_PLANE_H_
#define KVTIER_KERNELS_QUANTIZE_PLANE_H_

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"

namespace kvtier::kernels {

// Properties of a plane that determine its format.
struct PlaneFormat {
  Codec codec = Codec::kRaw;  // A quantising codec.
  KvShape shape{};            // IsEncodable() is true.
  uint32_t axis = 0;
};

// Writes PlaneBytes(...) to `encoded`. Returns false if a value is not finite.
bool QuantizePlane(const PlaneFormat& format, const std::byte* raw, std::byte* encoded);

// Reads PlaneBytes(...) of any content and writes RawPlaneBytes(shape).
void DequantizePlane(const PlaneFormat& format, const std::byte* encoded, std::byte* raw);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_QUANTIZE_PLANE_H_
