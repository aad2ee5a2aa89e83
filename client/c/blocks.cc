// Implements hits and puts, of kvtier.h and kvtier_sequences.h.
#include <memory>
#include <span>

#include "client/c/handles.h"
#include "client/c/kvtier_sequences.h"

using kvtier::MissReason;
using kvtier::ReservedBlocks;
using kvtier::c::Fail;
using kvtier::c::Guarded;
using kvtier::c::TimeoutFrom;

static_assert(static_cast<int>(kvtier::BlockSource::kGpu) == KVTIER_GPU);
static_assert(static_cast<int>(kvtier::BlockSource::kHost) == KVTIER_HOST);
static_assert(static_cast<int>(kvtier::BlockSource::kDisk) == KVTIER_DISK);
static_assert(static_cast<int>(kvtier::BlockSource::kPeer) == KVTIER_PEER);
static_assert(static_cast<int>(MissReason::kNone) == KVTIER_MISSED_NONE);
static_assert(static_cast<int>(MissReason::kAbsent) == KVTIER_MISSED_ABSENT);
static_assert(static_cast<int>(MissReason::kDeadline) == KVTIER_MISSED_DEADLINE);
static_assert(static_cast<int>(MissReason::kNoRoom) == KVTIER_MISSED_NO_ROOM);
static_assert(static_cast<int>(MissReason::kDamaged) == KVTIER_MISSED_DAMAGED);
static_assert(static_cast<int>(MissReason::kEvicted) == KVTIER_MISSED_EVICTED);
static_assert(static_cast<int>(MissReason::kUnreachable) == KVTIER_MISSED_UNREACHABLE);
static_assert(static_cast<int>(MissReason::kSpaceRefused) == KVTIER_MISSED_SPACE_REFUSED);
static_assert(static_cast<int>(MissReason::kBusy) == KVTIER_MISSED_BUSY);
static_assert(static_cast<int>(ReservedBlocks::State::kReserved) == KVTIER_RESERVED);
static_assert(static_cast<int>(ReservedBlocks::State::kPresent) == KVTIER_PRESENT);
static_assert(static_cast<int>(ReservedBlocks::State::kNoRoom) == KVTIER_NO_ROOM);
static_assert(static_cast<int>(ReservedBlocks::State::kPending) == KVTIER_PENDING);
static_assert(static_cast<int>(ReservedBlocks::State::kNoStore) == KVTIER_NO_STORE);

namespace {

int64_t Commit(kvtier_put* put, const kvtier::CommitOptions& options) {
  return Guarded([&]() -> int64_t {
    if (put == nullptr) return Fail(KVTIER_INVALID, "put is NULL");
    const std::unique_ptr<kvtier_put> owned(put);
    return static_cast<int64_t>(owned->blocks.Commit(options));
  });
}

}  // namespace

extern "C" {

size_t kvtier_hit_count(const kvtier_hit* hit) { return hit == nullptr ? 0 : hit->blocks.size(); }

int kvtier_hit_block(const kvtier_hit* hit, size_t index, kvtier_bytes* bytes, int* from) {
  if (hit == nullptr || bytes == nullptr || index >= hit->blocks.size()) {
    return Fail(KVTIER_INVALID, "hit or bytes is NULL, or index is past the hit");
  }
  const std::span<const std::byte> block = hit->blocks.bytes(index);
  *bytes = {.data = block.data(), .size = block.size()};
  if (from != nullptr) *from = static_cast<int>(hit->blocks.source(index));
  return KVTIER_OK;
}

int kvtier_hit_valid(const kvtier_hit* hit) {
  return hit != nullptr && hit->blocks.valid() ? 1 : 0;
}

int64_t kvtier_hit_key_index(const kvtier_hit* hit, size_t index) {
  if (hit == nullptr || index >= hit->blocks.size()) {
    return Fail(KVTIER_INVALID, "hit is NULL, or index is past the hit");
  }
  return static_cast<int64_t>(hit->blocks.key_index(index));
}

int kvtier_hit_missed(const kvtier_hit* hit) {
  if (hit == nullptr) return Fail(KVTIER_INVALID, "hit is NULL");
  return static_cast<int>(hit->blocks.missed());
}

void kvtier_release_hits(kvtier_hit* const* hits, size_t count) {
  for (size_t i = 0; hits != nullptr && i < count; ++i) delete hits[i];
}

size_t kvtier_put_count(const kvtier_put* put) { return put == nullptr ? 0 : put->blocks.size(); }

int kvtier_put_slot(const kvtier_put* put, size_t index, void** data, size_t* size) {
  if (put == nullptr || data == nullptr || size == nullptr || index >= put->blocks.size()) {
    return Fail(KVTIER_INVALID, "put, data or size is NULL, or index is past the put");
  }
  const std::span<std::byte> slot = put->blocks.slot(index);
  *data = slot.data();
  *size = slot.size();
  return static_cast<int>(put->blocks.state(index));
}

int kvtier_put_state(const kvtier_put* put, size_t index) {
  if (put == nullptr || index >= put->blocks.size()) {
    return Fail(KVTIER_INVALID, "put is NULL, or index is past the put");
  }
  return static_cast<int>(put->blocks.state(index));
}

int kvtier_give_back(kvtier_put* put, size_t index) {
  return Guarded([&]() -> int {
    if (put == nullptr || index >= put->blocks.size()) {
      return Fail(KVTIER_INVALID, "put is NULL, or index is past the put");
    }
    put->blocks.GiveBack(index);
    return KVTIER_OK;
  });
}

int64_t kvtier_commit(kvtier_put* put) { return kvtier_commit_step(put, 0); }

int64_t kvtier_commit_step(kvtier_put* put, uint64_t step) { return Commit(put, {.step = step}); }

int64_t kvtier_commit_durable(kvtier_put* put, uint64_t step, int32_t timeout_ms) {
  const auto timeout = TimeoutFrom(timeout_ms);
  if (!timeout.ok()) return Fail(timeout.status());
  return Commit(put, {.step = step, .durable = true, .timeout = *timeout});
}

int64_t kvtier_begin_step(kvtier_client* client) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    return static_cast<int64_t>(client->client->BeginStep());
  });
}

int kvtier_end_step(kvtier_client* client, uint64_t step) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    client->client->EndStep(step);
    return KVTIER_OK;
  });
}

void kvtier_cancel_puts(kvtier_put* const* puts, size_t count) {
  for (size_t i = 0; puts != nullptr && i < count; ++i) delete puts[i];
}

}  // extern "C"
