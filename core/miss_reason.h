// MissReason says why a block that was asked for did not come.
#ifndef KVTIER_CORE_MISS_REASON_H_
#define KVTIER_CORE_MISS_REASON_H_

#include <cstddef>
#include <cstdint>

namespace kvtier {

enum class MissReason : uint8_t {
  kNone,          // Nothing is missing.
  kAbsent,        // No tier that was asked has it.
  kEvicted,       // No tier has it; it left this node's memory a while ago to make room.
  kDeadline,      // It did not come in time.
  kNoRoom,        // There was no room for it, or no lease left.
  kDamaged,       // Its bytes did not match its sum.
  kUnreachable,   // The agent is away, or the client's breaker is open.
  kSpaceRefused,  // The agent does not take the space.
  kBusy,          // It was not waited for, because too many blocks waited already.
};
inline constexpr size_t kMissReasonCount = 9;

// Returns "none", "absent", "evicted", "deadline", "no_room", "damaged", "unreachable",
// "space_refused" or "busy".
constexpr const char* MissReasonName(MissReason reason) {
  constexpr const char* kNames[kMissReasonCount] = {"none",        "absent",        "evicted",
                                                    "deadline",    "no_room",       "damaged",
                                                    "unreachable", "space_refused", "busy"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace kvtier

#endif  // KVTIER_CORE_MISS_REASON_H_
