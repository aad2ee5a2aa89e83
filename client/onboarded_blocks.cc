#include "client/onboarded_blocks.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "client/agent_link.h"
#include "client/block_copy.h"
#include "client/connection.h"
#include "core/check.h"
#include "core/checksum.h"
#include "core/clock.h"

namespace kvtier {

OnboardedBlocks& OnboardedBlocks::operator=(OnboardedBlocks&& other) noexcept {
  if (this == &other) return *this;
  Release();
  link_ = std::move(other.link_);
  connection_ = std::move(other.connection_);
  keep_ = std::move(other.keep_);
  blocks_ = std::exchange(other.blocks_, {});
  lease_ids_ = std::exchange(other.lease_ids_, {});
  deadline_ = other.deadline_;
  missed_ = other.missed_;
  return *this;
}

std::span<const std::byte> OnboardedBlocks::bytes(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  return blocks_[i].bytes;
}

uint64_t OnboardedBlocks::offset(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  return blocks_[i].offset;
}

BlockSource OnboardedBlocks::source(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  return blocks_[i].source;
}

size_t OnboardedBlocks::key_index(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  return blocks_[i].key_index;
}

absl::Status OnboardedBlocks::CopyOut(size_t i, std::span<const Piece> pieces) const {
  KVT_CHECK(i < blocks_.size());
  const absl::StatusOr<PayloadSum> sum = CopyFromBlock(i, blocks_[i].bytes, pieces);
  if (!sum.ok()) return sum.status();
  return CheckSum(i, *sum);
}

absl::Status OnboardedBlocks::Prove(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  const std::span<const std::byte> bytes = blocks_[i].bytes;
  if (bytes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", i,
                     " is in GPU memory that is not mapped in this process; must be in host memory "
                     "to be checked"));
  }
  return CheckSum(i, SumPayload(bytes));
}

absl::Status OnboardedBlocks::CheckSum(size_t i, const PayloadSum& sum) const {
  // Before the sums: after the end of a lease another block may lie there, which is no damage.
  if (!valid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "block ", i, ": the lease or the session ended while it was read; onboard it again"));
  }
  const absl::Status proven = CheckLeasedSum(i, sum, blocks_[i].sum);
  if (!proven.ok()) {
    link_->Release(connection_.get(), ReleaseQueue::Kind::kDamaged, std::span(&lease_ids_[i], 1));
    link_->Count([](ClientStats* stats) { ++stats->damaged_blocks; });
  }
  return proven;
}

bool OnboardedBlocks::valid() const {
  if (blocks_.empty()) return false;
  // Orders the reader's loads before the two checks below, for the compiler and for processors that
  // reorder loads.
  std::atomic_thread_fence(std::memory_order_acquire);
  return MonotonicClock().Now() < deadline_ && !connection_->session()->HasEnded();
}

void OnboardedBlocks::Release() {
  if (link_ != nullptr) {
    link_->Release(connection_.get(), ReleaseQueue::Kind::kLease, lease_ids_);
  }
  link_.reset();
  connection_.reset();
  keep_.reset();
  blocks_.clear();
  lease_ids_.clear();
}

}  // namespace kvtier
