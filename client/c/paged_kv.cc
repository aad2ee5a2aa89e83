// Implements KV memory in the GPU pool, of kvtier.h.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/c/handles.h"
#include "client/c/spec.h"

using kvtier::PagedKv;
using kvtier::SequenceId;
using kvtier::c::Fail;
using kvtier::c::Guarded;

namespace kvtier::c {
namespace {

constexpr size_t kOptionsV3 = sizeof(kvtier_kv_options);
constexpr size_t kStatsV3 = sizeof(kvtier_kv_stats);

int64_t Take(kvtier_client* client, kvtier_space space, const kvtier_kv_options* options,
             kvtier_kv** kv) {
  if (client == nullptr || kv == nullptr) return Fail(KVTIER_INVALID, "client or kv is NULL");
  *kv = nullptr;
  const auto given = CopyIn(options, kOptionsV3, "options");
  if (!given.ok()) return Fail(given.status());
  if (given->block_tokens == 0) {
    return Fail(KVTIER_INVALID, "options.block_tokens is 0; must be positive");
  }
  auto slots = client->client->TakeSlots(SpaceHandle{space}, given->slots);
  if (!slots.ok()) return Fail(slots.status());
  if (slots->size() == 0) return 0;
  const auto granted = static_cast<int64_t>(slots->size());
  auto created = PagedKv::Create(*std::move(slots), {.block_tokens = given->block_tokens});
  if (!created.ok()) return Fail(created.status());
  *kv = new kvtier_kv{*std::move(created)};
  return granted;
}

// Calls `body(PagedKv*)`, which returns a Status, and returns its code as a C function does.
template <typename Body>
int Change(kvtier_kv* kv, Body body) noexcept {
  return Guarded([&]() -> int {
    if (kv == nullptr) return Fail(KVTIER_INVALID, "kv is NULL");
    const absl::Status status = body(kv->kv.get());
    return status.ok() ? static_cast<int>(KVTIER_OK) : Fail(status);
  });
}

// Writes as many entries as there is room for; returns how many there are.
template <typename From, typename To>
int64_t WriteTo(const std::vector<From>& from, To* to, size_t count) {
  for (size_t i = 0; to != nullptr && i < std::min(count, from.size()); ++i) {
    to[i] = static_cast<To>(from[i]);
  }
  return static_cast<int64_t>(from.size());
}

}  // namespace
}  // namespace kvtier::c

using kvtier::c::Change;
using kvtier::c::WriteTo;

extern "C" {

int64_t kvtier_take_kv(kvtier_client* client, kvtier_space space, const kvtier_kv_options* options,
                       kvtier_kv** kv) {
  return Guarded([&] { return kvtier::c::Take(client, space, options, kv); });
}

void kvtier_release_kv(kvtier_kv* kv) { delete kv; }

int kvtier_kv_valid(const kvtier_kv* kv) {
  return kv != nullptr && kv->kv->memory().valid() ? 1 : 0;
}

int kvtier_kv_memory(const kvtier_kv* kv, void** data, size_t* size, uint64_t* slot_bytes) {
  if (kv == nullptr || data == nullptr || size == nullptr || slot_bytes == nullptr) {
    return Fail(KVTIER_INVALID, "kv, data, size or slot_bytes is NULL");
  }
  const std::span<std::byte> memory = kv->kv->memory().memory();
  *data = memory.data();
  *size = memory.size();
  *slot_bytes = kv->kv->memory().slot_bytes();
  return KVTIER_OK;
}

int kvtier_kv_open(kvtier_kv* kv, int32_t priority, uint64_t* sequence) {
  return Change(kv, [&](PagedKv* memory) {
    if (sequence == nullptr) return absl::InvalidArgumentError("sequence is NULL");
    *sequence = static_cast<uint64_t>(memory->Open(priority));
    return absl::OkStatus();
  });
}

int kvtier_kv_set_priority(kvtier_kv* kv, uint64_t sequence, int32_t priority) {
  return Change(
      kv, [&](PagedKv* memory) { return memory->SetPriority(SequenceId{sequence}, priority); });
}

int kvtier_kv_append(kvtier_kv* kv, uint64_t sequence, uint32_t tokens) {
  return Change(kv, [&](PagedKv* memory) { return memory->Append(SequenceId{sequence}, tokens); });
}

int kvtier_kv_fork(kvtier_kv* kv, uint64_t sequence, uint64_t* fork) {
  return Change(kv, [&](PagedKv* memory) {
    if (fork == nullptr) return absl::InvalidArgumentError("fork is NULL");
    const absl::StatusOr<SequenceId> forked = memory->Fork(SequenceId{sequence});
    if (forked.ok()) *fork = static_cast<uint64_t>(*forked);
    return forked.status();
  });
}

int kvtier_kv_truncate(kvtier_kv* kv, uint64_t sequence, uint64_t tokens) {
  return Change(kv,
                [&](PagedKv* memory) { return memory->Truncate(SequenceId{sequence}, tokens); });
}

int kvtier_kv_free(kvtier_kv* kv, uint64_t sequence) {
  return Change(kv, [&](PagedKv* memory) { return memory->Free(SequenceId{sequence}); });
}

int kvtier_kv_swap_out(kvtier_kv* kv, const uint64_t* sequences, size_t count) {
  return Change(kv, [&](PagedKv* memory) {
    if (sequences == nullptr && count > 0) return absl::InvalidArgumentError("sequences is NULL");
    std::vector<SequenceId> ids(count);
    std::transform(sequences, sequences + count, ids.begin(),
                   [](uint64_t sequence) { return SequenceId{sequence}; });
    return memory->SwapOut(ids);
  });
}

int kvtier_kv_swap_in(kvtier_kv* kv, uint64_t sequence) {
  return Guarded([&]() -> int {
    if (kv == nullptr) return Fail(KVTIER_INVALID, "kv is NULL");
    const absl::Status status = kv->kv->SwapIn(SequenceId{sequence});
    if (absl::IsDataLoss(status)) return Fail(KVTIER_DAMAGED, std::string(status.message()));
    return status.ok() ? static_cast<int>(KVTIER_OK) : Fail(status);
  });
}

int64_t kvtier_kv_next_return(const kvtier_kv* kv, uint64_t* sequence) {
  return Guarded([&]() -> int64_t {
    if (kv == nullptr || sequence == nullptr) return Fail(KVTIER_INVALID, "kv or sequence is NULL");
    const std::optional<SequenceId> next = kv->kv->NextReturn();
    if (next) *sequence = static_cast<uint64_t>(*next);
    return next ? 1 : 0;
  });
}

int64_t kvtier_kv_victims(const kvtier_kv* kv, uint64_t beneficiary, size_t slots,
                          uint64_t* sequences, size_t count) {
  return Guarded([&]() -> int64_t {
    if (kv == nullptr) return Fail(KVTIER_INVALID, "kv is NULL");
    const auto victims = kv->kv->Victims(SequenceId{beneficiary}, slots);
    return victims.ok() ? WriteTo(*victims, sequences, count) : Fail(victims.status());
  });
}

int64_t kvtier_kv_slots(const kvtier_kv* kv, uint64_t sequence, uint32_t* slots, size_t count) {
  return Guarded([&]() -> int64_t {
    if (kv == nullptr) return Fail(KVTIER_INVALID, "kv is NULL");
    const auto numbers = kv->kv->slots(SequenceId{sequence});
    return numbers.ok() ? WriteTo(*numbers, slots, count) : Fail(numbers.status());
  });
}

int kvtier_get_kv_stats(const kvtier_kv* kv, kvtier_kv_stats* stats) {
  if (kv == nullptr || stats == nullptr || stats->struct_size < kvtier::c::kStatsV3) {
    return Fail(
        KVTIER_INVALID,
        "kv or stats is NULL, or stats.struct_size is too small; must be the size of the struct");
  }
  const PagedKv& memory = *kv->kv;
  const kvtier::Fragmentation measured = memory.Measure();
  const kvtier_kv_stats ours = {.struct_size = stats->struct_size,
                                .granted_slots = memory.memory().size(),
                                .free_slots = memory.free_slots(),
                                .swapped_bytes = memory.swapped_bytes(),
                                .copied_blocks = memory.copied_blocks(),
                                .room_tokens = measured.room,
                                .unused_tokens = measured.unused};
  std::memcpy(stats, &ours, std::min(stats->struct_size, sizeof(ours)));
  return KVTIER_OK;
}

}  // extern "C"
