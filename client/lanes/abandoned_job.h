// KeepAbandoned() keeps everything that an abandoned copy uses: a lost device gave the copy up, but
// may still run it. It is kept as long as the process lives, and for that long the agent gives none
// of it to others: a reservation that is not given back stays the worker's.
#ifndef KVTIER_CLIENT_LANES_ABANDONED_JOB_H_
#define KVTIER_CLIENT_LANES_ABANDONED_JOB_H_

#include <memory>
#include <tuple>
#include <utility>

namespace kvtier {

// Keeps the object as long as the process lives. Thread-safe.
void KeepForever(std::shared_ptr<const void> kept);

template <typename... Uses>
void KeepAbandoned(Uses... uses) {
  KeepForever(std::make_shared<std::tuple<Uses...>>(std::move(uses)...));
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_ABANDONED_JOB_H_
