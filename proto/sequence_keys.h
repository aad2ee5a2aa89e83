// The keys of a sequence on the wire are one string, in which they follow each other, and the
// length of each. One string for each key would cost both ends two allocations a key.
//
// Stateless: thread-safe.
#ifndef KVTIER_PROTO_SEQUENCE_KEYS_H_
#define KVTIER_PROTO_SEQUENCE_KEYS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/block_key.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier::convert {

// Sets the keys of `sequence`.
void SetEngineKeys(std::span<const EngineKey> keys, v1::Sequence* sequence);
// Returns how many keys the sequence has. O(1). The number is right for every sequence that
// EngineKeysFrom() takes.
size_t CountEngineKeys(const v1::Sequence& sequence);
// Returns the keys. Errors: kInvalidArgument, naming `engine_keys` or `key_bytes`, the place and
// the value: a key shorter than 8 or longer than 64 bytes, sizes that do not add up, or more than
// kMaxKeysPerRequest keys.
absl::StatusOr<std::vector<EngineKey>> EngineKeysFrom(const v1::Sequence& sequence);
// Returns the key; nullopt for an empty one. Errors: kInvalidArgument, naming `field` and the
// value.
absl::StatusOr<std::optional<EngineKey>> OptionalEngineKeyFrom(const std::string& key,
                                                               const char* field);

}  // namespace kvtier::convert

#endif  // KVTIER_PROTO_SEQUENCE_KEYS_H_
