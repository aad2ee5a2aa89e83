#include "core/space.h"

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/byte_order.h"
#include "core/sha256.h"
#include "core/space_codec.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr absl::string_view kSpaceTag = "kvtier.space.v1";
constexpr uint32_t kMaxLayers = 4096;
constexpr uint32_t kMaxKvHeads = 4096;
constexpr uint32_t kMaxHeadDim = 65536;
constexpr uint32_t kMaxTokensPerBlock = 65536;
constexpr uint32_t kMaxShards = 4096;

// Well-formed: no overlong form, no surrogate, nothing beyond U+10FFFF.
bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || bytes > text.size() - i) return false;
    for (size_t j = 1; j < bytes; ++j) {
      if ((static_cast<uint8_t>(text[i + j]) & 0xc0) != 0x80) return false;
    }
    const auto second = bytes > 1 ? static_cast<uint8_t>(text[i + 1]) : uint8_t{0};
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += bytes;
  }
  return true;
}

absl::Status CheckBytes(absl::string_view field, absl::string_view bytes, size_t min_bytes) {
  if (bytes.size() >= min_bytes && bytes.size() <= kMaxSpaceTextBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "space ", field, " \"", absl::CHexEscape(bytes.substr(0, kMaxSpaceTextBytes)), "\" of ",
      bytes.size(), " bytes; must be ", min_bytes, " to ", kMaxSpaceTextBytes));
}

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t min_bytes) {
  KVT_RETURN_IF_ERROR(CheckBytes(field, text, min_bytes));
  if (IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("space ", field, " \"", absl::CHexEscape(text),
                                                 "\" is not UTF-8; must be valid UTF-8"));
}

struct Range {
  uint64_t lowest = 0;
  uint64_t highest = 0;
};

absl::Status CheckNumber(absl::string_view field, uint64_t value, Range range) {
  if (value >= range.lowest && value <= range.highest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("space ", field, " is ", value, "; must be ",
                                                 range.lowest, " to ", range.highest));
}

// ItemHash computes SHA-256 over items, each after its length in 4 little-endian bytes.
class ItemHash {
 public:
  void Add(absl::string_view item) {
    std::array<uint8_t, 4> length;
    StoreLittle(static_cast<uint32_t>(item.size()), length.data());
    sha_.Update(length.data(), length.size());
    sha_.Update(item);
  }
  template <std::unsigned_integral T>
  void Add(T number) {
    std::array<uint8_t, sizeof(T)> bytes;
    StoreLittle(number, bytes.data());
    Add(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  SpaceDigest Finish() { return {.bytes = sha_.Finish()}; }

 private:
  Sha256 sha_;
};

}  // namespace

absl::Status SpaceSpec::Validate() const {
  KVT_RETURN_IF_ERROR(CheckText("model", model, 1));
  KVT_RETURN_IF_ERROR(CheckBytes("weights_digest", weights_digest, 1));
  KVT_RETURN_IF_ERROR(CheckText("lora", lora, 0));
  KVT_RETURN_IF_ERROR(CheckText("dtype", dtype, 1));
  KVT_RETURN_IF_ERROR(CheckText("layout", layout, 1));
  KVT_RETURN_IF_ERROR(CheckNumber("layers", layers, {1, kMaxLayers}));
  KVT_RETURN_IF_ERROR(CheckNumber("kv_heads", kv_heads, {1, kMaxKvHeads}));
  KVT_RETURN_IF_ERROR(CheckNumber("head_dim", head_dim, {1, kMaxHeadDim}));
  KVT_RETURN_IF_ERROR(CheckNumber("tokens_per_block", tokens_per_block, {1, kMaxTokensPerBlock}));
  // The sizes first: each bounds its rank.
  KVT_RETURN_IF_ERROR(CheckNumber("tensor_size", tensor_size, {1, kMaxShards}));
  KVT_RETURN_IF_ERROR(CheckNumber("tensor_rank", tensor_rank, {0, tensor_size - 1}));
  KVT_RETURN_IF_ERROR(CheckNumber("pipeline_size", pipeline_size, {1, kMaxShards}));
  KVT_RETURN_IF_ERROR(CheckNumber("pipeline_rank", pipeline_rank, {0, pipeline_size - 1}));
  KVT_RETURN_IF_ERROR(CheckNumber("block_bytes", block_bytes, {1, kMaxBlockBytes}));
  if (codec == kRawCodec) return absl::OkStatus();
  if (any_length) {
    return absl::InvalidArgumentError(absl::StrCat("space any_length is true; codec \"",
                                                   absl::CHexEscape(codec),
                                                   "\" makes blocks of one length"));
  }
  const absl::StatusOr<SpaceCodec> encoded = SpaceCodec::Of(*this);
  if (!encoded.ok()) return encoded.status();
  return encoded->CheckBlockBytes(block_bytes);
}

SpaceDigest SpaceSpec::Digest() const {
  ItemHash hash;
  hash.Add(kSpaceTag);
  hash.Add(kSpaceFormatVersion);
  for (const std::string* text : {&model, &weights_digest, &lora, &dtype, &layout}) {
    hash.Add(absl::string_view(*text));
  }
  for (const uint32_t number : {layers, kv_heads, head_dim, tokens_per_block, tensor_rank,
                                tensor_size, pipeline_rank, pipeline_size}) {
    hash.Add(number);
  }
  hash.Add(block_bytes);
  if (codec != kRawCodec || any_length) hash.Add(absl::string_view(codec));
  if (any_length) hash.Add(uint8_t{1});
  return hash.Finish();
}

}  // namespace kvtier
