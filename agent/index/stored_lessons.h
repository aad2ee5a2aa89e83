// StoredLessons lets the orders of eviction go on, after a restart of the agent, from what they had
// learnt before. An order takes its lessons by its name; those of an order that is no more are
// dropped. Whatever cannot be read, believed or written costs a line in the log, and the orders
// begin again: it is never an error of the agent's.
//
// Executor thread only. The work of one turn is that of one order.
#ifndef KVTIER_AGENT_INDEX_STORED_LESSONS_H_
#define KVTIER_AGENT_INDEX_STORED_LESSONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/index/lessons_store.h"
#include "core/executor.h"
#include "core/reuse_hazards.h"
#include "core/task.h"
#include "core/waits.h"

namespace kvtier {

class StoredLessons {
 public:
  // Owns nothing. Null `store`: nothing is stored.
  StoredLessons(Executor* executor, Waits* waits, LessonsStore* store)
      : executor_(executor), waits_(waits), store_(store) {}

  // Adds what an order learns, under its name; `hazards` must live as long as this is used, or
  // until Remove(). Null is ignored: the order does not learn. REQUIRES: no other order has the
  // name.
  void Add(std::string name, ReuseHazards* hazards);
  // Stops storing what the order of that name learns, so that it may end. Unknown names are
  // ignored.
  void Remove(const std::string& name);
  // Gives each order that is named its lessons. REQUIRES: none of them has learnt yet.
  Task<void> Load();
  // Stores what is learnt until the waits end, and then once more: each time when something was
  // concluded since the last time, and at most once in kLessonsInterval. Call after Load().
  Task<void> Run();

 private:
  struct Order {
    std::string name;
    ReuseHazards* hazards = nullptr;
  };
  // Returns whether the order is named still.
  bool Keeps(const Order& order) const;
  // Counts the conclusions of all orders.
  uint64_t Conclusions() const;
  Task<void> Save();
  // Logs the first of several failures in a row, and the first success after them.
  void NoteSaved(const absl::Status& saved);

  Executor* const executor_;
  Waits* const waits_;
  LessonsStore* const store_;
  std::vector<Order> orders_;
  uint64_t stored_conclusions_ = 0;  // Conclusions() of what the store has.
  bool failing_ = false;             // The last Save() failed.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_STORED_LESSONS_H_
