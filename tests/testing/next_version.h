// Handshakes of a program of version 2 that still speaks version 1 in this build's layout, with
// fields that this build does not know. docs/design/wire.md says how version 2 is added; until then
// this stands for the other side.
#ifndef KVTIER_TESTS_TESTING_NEXT_VERSION_H_
#define KVTIER_TESTS_TESTING_NEXT_VERSION_H_

#include <cstdint>

#include "kvtier/v1/version.pb.h"
#include "proto/layout_digest.h"
#include "proto/session_packets.h"
#include "tests/testing/unknown_fields.h"

namespace kvtier::testing {

inline constexpr uint16_t kNextVersion = wire::kSessionVersion + 1;

// Returns a handshake of the versions `oldest` to kNextVersion.
inline v1::ProtocolVersion NextProtocol(uint32_t oldest = wire::kSessionVersion) {
  v1::ProtocolVersion message;
  message.set_version(kNextVersion);
  message.set_min_version(oldest);
  message.set_build("kvtier of next year");
  for (uint32_t version = oldest; version < kNextVersion; ++version) {
    message.add_layouts(wire::LayoutDigest(version));
  }
  message.add_layouts(0x2222);
  AddUnknownFields(&message);
  return message;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_NEXT_VERSION_H_
