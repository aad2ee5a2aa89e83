// AccessChecker finds accesses to memory that nothing orders: a copy that reads what the
// compute is still writing, a copy into what it is still reading. It is told of accesses
// and of what orders them, and keeps a vector clock for each timeline (a lane, compute,
// the host thread of a process): an access that conflicts with an older one is a race
// unless a chain of edges leads from the older to the newer. So a race is found even in
// a run in which the two happened to fall apart in time.
//
// Memory is looked at in granules of one block. Not thread-safe. Of emulated devices of
// one test process, which may play several processes.
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

// Mappings come and go on any thread, as host memory is pinned; all else on one.
class AccessChecker {
 public:
  enum class Timeline : uint32_t {};
  enum class Access : uint8_t { kRead, kWrite };
  // What a timeline has seen of every other, by number of timeline.
  using VectorClock = std::vector<uint64_t>;

  // REQUIRES: granule > 0.
  explicit AccessChecker(uint64_t granule) : granule_(granule) {}

  Timeline AddTimeline(std::string name);
  // `mapped` are the bytes from `offset` of the memory `id`, which is the same for every
  // mapping of it. Accesses outside every mapping are not looked at. The same again
  // counts. REQUIRES: overlaps no other mapping.
  void AddMapping(std::span<const std::byte> mapped, const std::string& id, uint64_t offset);
  void RemoveMapping(std::span<const std::byte> mapped);

  // What `timeline` did so far is before whoever joins the clock.
  VectorClock Fork(Timeline timeline);
  void Join(Timeline timeline, const VectorClock& clock);
  // The same through a word: everybody who acquires it is after all who released it.
  void Release(Timeline timeline, const void* word);
  void Acquire(Timeline timeline, const void* word);

  void Note(Timeline timeline, Access access, std::span<const std::byte> bytes);

  // In words, oldest first; one for each pair of accesses, up to kMaxRaces.
  const std::vector<std::string>& races() const { return races_; }

 private:
  static constexpr size_t kMaxRaces = 100;
  using Place = std::pair<std::string, uint64_t>;  // Memory, and granule in it.
  struct Moment {
    Timeline timeline{};
    uint64_t tick = 0;
  };
  struct History {
    Moment write;               // tick 0: none.
    std::vector<Moment> reads;  // Since the write; one a timeline.
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
  std::vector<std::string> names_;   // By timeline.
  std::vector<VectorClock> clocks_;  // By timeline; all of one length.
  absl::Mutex mu_;
  std::map<const std::byte*, Mapping> mappings_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<const void*, VectorClock> words_;
  std::map<Place, History> places_;
  std::vector<std::string> races_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_ACCESS_CHECKER_H_
