// Launches the quantising codecs and the lossless one, for all planes of all blocks whose outcomes
// say that they are to be converted with the launch's codec. Only codec.cu calls them; it decides
// before them and finishes after them.
#ifndef KVTIER_KERNELS_PLANE_LAUNCHES_CUH_
#define KVTIER_KERNELS_PLANE_LAUNCHES_CUH_

#include <cuda_runtime.h>

#include "kernels/codec.h"

namespace kvtier::kernels {

// Returns whether the block is still to be converted as the launch says. Other threads may decide
// against it at any time, so threads that must agree ask once for all.
__device__ inline bool IsLive(const CodecOutcome& outcome, Codec codec) {
  return outcome.bytes != 0 && outcome.codec == codec;
}
__device__ inline void StayRaw(CodecOutcome& outcome) {
  atomicExch(reinterpret_cast<unsigned*>(&outcome.codec), static_cast<unsigned>(Codec::kRaw));
}
__device__ inline void Refuse(CodecOutcome& outcome) {
  atomicExch(reinterpret_cast<unsigned long long*>(&outcome.bytes), 0ULL);
}

// Each function returns the cudaError_t. Encoders call StayRaw for a block that has a value that is
// not finite, or too many escapes; UnpackOnDevice calls Refuse for escapes that do not add up.
// REQUIRES: the launch is valid, and its codec is kFp8E4m3 or kInt8 for the first two ...
int QuantizeOnDevice(const CodecLaunch& launch);
int DequantizeOnDevice(const CodecLaunch& launch);
// ... and kPackedExponents for these two.
int PackOnDevice(const CodecLaunch& launch);
int UnpackOnDevice(const CodecLaunch& launch);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PLANE_LAUNCHES_CUH_
