// A launch of blocks is at most: what becomes of each block, as far as that can be told
// (Begin); its planes; what is left to move and to sum (Move); the sums. An encoder does
// the planes before it moves, for they may tell that a block must stay raw; a decoder
// after, for it sums what it was given.
#include <cuda_runtime.h>

#include "kernels/codec.h"
#include "kernels/codec_header.h"
#include "kernels/device_launch.cuh"
#include "kernels/piece_sum.cuh"
#include "kernels/plane_launches.cuh"

namespace kvtier::kernels {
namespace {

constexpr uint32_t kHeaderWords = kEncodedHeaderBytes / kWordBytes;

// A codec and the header of its encodings. The two of a launch: its own, and kRaw.
struct Format {
  Codec codec;
  EncodedHeader header;
};

Format FormatOf(Codec codec, const KvShape& shape) { return {codec, HeaderOf(codec, shape)}; }

// What a launch is about, for its kernels.
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

// An encoding, of which what follows the header may have to be copied (raw blocks), and
// all is summed. Addresses are such that a word has the same place from each.
struct EncodingWords {
  uint64_t size;
  uint64_t header;
  uint64_t content;
  uint64_t copy;  // 0: none.

  __device__ uint64_t bytes() const { return size; }
  __device__ uint64_t PlaceOf(uint64_t word) const { return word * kWordBytes; }
  __device__ uint4 Load(uint64_t place, uint32_t /*count*/) const {
    return __ldcs(reinterpret_cast<const uint4*>(AddressOf(place)));
  }
  __device__ void Store(uint64_t place, uint4 value, uint32_t /*count*/) const {
    if (copy == 0 || place < kEncodedHeaderBytes) return;
    __stcs(reinterpret_cast<uint4*>(copy + place), value);
  }
  __device__ uint64_t ByteAt(uint64_t place) const {
    return static_cast<uint64_t>(*reinterpret_cast<const std::byte*>(AddressOf(place)));
  }

 private:
  __device__ uint64_t AddressOf(uint64_t place) const {
    return (place < kEncodedHeaderBytes ? header : content) + place;
  }
};

template <bool kEncode>
__device__ EncodingWords WordsOf(const CodecBlock& block, uint64_t bytes, bool raw) {
  const auto source = reinterpret_cast<uint64_t>(block.source);
  const auto destination = reinterpret_cast<uint64_t>(block.destination);
  if constexpr (kEncode) {
    const uint64_t content = raw ? source - kEncodedHeaderBytes : destination;
    return {bytes, destination, content, raw ? destination : 0};
  } else {
    return {bytes, source, source, raw ? destination - kEncodedHeaderBytes : 0};
  }
}

// `sharing` thread blocks work on each block, as in CopySegments.
template <bool kEncode, bool kSummed>
__global__ void __launch_bounds__(kThreads)
    MoveKernel(CodecList list, uint32_t sharing, SumRequest sum) {
  const uint32_t warp = (blockIdx.x % sharing) * kWarps + threadIdx.x / kWarpLanes;
  for (uint32_t i = blockIdx.x / sharing; i < list.count; i += gridDim.x / sharing) {
    const CodecOutcome outcome = list.outcomes[i];
    if (outcome.bytes == 0) continue;
    const CodecBlock block = list.blocks[i];
    const bool raw = outcome.codec == Codec::kRaw;
    const EncodedHeader& header = list.FormatIn(outcome).header;
    if (kEncode && warp == 0) {
      if (LaneOfWarp() == 0) {
        *reinterpret_cast<EncodedHeader*>(block.destination) = header;
        list.outcomes[i].bytes = header.bytes;
      }
      __syncwarp();  // This warp takes the first piece, too.
    }
    if (!raw && !kSummed) continue;
    MovePieces<kSummed>(WordsOf<kEncode>(block, header.bytes, raw), warp, sharing * kWarps,
                        sum.Takes(header.bytes) ? sum.pieces + uint64_t{i} * sum.room : nullptr);
  }
}

// After Move, and before a decoder may refuse blocks.
struct EncodingLengths {
  CodecList list;
  SumRequest sum;

  __device__ uint64_t BytesOf(uint32_t i) const {
    const CodecOutcome outcome = list.outcomes[i];
    const uint64_t bytes = list.FormatIn(outcome).header.bytes;
    return outcome.bytes != 0 && sum.Takes(bytes) ? bytes : 0;
  }
};

// The codec of a block that was not converted is kRaw, as the reference says.
__global__ void __launch_bounds__(kThreads) ClearRefusedKernel(CodecList list) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < list.count;
       i += gridDim.x * kThreads) {
    if (list.outcomes[i].bytes == 0) list.outcomes[i].codec = Codec::kRaw;
  }
}

template <bool kEncode>
int MoveAndSum(const CodecLaunch& launch, const CodecList& list) {
  const uint32_t sharing =
      launch.count < launch.thread_blocks ? launch.thread_blocks / launch.count : 1;
  const Grid grid = {launch.thread_blocks / sharing * sharing, launch.stream};
  if (launch.sum.sums == nullptr) {
    return Launch(grid, MoveKernel<kEncode, false>, list, sharing, launch.sum);
  }
  const int error = Launch(grid, MoveKernel<kEncode, true>, list, sharing, launch.sum);
  if (error != 0) return error;
  return Launch({launch.thread_blocks, launch.stream}, FinishSumsKernel<EncodingLengths>,
                EncodingLengths{list, launch.sum}, launch.sum, launch.count);
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
  return MoveAndSum<true>(launch, list);
}

int DecodeOnDevice(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  if (launch.count == 0) return 0;
  const CodecList list = ListOf(launch);
  const Grid grid = {launch.thread_blocks, launch.stream};
  if (const int error = Launch(grid, BeginDecodeKernel, list); error != 0) return error;
  if (const int error = MoveAndSum<false>(launch, list); error != 0) return error;
  if (launch.codec == Codec::kRaw) return 0;
  if (launch.codec != Codec::kPackedExponents) return DequantizeOnDevice(launch);
  if (const int error = UnpackOnDevice(launch); error != 0) return error;
  return Launch(grid, ClearRefusedKernel, list);
}

}  // namespace kvtier::kernels
