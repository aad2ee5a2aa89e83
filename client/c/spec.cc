#include "client/c/spec.h"

#include <string>

namespace kvtier::c {
namespace {

constexpr size_t kSpecV1 = offsetof(kvtier_space_spec, codec);

}  // namespace

absl::StatusOr<SpaceSpec> SpecFrom(const kvtier_space_spec* theirs) {
  const absl::StatusOr<kvtier_space_spec> given = CopyIn(theirs, kSpecV1, "spec");
  if (!given.ok()) return given.status();
  if (given->any_length > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.any_length is ", given->any_length, "; must be 0 or 1"));
  }
  return SpaceSpec{.model = TextOr(given->model, ""),
                   .weights_digest = TextOr(given->weights_digest, ""),
                   .lora = TextOr(given->lora, ""),
                   .dtype = TextOr(given->dtype, ""),
                   .layout = TextOr(given->layout, ""),
                   .layers = given->layers,
                   .kv_heads = given->kv_heads,
                   .head_dim = given->head_dim,
                   .tokens_per_block = given->tokens_per_block,
                   .tensor_rank = given->tensor_rank,
                   .tensor_size = given->tensor_size,
                   .pipeline_rank = given->pipeline_rank,
                   .pipeline_size = given->pipeline_size,
                   .block_bytes = given->block_bytes,
                   .codec = TextOr(given->codec, kRawCodec),
                   .any_length = given->any_length == 1};
}

}  // namespace kvtier::c
