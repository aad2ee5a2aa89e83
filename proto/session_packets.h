// The packets of the descriptor socket, and the words of shared pages: all that two
// builds must lay out alike. LayoutDigest() is taken of this text, of the .proto files and of
// residency_words.h.
// Packets are structs of fixed size, one struct a packet, little-endian, no pointers, no variable
// part. docs/design/wire.md tells who sends which, and how a version is added.
#ifndef KVTIER_PROTO_SESSION_PACKETS_H_
#define KVTIER_PROTO_SESSION_PACKETS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvtier::wire {

inline constexpr uint32_t kMagic = 0x5354'564b;  // The bytes "KVTS".
// Version of all wires, gRPC's as well.
inline constexpr uint16_t kSessionVersion = 1;
inline constexpr uint16_t kMinSessionVersion = 1;
inline constexpr size_t kMaxTenantBytes = 63;  // Longest name of a tenant, NUL excluded.
// File names in the agent's --socket_dir.
inline constexpr char kControlSocketName[] = "kvtier.sock";        // gRPC.
inline constexpr char kDescriptorSocketName[] = "kvtier-fd.sock";  // This protocol.

struct Challenge {
  uint32_t magic = kMagic;
  uint16_t version = kSessionVersion;
  uint16_t min_version = kMinSessionVersion;
  std::array<uint8_t, 32> nonce{};
};
static_assert(sizeof(Challenge) == 40);

struct Hello {
  uint32_t magic = kMagic;
  uint16_t version = kSessionVersion;
  uint16_t min_version = kMinSessionVersion;
  std::array<char, 64> tenant{};    // NUL-padded name.
  std::array<uint8_t, 32> proof{};  // SessionProof() of the tenant's key and the nonce.
  uint64_t layout = 0;              // LayoutDigest() of the version that both speak.
  // NUL-padded name of the share group whose blocks the session works on; empty: the tenant's own.
  std::array<char, 64> group{};
};
static_assert(sizeof(Hello) == 176);

enum class WelcomeCode : uint16_t {
  kOk = 0,
  kVersionMismatch = 1,  // version and min_version say what the agent speaks.
  // No such tenant, a wrong proof, or no such share group with this member: not told apart.
  kUnknownTenant = 2,
  kTooManySessions = 3,
  kMalformed = 4,
  kForbiddenUser = 5,   // SO_PEERCRED's uid is not allowed.
  kLayoutMismatch = 6,  // `layout` says how the agent's build lays out what both speak.
};

struct Welcome {
  uint32_t magic = kMagic;
  uint16_t version = kSessionVersion;
  uint16_t min_version = kMinSessionVersion;
  WelcomeCode code = WelcomeCode::kOk;
  uint16_t may_write = 0;  // 1: the session may write blocks; 0: it may only read those of a group.
  std::array<uint8_t, 4> reserved{};
  std::array<uint8_t, 16> session_token{};
  // Same meaning as in Hello; 0 if the agent did not get as far as comparing it.
  uint64_t layout = 0;
  // TenantKey of the share group, which names its blocks; all 0 where Hello names no group.
  std::array<uint8_t, 32> group_key{};
};
static_assert(sizeof(Welcome) == 72);

enum class DescriptorKind : uint32_t {
  kArenaRead = 1,
  kArenaWrite = 2,
  kGpuPool = 3,     // One handle of the pool's region.
  kSignalPage = 4,  // Signal page of the session.
  kLifeline = 5,    // Lifeline of the session.
  kResidency = 6,   // The table of the session's domain, to read (residency_words.h).
  kStaging = 7,     // Region that the session writes, on a node without kArenaWrite.
};

struct DescriptorRequest {
  uint32_t magic = kMagic;
  DescriptorKind kind{};
  uint32_t index = 0;  // Index of the pool's handle; 0 for every other kind.
  uint32_t reserved = 0;
  // UUID of the GPU whose pool a worker asks for; all 0: the one that it had before, or any. All 0
  // for every other kind.
  std::array<uint8_t, 16> device{};
};
static_assert(sizeof(DescriptorRequest) == 32);

enum class DescriptorCode : uint32_t { kOk = 0, kNotAvailable = 1, kMalformed = 2 };

struct DescriptorReply {
  uint32_t magic = kMagic;
  DescriptorCode code = DescriptorCode::kOk;
  uint64_t bytes = 0;        // Bytes that the descriptor maps.
  uint32_t handles = 1;      // Number of handles now, each requested by its index.
  uint32_t max_handles = 1;  // Maximum number of handles: handle i belongs at i * bytes.
  // Version of the pool; 0 for every other kind. It goes up when handles come or go; answers
  // about GPU slots name the one that a worker must have mapped to use them.
  uint64_t version = 0;
  uint64_t since = 0;  // Version at which the pool got this handle; another one is other memory.
  // UUID of the GPU that the handle is memory of; all 0 for every other kind.
  std::array<uint8_t, 16> device{};
  // 1: parts of the arena's memory come and go, so that no device may pin the arena. 0 otherwise.
  uint32_t moves = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(DescriptorReply) == 64);

// The lifeline is one end of a socket pair; the agent keeps the other end. The worker holds it open
// as long as anything in its process may write the slots that the session reserved, and sends this
// byte when nothing does any more. If the end is closed without the byte, the process died, or
// cannot tell.
inline constexpr uint8_t kOverByte = 1;

// Maximum number of handles of a pool: all of their descriptors would fit into one message.
inline constexpr uint32_t kMaxHandles = 253;

// The signal page has words of 8 bytes, a cache line apart. With the first two, which only go up, a
// worker says which of its steps, numbered from 1, it began and which have ended.
inline constexpr size_t kSignalPageBytes = 4096;
inline constexpr size_t kSignalStride = 64;
inline constexpr size_t kBegunWord = 0;
inline constexpr size_t kRetiredWord = 1;
// Word that may go up and down, in which the worker says how many bytes of the slots that it was
// granted hold no token.
inline constexpr size_t kUnusedBytesWord = 2;

}  // namespace kvtier::wire

#endif  // KVTIER_PROTO_SESSION_PACKETS_H_
