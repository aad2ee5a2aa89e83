// StepPage is the session's signal page: shared memory in which a worker tells the agent which of
// its steps began and which have ended. Steps are numbered from 1 and only go up.
#ifndef KVTIER_CLIENT_STEP_PAGE_H_
#define KVTIER_CLIENT_STEP_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "client/mapping.h"
#include "proto/session_wire.h"

namespace kvtier {

// Thread-safe: the words are atomic.
class StepPage {
 public:
  // Maps the page; `fd` may be closed afterwards. Errors: Mapping::Map()'s.
  static absl::StatusOr<std::shared_ptr<const StepPage>> Map(int fd);

  // Tells the agent that the step begins; called before the step touches a slot.
  void Begin(uint64_t step) const { Store(begun_, step); }
  // Tells the agent that the step, and all before it, have ended.
  void Retire(uint64_t step) const { Store(retired_, step); }
  // Changes by `bytes` how many bytes of the session's granted slots hold no token. The changes of
  // several callers add up.
  void AddUnusedBytes(int64_t bytes) const {
    WordAt(wire::kUnusedBytesWord)
        ->fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  }

 private:
  using Word = std::atomic<uint64_t>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == 8);
  explicit StepPage(std::shared_ptr<const Mapping> memory);
  // Stores with release, which pairs with the agent's acquire: an agent that sees the step sees all
  // earlier writes.
  static void Store(Word* word, uint64_t step) { word->store(step, std::memory_order_release); }
  Word* WordAt(size_t index) const;

  const std::shared_ptr<const Mapping> memory_;
  Word* const begun_;
  Word* const retired_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_STEP_PAGE_H_
