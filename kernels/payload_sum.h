// Sums of payloads: XXH3-128 (seed 0, default secret) of what a launch moves, the
// same 128 bits as of the library, for payloads of at least kLeastSummedBytes. The
// shorter ones, which XXH3 sums in five other ways, are not taken.
//
// XXH3 goes over a payload in pieces of 1024 bytes. What the bytes of a piece add to
// the eight lanes of its state does not depend on what came before, so the threads that
// move them compute it beside; only the state itself, 64 bytes a piece, has to be
// carried from piece to piece, by the thread block that is done last: 41 ns a piece on an
// H200, so 84 us for 2 MiB, all payloads at once. It is no launch of its own, which would
// wait once more for room beside an engine's kernels.
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
  uint64_t bytes = 0;  // Of the payload; 0: no sum was taken.

  friend bool operator==(const PayloadSum&, const PayloadSum&) = default;
};

// What a piece adds to the state.
struct alignas(16) LaneSums {
  uint64_t lanes[kXxh3Lanes];
};

KVTIER_HOST_DEVICE constexpr uint64_t PiecesOf(uint64_t bytes) {
  return (bytes + kXxh3PieceBytes - 1) / kXxh3PieceBytes;
}

// Asks a launch for a sum of each of its `count` payloads. All memory is device or
// page-locked memory for a device form, and kept like the launch's lists.
struct SumRequest {
  PayloadSum* sums = nullptr;  // `count`; null: no sums.
  // Room for a device form to work in, `count` * `room`; the host's does not touch it.
  LaneSums* pieces = nullptr;
  // Number of thread blocks of a device form that are done: 0 before the launch and behind it. No
  // other launch uses it meanwhile.
  uint32_t* arrived = nullptr;
  // PiecesOf the longest payload. No sum is taken of a longer one.
  uint32_t room = 0;

  KVTIER_HOST_DEVICE constexpr bool Takes(uint64_t bytes) const {
    return bytes >= kLeastSummedBytes && PiecesOf(bytes) <= room;
  }
};

KVTIER_HOST_DEVICE constexpr bool IsValid(const SumRequest& request) {
  return request.sums == nullptr || (request.pieces != nullptr && request.arrived != nullptr);
}

// Sums a payload that comes in parts, on the host.
class PayloadSummer {
 public:
  void Append(const std::byte* bytes, uint64_t count);
  // REQUIRES: at least kLeastSummedBytes were appended.
  PayloadSum Sum() const;

 private:
  void AddPiece();

  uint64_t state_[kXxh3Lanes] = KVTIER_XXH3_START;
  std::array<std::byte, kXxh3PieceBytes> piece_;  // Of which `held_` bytes.
  std::array<std::byte, kXxh3StripeBytes> last_;  // The end of the piece before.
  uint64_t held_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PAYLOAD_SUM_H_
