// Computes sums of payloads: XXH3-128 (seed 0, default secret) of the bytes that a launch moves,
// the same 128 bits that the library computes, for payloads of at least kLeastSummedBytes. Shorter
// payloads are not summed, because XXH3 uses five other methods for them.
//
// XXH3 reads a payload in pieces of 1024 bytes. What a piece adds to the eight lanes of its state
// does not depend on earlier pieces, so the threads that move the bytes compute it on the way. Only
// the state itself, 64 bytes, has to be carried from piece to piece. The thread block that finishes
// last does that: 41 ns a piece on an H200, so 84 us for 2 MiB, all payloads at once. A launch of
// its own would wait once more for room beside an engine's kernels.
#ifndef KVTIER_KERNELS_PAYLOAD_SUM_H_
#define KVTIER_KERNELS_PAYLOAD_SUM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/launch.h"
#include "kernels/xxh3_lanes.h"

namespace kvtier::kernels {

inline constexpr uint64_t kLeastSummedBytes = 241;

struct PayloadSum {
  uint64_t hi = 0;
  uint64_t lo = 0;
  uint64_t bytes = 0;  // Bytes of the payload; 0: no sum was taken.

  friend bool operator==(const PayloadSum&, const PayloadSum&) = default;
};

// Contribution of one piece to the state.
struct alignas(16) LaneSums {
  uint64_t lanes[kXxh3Lanes];
};

KVTIER_HOST_DEVICE constexpr uint64_t PiecesOf(uint64_t bytes) {
  return (bytes + kXxh3PieceBytes - 1) / kXxh3PieceBytes;
}

// Request to a launch for a sum of each of its `count` payloads. For a device form all memory is
// device or page-locked memory, and kept as long as the launch's lists.
struct SumRequest {
  PayloadSum* sums = nullptr;  // Room for `count` sums; null: no sums.
  // Working memory of a device form, `count` * `room`; the host form does not touch it.
  LaneSums* pieces = nullptr;
  // Number of thread blocks of a device form that are done: 0 before and after the launch. No other
  // launch may use it meanwhile.
  uint32_t* arrived = nullptr;
  // PiecesOf the longest payload. Longer payloads are not summed.
  uint32_t room = 0;

  KVTIER_HOST_DEVICE constexpr bool Takes(uint64_t bytes) const {
    return bytes >= kLeastSummedBytes && PiecesOf(bytes) <= room;
  }
};

KVTIER_HOST_DEVICE constexpr bool IsValid(const SumRequest& request) {
  return request.sums == nullptr || (request.pieces != nullptr && request.arrived != nullptr);
}

// PayloadSummer sums a payload that is given in parts, on the host.
class PayloadSummer {
 public:
  void Append(const std::byte* bytes, uint64_t count);
  // Returns the sum. REQUIRES: at least kLeastSummedBytes were appended.
  PayloadSum Sum() const;

 private:
  void AddPiece();

  uint64_t state_[kXxh3Lanes] = KVTIER_XXH3_START;
  std::array<std::byte, kXxh3PieceBytes> piece_;  // The first `held_` bytes are valid.
  std::array<std::byte, kXxh3StripeBytes> last_;  // End of the previous piece.
  uint64_t held_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PAYLOAD_SUM_H_
