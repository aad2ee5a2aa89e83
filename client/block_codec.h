// BlockCodec writes a worker's blocks into reserved slots of a space with a codec, and
// reads them out of leased blocks:
//
//   put: Encode(raw block, reserved.slot(i)); if it fails, reserved.GiveBack(i)
//   get: Decode(onboarded.bytes(i), raw block); then onboarded.valid(), as after any copy
//
// A raw block is bf16 in the order of the space's layout. The codec runs on the CPU, in the
// calling thread, at a few GB/s; kernels/codec.h says what is lost.
#ifndef KVTIER_CLIENT_BLOCK_CODEC_H_
#define KVTIER_CLIENT_BLOCK_CODEC_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/space.h"
#include "core/space_codec.h"

namespace kvtier {

// Immutable, so any thread may use it; copies are cheap.
class BlockCodec {
 public:
  // Errors: kInvalidArgument, as SpaceSpec::Validate(), or the space's codec is "raw".
  static absl::StatusOr<BlockCodec> For(const SpaceSpec& spec);

  // Returns the codec of the space; its raw_bytes() is the size of a block that Encode() takes.
  const SpaceCodec& space() const { return space_; }

  // Encodes a block into a slot and returns how it is stored: with the space's codec, or as
  // kRaw, if the codec does not make it smaller and the space's blocks have room for a raw one.
  // Fills the rest of the slot with zeros.
  //
  // Errors: kInvalidArgument, `raw` or `slot` has another size than raw_bytes() and
  // block_bytes, or does not begin at a multiple of 16; kOutOfRange, the block has a
  // NaN, an infinity or exponents that do not pack and the space has no room for raw
  // blocks. After an error the slot's content is undefined and must not be committed.
  absl::StatusOr<Codec> Encode(std::span<const std::byte> raw, std::span<std::byte> slot) const;

  // Decodes a block. Errors: kInvalidArgument, as Encode; kDataLoss, `block` is no encoding
  // of this space, as also happens if the lease ended during the copy. After an error the
  // content of `raw` is undefined.
  absl::Status Decode(std::span<const std::byte> block, std::span<std::byte> raw) const;

 private:
  BlockCodec(const SpaceCodec& space, uint64_t block_bytes)
      : space_(space), block_bytes_(block_bytes) {}
  absl::Status CheckBuffers(std::span<const std::byte> raw, std::span<const std::byte> block) const;

  SpaceCodec space_;
  uint64_t block_bytes_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BLOCK_CODEC_H_
