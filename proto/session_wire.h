// The descriptor socket's conversation: length-checked packets (session_packets.h) over a
// SEQPACKET Unix socket.
// Handshake: agent sends Challenge, worker answers Hello, agent answers Welcome.
// Then any number of DescriptorRequest -> DescriptorReply (with one descriptor by
// SCM_RIGHTS when kOk), at any time. Hangup ends the session. docs/design/wire.md tells the whole.
#ifndef KVTIER_PROTO_SESSION_WIRE_H_
#define KVTIER_PROTO_SESSION_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/session_key.h"
#include "proto/session_packets.h"

namespace kvtier::wire {

// Returns HMAC-SHA-256(session key, domain tag || nonce): proves the tenant without sending its
// key.
std::array<uint8_t, 32> SessionProof(const SessionKey& tenant, std::span<const uint8_t, 32> nonce);

// Reads one packet as Hello or DescriptorRequest. Errors: kInvalidArgument with
// what is wrong (size, magic, a name without end, an unknown kind, an index). An unknown
// version is not an error here: the session layer answers it.
absl::StatusOr<Hello> ParseHello(std::span<const std::byte> packet);
absl::StatusOr<DescriptorRequest> ParseDescriptorRequest(std::span<const std::byte> packet);
// Returns the version that both speak: the newest that both know. 0: there is none.
uint16_t SpokenVersion(uint16_t their_newest, uint16_t their_oldest);
// Returns the agent's answer to a Hello, tenant and session aside: kOk, kVersionMismatch, or
// kLayoutMismatch with how this build lays out the version that both speak.
Welcome AnswerTo(const Hello& hello);
// Returns why AnswerTo() refused, for the agent's log: both ranges, or both layouts.
std::string WhyRefused(const Hello& hello);

}  // namespace kvtier::wire

#endif  // KVTIER_PROTO_SESSION_WIRE_H_
