// One plane of the codecs that quantise, on the host (codec_layout.h has the format).
// Called by codec.cc only.
#ifndef KVTIER_KERNELS_QUANTIZE_PLANE_H_
#define KVTIER_KERNELS_QUANTIZE_PLANE_H_

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"

namespace kvtier::kernels {

// Which plane of a launch: what decides its format.
struct PlaneFormat {
  Codec codec = Codec::kRaw;  // One that quantises.
  KvShape shape{};            // IsEncodable.
  uint32_t axis = 0;
};

// Writes PlaneBytes(...) to `encoded`, or returns false: a value is not finite.
bool QuantizePlane(const PlaneFormat& format, const std::byte* raw, std::byte* encoded);

// Reads PlaneBytes(...) of any content, writes RawPlaneBytes(shape).
void DequantizePlane(const PlaneFormat& format, const std::byte* encoded, std::byte* raw);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_QUANTIZE_PLANE_H_
