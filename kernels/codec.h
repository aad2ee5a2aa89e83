// Encode makes blocks smaller, and Decode restores them; codec_layout.h has the format and the
// errors. An encoding identifies itself, so a block that must stay raw needs no flag outside of it.
//
// The host form is the reference, as with CopySegments: the device form takes the same launch and
// writes the same bytes.
#ifndef KVTIER_KERNELS_CODEC_H_
#define KVTIER_KERNELS_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/launch.h"

namespace kvtier::kernels {

// CodecBlock is one block to convert. Both addresses are multiples of 16. The sizes bound every
// read and write, whatever bytes the source holds.
struct CodecBlock {
  const std::byte* source = nullptr;
  uint64_t source_bytes = 0;
  std::byte* destination = nullptr;
  uint64_t destination_bytes = 0;
};

struct CodecOutcome {
  // Bytes written to the destination, from its start. 0: the block was not converted, and the
  // content of its destination is undefined.
  uint64_t bytes = 0;
  // Codec of the encoding: the launch's, or kRaw.
  Codec codec = Codec::kRaw;

  friend bool operator==(const CodecOutcome&, const CodecOutcome&) = default;
};

struct CodecLaunch {
  Codec codec = Codec::kRaw;
  KvShape shape{};
  // Lists of `count` blocks and `count` outcomes, in memory of the form that runs: for a device
  // form device or page-locked memory, kept until the stream has passed the launch. REQUIRES: no
  // destination overlaps a source or another destination.
  const CodecBlock* blocks = nullptr;
  CodecOutcome* outcomes = nullptr;
  uint32_t count = 0;
  // Number of thread blocks of a device form, at least 1. The result is the same for any number.
  uint32_t thread_blocks = 8;
  // A device form's cudaStream_t; the reference does not read it.
  void* stream = nullptr;
};

// Encodes raw blocks. A block is stored raw, and its outcome says so, if it holds a NaN or an
// infinity, if its exponents do not pack, or if the codec would not make it smaller (short blocks:
// a step for few elements). A block is not converted if its source has fewer bytes than
// RawBytes(shape) or its destination fewer than MaxEncodedBytes(shape).
//
// Returns 0, or kInvalidLaunch without writing anything: unknown codec, shape not IsEncodable, no
// thread blocks, or no list.
//
// The device form only enqueues two to four kernels, which do not wait for the host. It keeps
// intermediate results in the outcomes. It also returns the cudaError_t of a kernel that could not
// be enqueued; the kernels before that one then run.
int EncodeOnHost(const CodecLaunch& launch);

// Decodes encodings of the launch's shape, with the launch's codec or kRaw, to raw blocks. A block
// is not converted if its source is no such encoding or is truncated, if its escapes do not add up,
// or if its destination has fewer bytes than RawBytes(shape). Other damage decodes to wrong values:
// the caller that stored the encoding has its checksum. Returns as EncodeOnHost.
int DecodeOnHost(const CodecLaunch& launch);

#ifdef KVTIER_HAVE_CUDA
int EncodeOnDevice(const CodecLaunch& launch);
int DecodeOnDevice(const CodecLaunch& launch);
#endif

// Returns false for launches that all forms refuse.
constexpr bool IsValid(const CodecLaunch& launch) {
  if (!IsKnown(launch.codec) || !IsEncodable(launch.shape)) return false;
  if (launch.thread_blocks == 0) return false;
  return launch.count == 0 || (launch.blocks != nullptr && launch.outcomes != nullptr);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_CODEC_H_
