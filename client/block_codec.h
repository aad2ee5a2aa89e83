// BlockCodec writes a worker's blocks into reserved slots of a space with a codec, and
// reads them out of leased blocks:
//
//   put: Encode(raw block, reserved.slot(i)); if it fails, reserved.GiveBack(i)
//   get: Decode(onboarded.bytes(i), raw block); then onboarded.valid(), as after any copy
//
// A raw block is bf16 in the order of the space's layout. It runs on the CPU, in the
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

  // Sizes: raw_bytes() of what Encode takes, block_bytes of what it writes.
  const SpaceCodec& space() const { return space_; }

  // Returns what the block was stored as: the space's codec, or kRaw, for a block that
  // the codec does not make smaller in a space whose blocks have room for it. What the
  // encoding leaves of the slot is zero-filled.
  //
  // Errors: kInvalidArgument, `raw` or `slot` has another size than raw_bytes() and
  // block_bytes, or does not begin at a multiple of 16; kOutOfRange, the block has a
  // NaN, an infinity or exponents that do not pack and the space has no room for raw
  // blocks. Then the slot has any content and must not be committed.
  absl::StatusOr<Codec> Encode(std::span<const std::byte> raw, std::span<std::byte> slot) const;

  // Errors: kInvalidArgument, as Encode; kDataLoss, `block` is no encoding of this
  // space, which a lease that ended during the copy may look like. Then `raw` has any
  // content.
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
