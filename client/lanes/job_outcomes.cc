#include "client/lanes/job_outcomes.h"

#include <algorithm>
#include <memory>
#include <new>

#include "absl/memory/memory.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr std::align_val_t kPage{4096};

}  // namespace

absl::StatusOr<std::shared_ptr<JobOutcomes>> JobOutcomes::Create(Device* device,
                                                                 std::span<const size_t> ends) {
  KVT_CHECK(!ends.empty());
  const auto page = static_cast<size_t>(kPage);
  const size_t size = (ends.size() * sizeof(BlockOutcomes) + page - 1) / page * page;
  const std::span bytes(static_cast<std::byte*>(::operator new(size, kPage)), size);
  if (const absl::Status pinned = device->Pin(bytes); !pinned.ok()) {
    ::operator delete(bytes.data(), kPage);
    return pinned;
  }
  return absl::WrapUnique(new JobOutcomes(device, bytes, ends));
}

JobOutcomes::JobOutcomes(Device* device, std::span<std::byte> bytes, std::span<const size_t> ends)
    : device_(device),
      bytes_(bytes),
      batches_(reinterpret_cast<BlockOutcomes*>(bytes.data())),
      ends_(ends.begin(), ends.end()) {
  std::uninitialized_value_construct_n(batches_, ends.size());
}

JobOutcomes::~JobOutcomes() {
  // A lost device may have forgotten it.
  (void)device_->Unpin(bytes_);
  ::operator delete(bytes_.data(), kPage);
}

const kernels::CodecOutcome& JobOutcomes::of(size_t block) const {
  const auto batch = static_cast<size_t>(std::ranges::upper_bound(ends_, block) - ends_.begin());
  KVT_CHECK(batch < ends_.size());
  const size_t first = batch == 0 ? 0 : ends_[batch - 1];
  return batches_[batch].codecs[block - first];
}

}  // namespace kvtier
