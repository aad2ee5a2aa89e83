// PutAll stores a run of any length: it reserves, fills and commits as many blocks at a time as fit
// the tenant's memory well.
#ifndef KVTIER_CLIENT_PUT_ALL_H_
#define KVTIER_CLIENT_PUT_ALL_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "core/block_key.h"
#include "core/copy_sum.h"

namespace kvtier {

struct PutAllOptions {
  std::optional<EngineKey> parent{};  // Key before keys[0]; absent: keys[0] is a root.
  // Timeout of each call, and of each wait for room, while blocks go to a disk.
  absl::Duration timeout = absl::Seconds(2);
};

// Numbers of keys, by what became of their blocks.
struct PutCounts {
  size_t stored = 0;   // Published by this call.
  size_t present = 0;  // Cached already, or being put by another worker.
  size_t missed = 0;   // No slot for them, or no agent: they were not put.
};

// Stores the blocks of `keys`, a run of any length in prefix order, the leading ones first.
// `pieces_of(i)` returns where the bytes of block `i` are; it is called for blocks that are to be
// copied, and its span is read before its next call. In a space with any_length a block is as long
// as its pieces, and pieces_of(i) is called once more, before that, for each block. At most a
// quarter of the tenant's slots are reserved at a time. Errors: kInvalidArgument, the pieces of a
// block do not add up to a length that it may have, or as Client::Reserve(); blocks that were
// stored stay.
absl::StatusOr<PutCounts> PutAll(Client* client, SpaceHandle space, std::span<const EngineKey> keys,
                                 absl::FunctionRef<std::span<const ConstPiece>(size_t i)> pieces_of,
                                 const PutAllOptions& options = {});

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PUT_ALL_H_
