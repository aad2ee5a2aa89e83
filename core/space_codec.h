// SpaceCodec says whether the codec of a space can encode its blocks, and how large they then are.
// It encodes nothing; core/codec_layout.h has the bytes.
#ifndef KVTIER_CORE_SPACE_CODEC_H_
#define KVTIER_CORE_SPACE_CODEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/codec_layout.h"
#include "core/space.h"

namespace kvtier {

// Returns the name as SpaceSpec::codec has it.
absl::string_view CodecName(Codec codec);

// Immutable.
class SpaceCodec {
 public:
  // Returns the space's codec. Ignores block_bytes, which a caller may set from the result.
  //
  // Errors: kInvalidArgument, naming the field and the value: the codec is "raw" or
  // none; dtype is not "bfloat16"; layout is neither "layer,kv,token,head,dim" nor
  // "layer,token,head,dim" (one axis, MLA); the shape is not IsEncodable (head_dim is
  // no multiple of 16, a raw block has more than 64 MiB), or the codec would not make
  // its blocks smaller.
  static absl::StatusOr<SpaceCodec> Of(const SpaceSpec& spec);

  Codec codec() const { return codec_; }
  const KvShape& shape() const { return shape_; }

  // Returns the bytes of a block as the worker has it, in bf16.
  uint64_t raw_bytes() const { return RawBytes(shape_); }
  // Return the two sizes that a stored block may have. With encoded_bytes(), a block that the codec
  // cannot make smaller (NaN, infinity, exponents that do not pack) is not stored. With
  // max_encoded_bytes(), such a block is stored raw; this size is larger than a raw block's, so
  // that nothing is saved.
  uint64_t encoded_bytes() const { return EncodedBytes(codec_, shape_); }
  uint64_t max_encoded_bytes() const { return MaxEncodedBytes(shape_); }

  // Errors: kInvalidArgument, it is neither of the two.
  absl::Status CheckBlockBytes(uint64_t block_bytes) const;

 private:
  SpaceCodec(Codec codec, const KvShape& shape) : codec_(codec), shape_(shape) {}

  Codec codec_;
  KvShape shape_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SPACE_CODEC_H_
