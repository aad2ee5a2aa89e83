// StoredForm says what lanes do to an engine's blocks on the way to the form in which a space
// stores them: nothing, or a codec encodes and decodes them.
//
// Pure.
#ifndef KVTIER_CLIENT_LANES_STORED_FORM_H_
#define KVTIER_CLIENT_LANES_STORED_FORM_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/space.h"
#include "tier_gpu/plan/geometry.h"
#include "tier_gpu/plan/stored_blocks.h"

namespace kvtier {

// Form of stored blocks. Without a codec, blocks are stored unchanged. With one, the lane encodes
// and decodes them, whatever the order of tokens and heads.
using StoredForm = std::optional<StoredBlocks>;

// Returns how the space stores blocks of this geometry. Errors: kInvalidArgument, naming the
// space's field and the two values: as CheckLayers(); for raw blocks as CheckRawBlocks(), for
// encoded ones as SpaceCodec::Of() and RowsOf().
absl::StatusOr<StoredForm> StoredAs(const KvGeometry& geometry, KvOrder order,
                                    const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_STORED_FORM_H_
