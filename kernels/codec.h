// Encode makes blocks smaller, Decode makes them blocks again; codec_layout.h has the
// format and the errors. An encoding says what it is, so that a block that must stay
// raw needs no word outside of it.
//
// As with CopySegments, the host form is the reference: the device form takes the same
// launch and writes the same bytes.
#ifndef KVTIER_KERNELS_CODEC_H_
#define KVTIER_KERNELS_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/launch.h"

namespace kvtier::kernels {

// Both addresses are multiples of 16. Sizes are what may be read and written, and
// bound every access, whatever the source holds.
struct CodecBlock {
  const std::byte* source = nullptr;
  uint64_t source_bytes = 0;
  std::byte* destination = nullptr;
  uint64_t destination_bytes = 0;
};

struct CodecOutcome {
  // Written to the destination, from its start. 0: the block was not converted, and
  // its destination has any content.
  uint64_t bytes = 0;
  // Of the encoding: the launch's, or kRaw.
  Codec codec = Codec::kRaw;

  friend bool operator==(const CodecOutcome&, const CodecOutcome&) = default;
};

struct CodecLaunch {
  Codec codec = Codec::kRaw;
  KvShape shape{};
  // `count` blocks and as many outcomes, where the form runs: for a device form
  // device or page-locked memory, kept until the stream has passed the launch.
  // REQUIRES: no destination overlaps a source or another destination.
  const CodecBlock* blocks = nullptr;
  CodecOutcome* outcomes = nullptr;
  uint32_t count = 0;
  // Thread blocks of a device form, at least 1. The result is the same for any number.
  uint32_t thread_blocks = 8;
  // cudaStream_t of a device form; the reference does not read it.
  void* stream = nullptr;
};

// Raw blocks to encodings. A block is stored raw, and its outcome says so, if it holds
// a NaN or an infinity, if its exponents do not pack, or if the codec would not make it
// smaller (short blocks: a step for few elements). Not converted: a block whose source
// has less than RawBytes(shape) or whose destination less than MaxEncodedBytes(shape).
//
// Returns 0, or kInvalidLaunch: unknown codec, shape not IsEncodable, no thread
// blocks, or no list. Then nothing was written.
//
// The device form only enqueues: two to four launches, in which no block waits for
// the host. Its outcomes serve it for notes meanwhile. Returns also the cudaError_t of
// a launch; then those before it run.
int EncodeOnHost(const CodecLaunch& launch);

// Encodings to raw blocks: the launch's codec or kRaw, of the launch's shape. Not
// converted: a block whose source is none of these or is cut off, whose escapes do
// not add up, or whose destination has less than RawBytes(shape). Other damage is
// decoded to some values: whoever stored the encoding has its checksum.
// Returns like EncodeOnHost.
int DecodeOnHost(const CodecLaunch& launch);

#ifdef KVTIER_HAVE_CUDA
int EncodeOnDevice(const CodecLaunch& launch);
int DecodeOnDevice(const CodecLaunch& launch);
#endif

// What all forms refuse.
constexpr bool IsValid(const CodecLaunch& launch) {
  if (!IsKnown(launch.codec) || !IsEncodable(launch.shape)) return false;
  if (launch.thread_blocks == 0) return false;
  return launch.count == 0 || (launch.blocks != nullptr && launch.outcomes != nullptr);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_CODEC_H_
