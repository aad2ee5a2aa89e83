#include "bench/caller.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/plain_space.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr uint64_t kSmallBytes = 4096;
constexpr uint64_t kLargeBytes = uint64_t{2} << 20;
constexpr size_t kLargeBlocks = 64;
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kMemoryWait = absl::Seconds(60);

absl::Status Expect(const char* what, size_t got, size_t wanted) {
  if (got == wanted) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(what, " ", got, " of ", wanted, " blocks"));
}

}  // namespace

std::vector<EngineKey> KeysOfSet(uint64_t set, size_t count) {
  std::vector<EngineKey> keys;
  keys.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t words[4] = {set, i, 0, 0};
    keys.push_back(*EngineKey::FromBytes({reinterpret_cast<const char*>(words), sizeof(words)}));
  }
  return keys;
}

Caller::Caller()
    : small_keys_(KeysOfSet(0, kCallerKeys)),
      large_keys_(KeysOfSet(0, kLargeBlocks)),
      bytes_(kLargeBytes, std::byte{7}) {}

absl::StatusOr<std::unique_ptr<Caller>> Caller::Open(ClientOptions options) {
  std::unique_ptr<Caller> caller(new Caller());
  KVT_ASSIGN_OR_RETURN(caller->empty_call_, EmptyCall::Open());
  options.default_timeout = kPatience;
  KVT_ASSIGN_OR_RETURN(caller->client_, Client::Open(std::move(options)));
  SpaceSpec spec = PlainSpace("calls", kSmallBytes);
  KVT_ASSIGN_OR_RETURN(caller->small_, caller->client_->RegisterSpace(spec));
  spec.block_bytes = kLargeBytes;
  KVT_ASSIGN_OR_RETURN(caller->large_, caller->client_->RegisterSpace(spec));
  // Blocks leave for later ones while the tenant's memory is still on its way.
  const absl::Time end = absl::Now() + kMemoryWait;
  while (true) {
    KVT_RETURN_IF_ERROR(caller->Put(caller->small_, caller->small_keys_, kSmallBytes));
    KVT_RETURN_IF_ERROR(caller->Put(caller->large_, caller->large_keys_, kLargeBytes));
    const absl::Status there = caller->CheckThere();
    if (there.ok()) return caller;
    if (absl::Now() > end) return there;
    absl::SleepFor(absl::Milliseconds(100));
  }
}

absl::Status Caller::Ping() { return client_->Ping(kPatience); }

absl::Status Caller::Match(size_t keys) {
  KVT_ASSIGN_OR_RETURN(const MatchedPrefix matched,
                       client_->Match(small_, std::span(small_keys_).first(keys),
                                      {.timeout = kPatience, .local_only = true}));
  return Expect("matched", matched.local_blocks, keys);
}

absl::Status Caller::OnboardSmall(size_t keys) {
  return Onboard(small_, std::span(small_keys_).first(keys));
}

absl::Status Caller::OnboardLarge() { return Onboard(large_, large_keys_); }

absl::StatusOr<ReservedBlocks> Caller::Fill(uint64_t set) {
  return Filled(small_, KeysOfSet(set, kCommittedBlocks), kSmallBytes);
}

absl::Status Caller::ExpectCommitted(size_t blocks) {
  return Expect("committed", blocks, kCommittedBlocks);
}

absl::StatusOr<ReservedBlocks> Caller::Filled(SpaceHandle space, std::span<const EngineKey> keys,
                                              uint64_t block_bytes) {
  KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client_->Reserve(space, keys));
  const ConstPiece piece{bytes_.data(), block_bytes};
  for (size_t i = 0; i < reserved.size(); ++i) {
    if (reserved.state(i) != ReservedBlocks::State::kReserved) continue;
    KVT_RETURN_IF_ERROR(reserved.CopyIn(i, {&piece, 1}));
  }
  return reserved;
}

absl::Status Caller::Put(SpaceHandle space, std::span<const EngineKey> keys, uint64_t block_bytes) {
  KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, Filled(space, keys, block_bytes));
  reserved.Commit();
  return absl::OkStatus();
}

absl::Status Caller::CheckThere() {
  KVT_RETURN_IF_ERROR(Match(small_keys_.size()));
  KVT_ASSIGN_OR_RETURN(
      const MatchedPrefix matched,
      client_->Match(large_, large_keys_, {.timeout = kPatience, .local_only = true}));
  return Expect("put", matched.local_blocks, large_keys_.size());
}

absl::Status Caller::Onboard(SpaceHandle space, std::span<const EngineKey> keys) {
  KVT_ASSIGN_OR_RETURN(const OnboardedBlocks blocks,
                       client_->Onboard(space, keys, {.timeout = kPatience}));
  return Expect("onboarded", blocks.size(), keys.size());
}

}  // namespace kvtier::bench
