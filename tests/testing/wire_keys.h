// Keys of a sequence on the wire, also keys that no client sends.
#ifndef KVTIER_TESTS_TESTING_WIRE_KEYS_H_
#define KVTIER_TESTS_TESTING_WIRE_KEYS_H_

#include "absl/strings/string_view.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier::testing {

// Adds one key of any size. REQUIRES: each key of `sequence` has an entry in key_bytes.
inline void AddWireKey(absl::string_view key, v1::Sequence* sequence) {
  sequence->mutable_engine_keys()->append(key.data(), key.size());
  sequence->add_key_bytes(static_cast<uint32_t>(key.size()));
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_WIRE_KEYS_H_
