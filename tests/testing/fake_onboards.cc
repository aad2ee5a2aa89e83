// FakeWorkerService's leases, and its OnboardParts, which hands over what Onboard would answer, a
// few blocks at a time, with the faults that a test asks for.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "proto/sequence_keys.h"
#include "tests/testing/fake_worker_service.h"

namespace kvtier::testing {
namespace {

// Appends block `i` of `from` to `to`.
void AddBlock(const v1::LeasedBlocks& from, int i, v1::LeasedBlocks* to) {
  to->add_lease_ids(from.lease_ids(i));
  to->add_offsets(from.offsets(i));
  to->add_lengths(from.lengths(i));
  to->add_from(from.from(i));
  to->add_sums(from.sums(2 * i));
  to->add_sums(from.sums(2 * i + 1));
  to->add_indices(from.indices(i));
}

// Returns the messages that hand over `whole`, with the fault that the test asks for.
std::vector<v1::OnboardPart> PartsOf(const v1::OnboardResponse& whole,
                                     const FakeAgentOptions& options) {
  using Fault = FakeAgentOptions::PartsFault;
  std::vector<v1::OnboardPart> parts;
  for (int i = 0; i < whole.sequences_size(); ++i) {
    const v1::LeasedBlocks& blocks = whole.sequences(i).blocks();
    const int count = blocks.lease_ids_size();
    for (int first = 0; first < count; first += static_cast<int>(options.part_blocks)) {
      const size_t number = static_cast<size_t>(first) / options.part_blocks;
      if (parts.size() <= number) parts.emplace_back();
      v1::OnboardPart::Sequence* const sequence = parts[number].add_sequences();
      sequence->set_index(static_cast<uint32_t>(i));
      const int end = std::min(count, first + static_cast<int>(options.part_blocks));
      for (int block = first; block < end; ++block)
        AddBlock(blocks, block, sequence->mutable_blocks());
    }
  }
  if (parts.empty()) parts.emplace_back();
  if (options.parts_fault == Fault::kBackwards) std::reverse(parts.begin(), parts.end());
  if (options.parts_fault == Fault::kTwice) parts.push_back(parts.front());
  for (v1::OnboardPart& part : parts) part.set_lease_deadline_ns(whole.lease_deadline_ns());
  if (options.parts_fault == Fault::kNoEnd) return parts;
  for (const auto& sequence : whole.sequences()) parts.back().add_missed(sequence.missed());
  return parts;
}

}  // namespace

uint64_t FakeWorkerService::LeaseEnd() const {
  return static_cast<uint64_t>(absl::ToUnixNanos(MonotonicClock().Now() + options_.lease));
}

void FakeWorkerService::LendAll(Session* session, const v1::OnboardRequest& request,
                                v1::OnboardResponse* response) {
  EndLeases(session, request.released_lease_ids());
  NoteHints(request.sequences());
  response->set_lease_deadline_ns(LeaseEnd());
  response->set_gpu_version(pool_version_);
  for (const v1::Sequence& sequence : request.sequences()) {
    v1::OnboardedSequence* const onboarded = response->add_sequences();
    v1::MissReason missed = v1::MISS_REASON_ABSENT;
    for (const Found& found : Find(*session, sequence)) {
      if (session->leases.size() < options_.most_leases &&
          Lend(session, found, request.target(), onboarded)) {
        continue;
      }
      missed = v1::MISS_REASON_NO_ROOM;
      break;
    }
    const auto lent = static_cast<size_t>(onboarded->blocks().lease_ids_size());
    if (lent < convert::CountEngineKeys(sequence)) onboarded->set_missed(missed);
  }
}

bool FakeWorkerService::Lend(Session* session, const Found& found, v1::Tier target,
                             v1::OnboardedSequence* onboarded) {
  Block& block = blocks_.at(found.name);
  Lease lease{.block = found.name, .gpu_offset = std::nullopt};
  if (target == v1::TIER_GPU) {
    lease.gpu_offset = gpu_pool_->Allocate();
    if (!lease.gpu_offset) return false;
    std::memcpy(gpu_pool_->at(*lease.gpu_offset), arena_.at(block.offset), block.length);
  }
  ++block.leases;
  v1::LeasedBlocks* const leased = onboarded->mutable_blocks();
  leased->add_indices(found.index);
  leased->add_lease_ids(next_id_);
  leased->add_offsets(lease.gpu_offset.value_or(block.offset));
  leased->add_lengths(options_.leased_length > 0 ? options_.leased_length : block.length);
  leased->add_from(v1::TIER_HOST);
  leased->add_sums(block.sum.hi);
  leased->add_sums(block.sum.lo);
  session->leases.emplace(next_id_++, std::move(lease));
  return true;
}

grpc::Status FakeWorkerService::OnboardParts(grpc::ServerContext* context,
                                             const v1::OnboardRequest* request,
                                             grpc::ServerWriter<v1::OnboardPart>* writer) {
  v1::OnboardResponse whole;
  {
    absl::MutexLock lock(&mu_);
    if (!Begin(context, false)) return {grpc::StatusCode::CANCELLED, "the caller gave up"};
    Session* const session = Find(request->session_token());
    if (session == nullptr) return Refusal(request->session_token());
    LendAll(session, *request, &whole);
  }
  std::vector<v1::OnboardPart> parts = PartsOf(whole, options_);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && !AwaitNextPart(context))
      return {grpc::StatusCode::CANCELLED, "the caller gave up"};
    if (!writer->Write(parts[i])) return {grpc::StatusCode::CANCELLED, "the caller gave up"};
  }
  return grpc::Status::OK;
}

bool FakeWorkerService::AwaitNextPart(grpc::ServerContext* context) {
  absl::MutexLock lock(&mu_);
  const auto flows = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return hang_ != FakeAgent::Hang::kParts;
  };
  ++hanging_;
  while (!mu_.AwaitWithTimeout(absl::Condition(&flows), absl::Milliseconds(5)) &&
         !context->IsCancelled()) {
  }
  --hanging_;
  return !context->IsCancelled() && !is_stopping_;
}

}  // namespace kvtier::testing
