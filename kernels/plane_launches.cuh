// The codecs that quantise, and the lossless one, as launches: all planes of all blocks
// of a launch whose outcomes say that they are to be converted with its codec. Called by
// codec.cu only, which decides before and finishes after.
#ifndef KVTIER_KERNELS_PLANE_LAUNCHES_CUH_
#define KVTIER_KERNELS_PLANE_LAUNCHES_CUH_

#include <cuda_runtime.h>

#include "kernels/codec.h"

namespace kvtier::kernels {

// True if the block is still to be converted as the launch says; others may decide
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

// Each returns the cudaError_t. Encoders call StayRaw for what is not finite or has too
// many escapes; UnpackOnDevice calls Refuse for escapes that do not add up.
// REQUIRES: the launch is valid, its codec is kFp8E4m3 or kInt8 ...
int QuantizeOnDevice(const CodecLaunch& launch);
int DequantizeOnDevice(const CodecLaunch& launch);
// ... or kPackedExponents.
int PackOnDevice(const CodecLaunch& launch);
int UnpackOnDevice(const CodecLaunch& launch);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PLANE_LAUNCHES_CUH_
