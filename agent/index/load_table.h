// LoadTable makes sure that one load of a block into one memory is in flight: the second asker
// waits on the first one's result, inside its own deadline.
//
// Executor thread only.
#ifndef KVTIER_AGENT_INDEX_LOAD_TABLE_H_
#define KVTIER_AGENT_INDEX_LOAD_TABLE_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "agent/index/pin.h"
#include "core/block_key.h"
#include "core/check.h"
#include "core/event.h"
#include "core/tier.h"

namespace kvtier {

// Load is one block on its way into a tier. Its askers share it; after `done`, `status` says how it
// went and, when kOk, the block stays pinned until the last asker lets go.
struct Load {
  explicit Load(Executor* executor, std::optional<Tier> from) : done(executor), from(from) {}
  Event done;
  absl::Status status;
  Pin pin;
  const std::optional<Tier> from;  // Tier of this node that the block comes from; nullopt: a peer.
  bool awaited = false;            // A worker waits for it, or did until its deadline.
};

using SharedLoad = std::shared_ptr<Load>;

class LoadTable {
 public:
  // Makes a table for blocks that are loaded to `home`. Owns neither argument.
  LoadTable(Executor* executor, PinHome* home) : executor_(executor), home_(home) {}

  // Returns the load of this block; nullptr: none is in flight.
  SharedLoad Find(const BlockKey& key) const {
    const auto found = in_flight_.find(key);
    return found == in_flight_.end() ? nullptr : found->second;
  }
  // REQUIRES: none is in flight for `key`; Finish() is called once for each Start().
  SharedLoad Start(const BlockKey& key, std::optional<Tier> from) {
    SharedLoad load = std::make_shared<Load>(executor_, from);
    KVT_CHECK(in_flight_.emplace(key, load).second);
    return load;
  }
  // Ends the load and wakes the tasks that wait for it. REQUIRES: when `status` is kOk, the block
  // is published in that memory.
  void Finish(const BlockKey& key, absl::Status status) {
    const auto found = in_flight_.find(key);
    KVT_CHECK(found != in_flight_.end());
    const SharedLoad load = std::move(found->second);
    in_flight_.erase(found);
    load->status = std::move(status);
    if (load->status.ok()) load->pin = home_->PinOf(key).value();
    load->done.Set();
  }
  // Returns whether a worker waits for the load still. REQUIRES: it is in flight.
  bool IsAwaited(const BlockKey& key) const {
    const SharedLoad& load = in_flight_.at(key);
    return load->awaited && load.use_count() > 1;
  }
  size_t size() const { return in_flight_.size(); }

 private:
  Executor* const executor_;
  PinHome* const home_;
  absl::flat_hash_map<BlockKey, SharedLoad> in_flight_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_LOAD_TABLE_H_
