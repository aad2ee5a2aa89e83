#include "agent/flows/onboard_parts.h"

#include <algorithm>

#include "agent/limits.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::shared_ptr<Onboarder::Parts>> Onboarder::Parts::Begin(
    Onboarder* onboarder, std::vector<OnboardRequest> requests) {
  KVT_CHECK(!requests.empty());
  for (const OnboardRequest& request : requests) {
    if (request.target != Tier::kHost) {
      return absl::InvalidArgumentError(
          "target: must be TIER_HOST where an onboard comes in parts");
    }
  }
  const std::shared_ptr<Parts> parts(new Parts(onboarder, std::move(requests)));
  for (Sequence& sequence : parts->sequences_) {
    onboarder->flows_.scope->Spawn(Gather(parts, &sequence));
  }
  return parts;
}

Onboarder::Parts::Parts(Onboarder* onboarder, std::vector<OnboardRequest> requests)
    : onboarder_(onboarder),
      deadline_(onboarder->flows_.executor->Now() + kMaxRequestTimeout),
      news_(std::make_unique<Event>(onboarder->flows_.executor)),
      watches_(onboarder->flows_.executor) {
  for (const OnboardRequest& request : requests) deadline_ = std::min(deadline_, request.deadline);
  sequences_.reserve(requests.size());
  for (OnboardRequest& request : requests) {
    request.deadline = deadline_;
    request.is_cancelled = &cancelled_;
    sequences_.emplace_back(std::move(request));
  }
  onboarder_->parts_.insert(this);
}

Onboarder::Parts::~Parts() { onboarder_->parts_.erase(this); }

Task<void> Onboarder::Parts::Gather(std::shared_ptr<Parts> parts, Sequence* sequence) {
  Onboarder* const onboarder = parts->onboarder_;
  bool more = true;
  while (more && !parts->cancelled_) {
    more =
        co_await onboarder->GatherMore(sequence->request, Urgency::kForeground, &sequence->brought);
    parts->Look(sequence);
  }
  for (const size_t index : sequence->brought.absent) {
    const Wanted& block = sequence->brought.blocks[index];
    if (block.pin || block.load != nullptr) continue;
    const MissReason missed =
        onboarder->WhyNotGathered(sequence->request.run.keys[index], sequence->brought);
    onboarder->Drop(sequence->request, index, missed, &sequence->brought);
  }
  onboarder->EndGather(sequence->request, &sequence->brought);
  sequence->is_gathered = true;
  parts->news_->Set();
}

void Onboarder::Parts::Look(Sequence* sequence) {
  const Brought& brought = sequence->brought;
  if (sequence->looked < brought.blocks.size()) {
    while (sequence->looked < brought.blocks.size()) LookAt(sequence, sequence->looked++);
  } else {
    // A further round of a set.
    for (const size_t index : brought.found) LookAt(sequence, index);
  }
  news_->Set();
}

void Onboarder::Parts::LookAt(Sequence* sequence, size_t index) {
  const Wanted& block = sequence->brought.blocks[index];
  if (sequence->is_full) return;
  if (block.load != nullptr) {
    ++sequence->coming;
    watches_.Spawn(Watch(sequence, index));
  } else if (block.pin && sequence->request.run.is_set) {
    sequence->ready.push_back(index);
  }
}

Task<void> Onboarder::Parts::Watch(Sequence* sequence, size_t index) {
  const SharedLoad load = sequence->brought.blocks[index].load;
  co_await load->done.WaitUntil(absl::InfiniteFuture());
  Arrive(sequence, index);
  news_->Set();
}

void Onboarder::Parts::Arrive(Sequence* sequence, size_t index) {
  Brought& brought = sequence->brought;
  // The block was dropped, or has arrived.
  if (index >= brought.blocks.size() || brought.blocks[index].load == nullptr) return;
  --sequence->coming;
  MissReason missed = MissReason::kNone;
  if (!onboarder_->Settle(sequence->request, &brought.blocks[index], &missed)) {
    onboarder_->Drop(sequence->request, index, missed, &brought);
  } else if (sequence->request.run.is_set) {
    sequence->ready.push_back(index);
  }
}

void Onboarder::Parts::DropLate(Sequence* sequence) {
  std::vector<Wanted>& blocks = sequence->brought.blocks;
  for (size_t i = sequence->next; i < blocks.size(); ++i) {
    if (blocks[i].load == nullptr) continue;
    if (blocks[i].load->done.is_set()) {
      Arrive(sequence, i);
      continue;
    }
    --sequence->coming;
    onboarder_->Drop(sequence->request, i, MissReason::kDeadline, &sequence->brought);
  }
}

bool Onboarder::Parts::HasNew(const Sequence& sequence) {
  const std::vector<Wanted>& blocks = sequence.brought.blocks;
  if (sequence.request.run.is_set) return !sequence.ready.empty();
  return sequence.next < blocks.size() && blocks[sequence.next].pin;
}

bool Onboarder::Parts::IsOver(const Sequence& sequence) {
  if (sequence.is_full) return true;
  if (HasNew(sequence)) return false;
  if (sequence.request.run.is_set) return sequence.is_gathered && sequence.coming == 0;
  // A run needs no more of its gathering once its next block is missing.
  return sequence.is_gathered ? sequence.next == sequence.brought.blocks.size()
                              : sequence.brought.first_missing <= sequence.next;
}

bool Onboarder::Parts::IsOver() const {
  return std::ranges::all_of(sequences_, [](const Sequence& of) { return IsOver(of); });
}

Task<absl::StatusOr<OnboardPart>> Onboarder::Parts::Next() {
  for (;;) {
    KVT_CO_RETURN_IF_ERROR(onboarder_->CheckSession(sequences_[0].request));
    if (cancelled_) {
      co_return absl::CancelledError("the caller hung up while its blocks were onboarded");
    }
    news_ = std::make_unique<Event>(onboarder_->flows_.executor);
    const bool is_late =
        onboarder_->flows_.waits->ended() || deadline_ <= onboarder_->flows_.executor->Now();
    if (is_late) {
      for (Sequence& sequence : sequences_) DropLate(&sequence);
    }
    if (std::ranges::any_of(sequences_, HasNew) || IsOver()) {
      OnboardPart part = TakeReady();
      if (!part.sequences.empty() || !part.missed.empty()) co_return part;
    }
    // Gathering ends by the deadline, too, except for microseconds of work.
    if (is_late) {
      co_await news_->WaitUntil(absl::InfiniteFuture());
    } else {
      co_await onboarder_->flows_.waits->Until(news_.get(), deadline_);
    }
  }
}

OnboardPart Onboarder::Parts::TakeReady() {
  OnboardPart part{.lease_deadline = onboarder_->flows_.executor->Now() + kLeaseDuration};
  for (size_t i = 0; i < sequences_.size(); ++i) {
    std::vector<LeasedBlock> blocks = Lease(&sequences_[i], part.lease_deadline);
    if (!blocks.empty()) part.sequences.push_back({.index = i, .blocks = std::move(blocks)});
  }
  if (!IsOver()) return part;
  for (const Sequence& sequence : sequences_) part.missed.push_back(sequence.brought.missed);
  return part;
}

std::vector<LeasedBlock> Onboarder::Parts::Lease(Sequence* sequence, absl::Time lease_deadline) {
  Onboarded granted{.lease_deadline = lease_deadline};
  std::vector<Wanted>& blocks = sequence->brought.blocks;
  const auto is_ready = [&](size_t index) {
    return onboarder_->IsReady(sequence->request, index, &sequence->brought);
  };
  const auto grant = [&](size_t index) {
    if (onboarder_->GrantOne(sequence->request, index, std::move(blocks[index]), &granted)) {
      return true;
    }
    EndForWantOfLeases(sequence, index);
    return false;
  };
  if (sequence->request.run.is_set) {
    std::vector<size_t> ready = std::exchange(sequence->ready, {});
    std::ranges::sort(ready);
    if (ready.size() > kKeysPerTurn) {
      sequence->ready.assign(ready.begin() + kKeysPerTurn, ready.end());
      ready.resize(kKeysPerTurn);
    }
    for (const size_t index : ready) {
      if (is_ready(index) && !grant(index)) break;
    }
  } else {
    for (size_t i = 0; i < kKeysPerTurn && HasNew(*sequence); ++i) {
      if (!is_ready(sequence->next) || !grant(sequence->next)) break;
      ++sequence->next;
    }
  }
  onboarder_->NoteUse(sequence->request, granted.blocks);
  return std::move(granted.blocks);
}

void Onboarder::Parts::EndForWantOfLeases(Sequence* sequence, size_t index) {
  sequence->is_full = true;
  onboarder_->Drop(sequence->request, index, MissReason::kNoRoom, &sequence->brought);
  for (Wanted& block : sequence->brought.blocks) block = Wanted();
}

void Onboarder::Parts::Cancel() {
  cancelled_ = true;
  news_->Set();
}

void Onboarder::Parts::TakeBack(const OnboardPart& part) {
  std::vector<LeaseId> leases;
  for (const OnboardPart::Sequence& sequence : part.sequences) {
    for (const LeasedBlock& block : sequence.blocks) leases.push_back(block.lease);
  }
  onboarder_->flows_.leases->Release(session(), leases);
}

}  // namespace kvtier
