#include "client/lanes/stored_form.h"

#include "absl/status/status.h"
#include "client/lanes/kv_tensors.h"
#include "core/space_codec.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<StoredForm> StoredAs(const KvGeometry& geometry, KvOrder order,
                                    const SpaceSpec& spec) {
  KVT_RETURN_IF_ERROR(CheckLayers(geometry, spec));
  if (spec.codec == kRawCodec) {
    KVT_RETURN_IF_ERROR(CheckRawBlocks(geometry, order, spec));
    return StoredForm();
  }
  KVT_ASSIGN_OR_RETURN(const SpaceCodec codec, SpaceCodec::Of(spec));
  const StoredBlocks stored = {.shape = codec.shape(),
                               .row_bytes = 2 * uint64_t{spec.head_dim},  // Elements are bf16.
                               .order = order,
                               .codec = codec.codec(),
                               .block_bytes = spec.block_bytes};
  KVT_RETURN_IF_ERROR(RowsOf(geometry, stored).status());
  return StoredForm(stored);
}

}  // namespace kvtier
