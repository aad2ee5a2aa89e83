// AccessChecker finds conflicting accesses to memory that nothing orders, such as a copy that reads
// what the compute is still writing, or a copy into memory that the compute is still reading. Its
// callers report accesses and the events that order them, and it keeps a vector clock for each
// timeline (a lane, compute, the host thread of a process). An access that conflicts with an older
// one is a race unless a chain of edges leads from the older to the newer. So it finds a race even
// in a run in which the two accesses happened at different times.
//
// AccessChecker tracks memory in granules of one block. It is not thread-safe. It serves the
// emulated devices of one test process, which may play several processes.
#ifndef KVTIER_TIER_GPU_DEVICE_ACCESS_CHECKER_H_
#define KVTIER_TIER_GPU_DEVICE_ACCESS_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {

// Mappings may be added and removed on any thread, as host memory is pinned; everything else is
// called on one thread.
class AccessChecker {
 public:
  enum class Timeline : uint32_t {};
  enum class Access : uint8_t { kRead, kWrite };
  // Latest tick that a timeline has seen of each other timeline, by the other's number.
  using VectorClock = std::vector<uint64_t>;

  // REQUIRES: granule > 0.
  explicit AccessChecker(uint64_t granule) : granule_(granule) {}

  Timeline AddTimeline(std::string name);
  // Adds a mapping: `mapped` shows the bytes from `offset` on of the memory `id`, which is the same
  // for every mapping of that memory. Accesses outside every mapping are ignored. Adding the same
  // mapping again counts it twice. REQUIRES: it overlaps no other mapping.
  void AddMapping(std::span<const std::byte> mapped, const std::string& id, uint64_t offset);
  void RemoveMapping(std::span<const std::byte> mapped);

  // Fork() returns the timeline's clock. Join() orders everything that the forked timeline did
  // before Fork() before everything that `timeline` does next.
  VectorClock Fork(Timeline timeline);
  void Join(Timeline timeline, const VectorClock& clock);
  // Do as Fork() and Join() by way of a word: a timeline that acquires the word is ordered after
  // everything that the timelines which released the word did before.
  void Release(Timeline timeline, const void* word);
  void Acquire(Timeline timeline, const void* word);

  void Note(Timeline timeline, Access access, std::span<const std::byte> bytes);

  // Returns the races as text, oldest first; one for each pair of accesses, at most kMaxRaces.
  const std::vector<std::string>& races() const { return races_; }

 private:
  static constexpr size_t kMaxRaces = 100;
  using Place = std::pair<std::string, uint64_t>;  // Memory, and granule in it.
  struct Moment {
    Timeline timeline{};
    uint64_t tick = 0;
  };
  struct History {
    Moment write;               // Tick 0: no write.
    std::vector<Moment> reads;  // Reads since the write; at most one for each timeline.
  };
  struct Mapping {
    std::span<const std::byte> bytes;
    std::string id;
    uint64_t offset = 0;
    size_t times = 0;
  };

  VectorClock& clock(Timeline timeline) { return clocks_[static_cast<size_t>(timeline)]; }
  bool Before(const Moment& older, Timeline timeline);
  void NoteGranule(Timeline timeline, Access access, const Place& place);
  void Report(const Place& place, Access older, const Moment& moment, Access newer,
              Timeline timeline);

  const uint64_t granule_;
  std::vector<std::string> names_;   // Names by timeline.
  std::vector<VectorClock> clocks_;  // Clocks by timeline; all have the same length.
  absl::Mutex mu_;
  std::map<const std::byte*, Mapping> mappings_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<const void*, VectorClock> words_;
  std::map<Place, History> places_;
  std::vector<std::string> races_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_ACCESS_CHECKER_H_
