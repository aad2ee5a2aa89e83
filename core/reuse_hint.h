// ReuseHint is what an engine knows about the next use of some blocks. A hint moves blocks in the
// order in which they leave a tier; it never makes a block valid or invalid, and a wrong one costs
// hits only. The default says nothing.
#ifndef KVTIER_CORE_REUSE_HINT_H_
#define KVTIER_CORE_REUSE_HINT_H_

#include <cstdint>
#include <optional>

namespace kvtier {

// FinishReason says why the engine ended a request.
enum class FinishReason : uint8_t { kUnknown, kStop, kToolCalls, kLength, kCancelled };

// Priorities are 0, which leaves first, to kMaxPriority.
inline constexpr uint8_t kDefaultPriority = 50;
inline constexpr uint8_t kMaxPriority = 100;

struct ReuseHint {
  uint64_t conversation = 0;     // Hash of the engine's session or conversation id; 0: unknown.
  std::optional<uint32_t> turn;  // Requests of the conversation before this one.
  FinishReason finish = FinishReason::kUnknown;
  bool will_not_return = false;  // Nobody will ask for these blocks again.
  uint8_t priority = kDefaultPriority;

  bool operator==(const ReuseHint&) const = default;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_HINT_H_
