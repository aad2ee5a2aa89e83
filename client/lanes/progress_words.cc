#include "client/lanes/progress_words.h"

#include <utility>

namespace kvtier {

ProgressWords::ProgressWords(std::shared_ptr<const SignalPage> page) : page_(std::move(page)) {
  const absl::MutexLock lock(&mu_);
  for (size_t i = kSignalWords; i > 0; --i) free_.push_back(i - 1);
}

std::optional<ProgressWord> ProgressWords::Take() {
  const absl::MutexLock lock(&mu_);
  if (free_.empty()) return std::nullopt;
  const size_t index = free_.back();
  free_.pop_back();
  return ProgressWord{
      .word = page_->word(index), .base = bases_[index], .index = index, .page = page_};
}

void ProgressWords::GiveBack(const ProgressWord& word, uint32_t layers) {
  const absl::MutexLock lock(&mu_);
  bases_[word.index] = word.base + layers;
  free_.push_back(word.index);
}

}  // namespace kvtier
