// Runs up to three steps for a launch of blocks: decide on each block, as far as possible (Begin);
// convert its planes; move the rest (Move). An encoder converts the planes before it moves, because
// they may show that a block must stay raw.
#include <cuda_runtime.h>

#include "kernels/codec.h"
#include "kernels/codec_header.h"
#include "kernels/device_launch.cuh"
#include "kernels/plane_launches.cuh"

namespace kvtier::kernels {
namespace {

constexpr uint32_t kHeaderWords = kEncodedHeaderBytes / sizeof(uint4);

// A codec and the header of its encodings. A launch has two: its own codec, and kRaw.
struct Format {
  Codec codec;
  EncodedHeader header;
};

Format FormatOf(Codec codec, const KvShape& shape) { return {codec, HeaderOf(codec, shape)}; }

// Arguments of a launch for its kernels.
struct CodecList {
  const CodecBlock* blocks;
  CodecOutcome* outcomes;
  uint32_t count;
  uint64_t raw_bytes;
  Format own;
  Format raw;

  __device__ const Format& FormatIn(const CodecOutcome& outcome) const {
    return outcome.codec == Codec::kRaw ? raw : own;
  }
};

CodecList ListOf(const CodecLaunch& launch) {
  return {.blocks = launch.blocks,
          .outcomes = launch.outcomes,
          .count = launch.count,
          .raw_bytes = RawBytes(launch.shape),
          .own = FormatOf(launch.codec, launch.shape),
          .raw = FormatOf(Codec::kRaw, launch.shape)};
}

__global__ void __launch_bounds__(kThreads) BeginEncodeKernel(CodecList list) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < list.count;
       i += gridDim.x * kThreads) {
    const CodecBlock block = list.blocks[i];
    const bool has_room =
        block.source_bytes >= list.raw_bytes && block.destination_bytes >= list.raw.header.bytes;
    const bool smaller = list.own.header.bytes < list.raw.header.bytes;
    const Format& format = smaller ? list.own : list.raw;
    list.outcomes[i] = has_room ? CodecOutcome{format.header.bytes, format.codec} : CodecOutcome{};
  }
}

__device__ bool IsIn(const Format& format, const CodecBlock& block) {
  if (block.source_bytes < format.header.bytes) return false;
  const auto* const words = reinterpret_cast<const uint4*>(block.source);
  const auto* const expected = reinterpret_cast<const uint4*>(&format.header);
  uint32_t different = 0;
#pragma unroll
  for (uint32_t i = 0; i < kHeaderWords; ++i) {
    different |= (words[i].x ^ expected[i].x) | (words[i].y ^ expected[i].y) |
                 (words[i].z ^ expected[i].z) | (words[i].w ^ expected[i].w);
  }
  return different == 0;
}

__global__ void __launch_bounds__(kThreads) BeginDecodeKernel(CodecList list) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < list.count;
       i += gridDim.x * kThreads) {
    const CodecBlock block = list.blocks[i];
    CodecOutcome outcome;
    if (block.destination_bytes >= list.raw_bytes) {
      if (IsIn(list.raw, block)) {
        outcome = {list.raw_bytes, Codec::kRaw};
      } else if (IsIn(list.own, block)) {
        outcome = {list.raw_bytes, list.own.codec};
      }
    }
    list.outcomes[i] = outcome;
  }
}

// Writes the headers of an encoder and copies the blocks that stay raw. `sharing` thread blocks
// work on each block.
template <bool kEncode>
__global__ void __launch_bounds__(kThreads) MoveKernel(CodecList list, uint32_t sharing) {
  const uint32_t first = (blockIdx.x % sharing) * kThreads + threadIdx.x;
  const auto words = static_cast<uint32_t>(list.raw_bytes / sizeof(uint4));
  for (uint32_t i = blockIdx.x / sharing; i < list.count; i += gridDim.x / sharing) {
    const CodecOutcome outcome = list.outcomes[i];
    if (outcome.bytes == 0) continue;
    const CodecBlock block = list.blocks[i];
    if (kEncode && first == 0) {
      const EncodedHeader& header = list.FormatIn(outcome).header;
      *reinterpret_cast<EncodedHeader*>(block.destination) = header;
      list.outcomes[i].bytes = header.bytes;
    }
    if (outcome.codec != Codec::kRaw) continue;
    const std::byte* const source = block.source + (kEncode ? 0 : kEncodedHeaderBytes);
    std::byte* const destination = block.destination + (kEncode ? kEncodedHeaderBytes : 0);
    const auto* const from = reinterpret_cast<const uint4*>(source);
    auto* const to = reinterpret_cast<uint4*>(destination);
#pragma unroll 4
    for (uint32_t word = first; word < words; word += sharing * kThreads) {
      __stcs(to + word, __ldcs(from + word));
    }
  }
}

// Sets the codec of each block that was not converted to kRaw, as the reference does.
__global__ void __launch_bounds__(kThreads) ClearRefusedKernel(CodecList list) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < list.count;
       i += gridDim.x * kThreads) {
    if (list.outcomes[i].bytes == 0) list.outcomes[i].codec = Codec::kRaw;
  }
}

template <bool kEncode>
int Move(const CodecLaunch& launch, const CodecList& list) {
  const uint32_t sharing =
      launch.count < launch.thread_blocks ? launch.thread_blocks / launch.count : 1;
  const Grid grid = {launch.thread_blocks / sharing * sharing, launch.stream};
  return Launch(grid, MoveKernel<kEncode>, list, sharing);
}

}  // namespace

int EncodeOnDevice(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  if (launch.count == 0) return 0;
  const CodecList list = ListOf(launch);
  if (const int error = Launch({launch.thread_blocks, launch.stream}, BeginEncodeKernel, list);
      error != 0) {
    return error;
  }
  if (list.own.header.bytes < list.raw.header.bytes) {
    const int error =
        launch.codec == Codec::kPackedExponents ? PackOnDevice(launch) : QuantizeOnDevice(launch);
    if (error != 0) return error;
  }
  return Move<true>(launch, list);
}

int DecodeOnDevice(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  if (launch.count == 0) return 0;
  const CodecList list = ListOf(launch);
  const Grid grid = {launch.thread_blocks, launch.stream};
  if (const int error = Launch(grid, BeginDecodeKernel, list); error != 0) return error;
  if (const int error = Move<false>(launch, list); error != 0) return error;
  if (launch.codec == Codec::kRaw) return 0;
  if (launch.codec != Codec::kPackedExponents) return DequantizeOnDevice(launch);
  if (const int error = UnpackOnDevice(launch); error != 0) return error;
  return Launch(grid, ClearRefusedKernel, list);
}

}  // namespace kvtier::kernels
