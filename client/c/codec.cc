// Implements the codecs of kvtier.h.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "client/block_codec.h"
#include "client/c/handles.h"
#include "client/c/spec.h"

struct kvtier_codec {
  kvtier::BlockCodec codec;
};

namespace kvtier::c {
namespace {

constexpr size_t kSizesV2 = sizeof(kvtier_codec_sizes);

int GetSizes(const kvtier_space_spec* theirs, kvtier_codec_sizes* sizes) {
  if (sizes == nullptr) return Fail(KVTIER_INVALID, "sizes is NULL");
  if (sizes->struct_size < kSizesV2) {
    return Fail(KVTIER_INVALID, "sizes.struct_size is too small; must be the size of the struct");
  }
  const absl::StatusOr<SpaceSpec> spec = SpecFrom(theirs);
  if (!spec.ok()) return Fail(spec.status());
  const absl::StatusOr<SpaceCodec> space = SpaceCodec::Of(*spec);
  if (!space.ok()) return Fail(space.status());
  const kvtier_codec_sizes ours{.struct_size = sizes->struct_size,
                                .raw_bytes = space->raw_bytes(),
                                .encoded_bytes = space->encoded_bytes(),
                                .max_encoded_bytes = space->max_encoded_bytes()};
  std::memcpy(sizes, &ours, std::min(sizes->struct_size, sizeof(ours)));
  return KVTIER_OK;
}

int Open(const kvtier_space_spec* theirs, kvtier_codec** codec) {
  if (codec == nullptr) return Fail(KVTIER_INVALID, "codec is NULL");
  *codec = nullptr;
  const absl::StatusOr<SpaceSpec> spec = SpecFrom(theirs);
  if (!spec.ok()) return Fail(spec.status());
  const absl::StatusOr<BlockCodec> opened = BlockCodec::For(*spec);
  if (!opened.ok()) return Fail(opened.status());
  *codec = new kvtier_codec{*opened};
  return KVTIER_OK;
}

int FailCodec(const absl::Status& status) {
  const bool wrong_call = status.code() == absl::StatusCode::kInvalidArgument;
  return wrong_call ? Fail(status) : Fail(KVTIER_CODEC, std::string(status.message()));
}

}  // namespace
}  // namespace kvtier::c

using kvtier::c::Fail;
using kvtier::c::Guarded;

extern "C" {

int kvtier_get_codec_sizes(const kvtier_space_spec* spec, kvtier_codec_sizes* sizes) {
  return Guarded([&] { return kvtier::c::GetSizes(spec, sizes); });
}

int kvtier_open_codec(const kvtier_space_spec* spec, kvtier_codec** codec) {
  return Guarded([&] { return kvtier::c::Open(spec, codec); });
}

void kvtier_close_codec(kvtier_codec* codec) { delete codec; }

int kvtier_encode(const kvtier_codec* codec, const void* raw, size_t raw_size, void* slot,
                  size_t slot_size) {
  return Guarded([&]() -> int {
    if (codec == nullptr || raw == nullptr || slot == nullptr) {
      return Fail(KVTIER_INVALID, "codec, raw or slot is NULL");
    }
    const auto stored = codec->codec.Encode({static_cast<const std::byte*>(raw), raw_size},
                                            {static_cast<std::byte*>(slot), slot_size});
    if (!stored.ok()) return kvtier::c::FailCodec(stored.status());
    return *stored == kvtier::Codec::kRaw ? 0 : 1;
  });
}

int kvtier_decode(const kvtier_codec* codec, const void* block, size_t block_size, void* raw,
                  size_t raw_size) {
  return Guarded([&]() -> int {
    if (codec == nullptr || block == nullptr || raw == nullptr) {
      return Fail(KVTIER_INVALID, "codec, block or raw is NULL");
    }
    const absl::Status status =
        codec->codec.Decode({static_cast<const std::byte*>(block), block_size},
                            {static_cast<std::byte*>(raw), raw_size});
    return status.ok() ? static_cast<int>(KVTIER_OK) : kvtier::c::FailCodec(status);
  });
}

}  // extern "C"
