#include "core/space_codec.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr absl::string_view kBf16 = "bfloat16";
constexpr absl::string_view kTwoAxes = "layer,kv,token,head,dim";
constexpr absl::string_view kOneAxis = "layer,token,head,dim";

constexpr std::array<std::pair<Codec, const char*>, 4> kCodecNames = {{
    {Codec::kRaw, kRawCodec},
    {Codec::kFp8E4m3, "fp8_e4m3"},
    {Codec::kInt8, "int8"},
    {Codec::kPackedExponents, "packed_exponents"},
}};

absl::StatusOr<Codec> CodecNamed(absl::string_view name) {
  for (const auto& [codec, its_name] : kCodecNames) {
    if (name == its_name) return codec;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("space codec \"", absl::CHexEscape(name.substr(0, kMaxSpaceTextBytes)),
                   "\"; must be raw, fp8_e4m3, int8 or packed_exponents"));
}

absl::StatusOr<uint32_t> AxesOf(const SpaceSpec& spec) {
  if (spec.layout == kTwoAxes) return 2;
  if (spec.layout == kOneAxis) return 1;
  return absl::InvalidArgumentError(absl::StrCat("space layout \"", absl::CHexEscape(spec.layout),
                                                 "\"; codec ", spec.codec, " is for \"", kTwoAxes,
                                                 "\" and \"", kOneAxis, "\""));
}

}  // namespace

absl::string_view CodecName(Codec codec) {
  for (const auto& [its_codec, name] : kCodecNames) {
    if (codec == its_codec) return name;
  }
  return "unknown";
}

absl::StatusOr<SpaceCodec> SpaceCodec::Of(const SpaceSpec& spec) {
  KVT_ASSIGN_OR_RETURN(const Codec codec, CodecNamed(spec.codec));
  if (codec == Codec::kRaw) {
    return absl::InvalidArgumentError("space codec is \"raw\"; must be one that encodes blocks");
  }
  if (spec.dtype != kBf16) {
    return absl::InvalidArgumentError(absl::StrCat("space dtype \"", absl::CHexEscape(spec.dtype),
                                                   "\"; codec ", spec.codec, " is for ", kBf16));
  }
  KVT_ASSIGN_OR_RETURN(const uint32_t axes, AxesOf(spec));
  if (spec.head_dim % kCodecTile != 0) {
    return absl::InvalidArgumentError(absl::StrCat("space head_dim is ", spec.head_dim, "; codec ",
                                                   spec.codec, " needs a multiple of ",
                                                   kCodecTile));
  }
  const KvShape shape{.layers = spec.layers,
                      .axes = axes,
                      .tokens = spec.tokens_per_block,
                      .kv_heads = spec.kv_heads,
                      .head_dim = spec.head_dim};
  const auto sizes = absl::StrCat(shape.layers, " x ", axes, " x ", shape.tokens, " x ",
                                  shape.kv_heads, " x ", shape.head_dim);
  if (!IsEncodable(shape)) {
    return absl::InvalidArgumentError(absl::StrCat("space layers x axes x tokens_per_block x ",
                                                   "kv_heads x head_dim is ", sizes, "; codec ",
                                                   spec.codec, " is for blocks of 64 MiB at most"));
  }
  const SpaceCodec space(codec, shape);
  if (space.encoded_bytes() >= space.raw_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("space tokens_per_block is ", shape.tokens,
                                                   "; codec ", spec.codec,
                                                   " does not make blocks of ", sizes, " smaller"));
  }
  return space;
}

absl::Status SpaceCodec::CheckBlockBytes(uint64_t block_bytes) const {
  if (block_bytes == encoded_bytes() || block_bytes == max_encoded_bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("space block_bytes is ", block_bytes, "; codec ", CodecName(codec_),
                   " makes blocks of this shape ", encoded_bytes(), ", or ", max_encoded_bytes(),
                   " with room for those that it cannot make smaller"));
}

}  // namespace kvtier
