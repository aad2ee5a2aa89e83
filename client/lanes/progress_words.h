// ProgressWords are the words in which the onboard lane reports how many layers of a job are there,
// so that compute on the device can wait for a layer. A word serves one job after another and only
// rises: a job's layers count from where the previous job ended.
#ifndef KVTIER_CLIENT_LANES_PROGRESS_WORDS_H_
#define KVTIER_CLIENT_LANES_PROGRESS_WORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier {

// Word of one job: `base + layers` in the word means that `layers` layers are complete.
struct ProgressWord {
  SignalWord* word = nullptr;
  uint64_t base = 0;
  size_t index = 0;
  std::shared_ptr<const SignalPage> page;  // Keeps the word alive.
};

// ProgressWords hands out words. Thread-safe.
class ProgressWords {
 public:
  // Takes `page`, which is pinned, and whose words no other code uses.
  explicit ProgressWords(std::shared_ptr<const SignalPage> page);

  // Returns a free word; nullopt: every word is taken.
  std::optional<ProgressWord> Take() ABSL_LOCKS_EXCLUDED(mu_);
  // Frees a word that Take() returned. REQUIRES: the word is base + layers, and no lane writes it
  // any more.
  void GiveBack(const ProgressWord& word, uint32_t layers) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<const SignalPage>& page() const { return page_; }

 private:
  const std::shared_ptr<const SignalPage> page_;
  absl::Mutex mu_;
  std::vector<size_t> free_ ABSL_GUARDED_BY(mu_);
  std::array<uint64_t, kSignalWords> bases_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_PROGRESS_WORDS_H_
