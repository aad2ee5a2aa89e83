// ByteBudget promises bytes before they move; Reservation is the promise. What a
// tier may hold is decided here, once, before any slot or record is touched.
#ifndef KVTIER_CORE_BYTE_BUDGET_H_
#define KVTIER_CORE_BYTE_BUDGET_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace kvtier {

class ByteBudget;

// Move-only; the destructor gives the bytes back. REQUIRES: outlived by its budget.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }
  uint64_t bytes() const { return bytes_; }
  void Release();

 private:
  friend class ByteBudget;
  Reservation(ByteBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}
  ByteBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

// Executor thread only. Invariant: used() <= capacity().
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t capacity) : capacity_(capacity) {}
  // Takes `bytes` until the reservation ends. Errors: kResourceExhausted, fewer than `bytes` are
  // free (evict, then retry).
  absl::StatusOr<Reservation> Reserve(uint64_t bytes);
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }

 private:
  friend class Reservation;
  const uint64_t capacity_;
  uint64_t used_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_BYTE_BUDGET_H_
