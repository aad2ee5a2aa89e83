// ReuseFacts tells a watcher, where there is one, of each fact about reuse as the orders of
// eviction get it: why a block came, that it was used, and what its engine says of its next use.
//
// Executor thread only.
#ifndef KVTIER_AGENT_INDEX_REUSE_FACTS_H_
#define KVTIER_AGENT_INDEX_REUSE_FACTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "core/arrival.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"
#include "core/tier.h"

namespace kvtier {

struct ReuseFact {
  enum class Kind : uint8_t { kArrival, kUse, kAdvice };
  Kind kind = Kind::kUse;
  Tier tier = Tier::kHost;  // Memory whose order it goes to.
  BlockKey key;
  std::optional<Arrival> arrival{};  // Set for kArrival.
  ReuseHint hint{};
};

class ReuseFacts {
 public:
  using Watch = std::function<void(const ReuseFact&)>;
  // Replaces the watcher; empty: nobody is told.
  void SetWatch(Watch watch) { watch_ = std::move(watch); }
  void Tell(const ReuseFact& fact) const {
    if (watch_) watch_(fact);
  }

 private:
  Watch watch_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_REUSE_FACTS_H_
