#include "client/block_codec.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "kernels/codec.h"

namespace kvtier {
namespace {

using kernels::CodecOutcome;

constexpr uintptr_t kAlignment = 16;  // Alignment of CodecBlock's addresses.

absl::Status CheckBuffer(absl::string_view name, std::span<const std::byte> buffer,
                         uint64_t bytes) {
  if (buffer.size() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", buffer.size(), " bytes; must be ", bytes));
  }
  const auto past = reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment;
  if (past == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " begins ", past, " bytes past a multiple of ", kAlignment, "; must begin at one"));
}

using Form = int (*)(const kernels::CodecLaunch&);

CodecOutcome Run(Form form, const SpaceCodec& space, const kernels::CodecBlock& block) {
  CodecOutcome outcome;
  const int error = form({.codec = space.codec(),
                          .shape = space.shape(),
                          .blocks = &block,
                          .outcomes = &outcome,
                          .count = 1});
  KVT_CHECK(error == 0);  // The shape was validated with the space.
  return outcome;
}

}  // namespace

absl::StatusOr<BlockCodec> BlockCodec::For(const SpaceSpec& spec) {
  KVT_RETURN_IF_ERROR(spec.Validate());
  KVT_ASSIGN_OR_RETURN(const SpaceCodec space, SpaceCodec::Of(spec));
  return BlockCodec(space, spec.block_bytes);
}

absl::StatusOr<Codec> BlockCodec::Encode(std::span<const std::byte> raw,
                                         std::span<std::byte> slot) const {
  KVT_RETURN_IF_ERROR(CheckBuffers(raw, slot));
  // The kernel needs room for a raw block, whatever it then writes.
  std::unique_ptr<std::byte[]> roomy;
  std::span<std::byte> destination = slot;
  if (slot.size() < space_.max_encoded_bytes()) {
    roomy = std::make_unique_for_overwrite<std::byte[]>(space_.max_encoded_bytes());
    destination = {roomy.get(), space_.max_encoded_bytes()};
  }
  const CodecOutcome outcome = Run(kernels::EncodeOnHost, space_,
                                   {.source = raw.data(),
                                    .source_bytes = raw.size(),
                                    .destination = destination.data(),
                                    .destination_bytes = destination.size()});
  KVT_CHECK(outcome.bytes > 0);  // Both buffers are as large as the kernel needs.
  if (outcome.bytes > slot.size()) {
    return absl::OutOfRangeError(absl::StrCat("the block does not become smaller with codec ",
                                              CodecName(space_.codec()), ", and a slot of ",
                                              slot.size(), " bytes has no room for it raw"));
  }
  if (roomy != nullptr) std::copy_n(destination.begin(), outcome.bytes, slot.begin());
  std::ranges::fill(slot.subspan(outcome.bytes), std::byte{0});
  return outcome.codec;
}

absl::Status BlockCodec::Decode(std::span<const std::byte> block, std::span<std::byte> raw) const {
  KVT_RETURN_IF_ERROR(CheckBuffers(raw, block));
  const CodecOutcome outcome = Run(kernels::DecodeOnHost, space_,
                                   {.source = block.data(),
                                    .source_bytes = block.size(),
                                    .destination = raw.data(),
                                    .destination_bytes = raw.size()});
  if (outcome.bytes > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the block of ", block.size(),
                                          " bytes is no encoding of codec ",
                                          CodecName(space_.codec()), " in this space's shape"));
}

absl::Status BlockCodec::CheckBuffers(std::span<const std::byte> raw,
                                      std::span<const std::byte> block) const {
  KVT_RETURN_IF_ERROR(CheckBuffer("raw", raw, space_.raw_bytes()));
  return CheckBuffer("block", block, block_bytes_);
}

}  // namespace kvtier
