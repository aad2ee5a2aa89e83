#include "bench/call_figures.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/block_load.h"
#include "bench/empty_call.h"
#include "bench/figure.h"
#include "bench/plain_space.h"
#include "client/client.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr size_t kKeys = 8192;
constexpr uint64_t kSmallBytes = 4096;
constexpr uint64_t kLargeBytes = uint64_t{2} << 20;
constexpr size_t kLargeBlocks = 64;
constexpr size_t kCommitted = 64;
// Number of calls of one kind in a row, so that the work that they leave behind is charged to them.
constexpr int kBatch = 10;
constexpr int kBatches = 100;
constexpr int kLookups = 100;          // Number of calls of kKeys keys.
constexpr double kAskedLookups = 2e6;  // Required lookups a second of one core.
constexpr absl::Duration kPatience = absl::Seconds(5);

std::vector<EngineKey> KeysOf(uint64_t set, size_t count) {
  std::vector<EngineKey> keys;
  keys.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t words[4] = {set, i, 0, 0};
    keys.push_back(*EngineKey::FromBytes({reinterpret_cast<const char*>(words), sizeof(words)}));
  }
  return keys;
}

// Caller is one worker with blocks of two sizes in host memory, and the empty call beside its
// calls.
class Caller {
 public:
  static absl::StatusOr<std::unique_ptr<Caller>> Open(const std::string& socket_dir) {
    std::unique_ptr<Caller> caller(new Caller());
    KVT_ASSIGN_OR_RETURN(caller->empty_call_, EmptyCall::Open());
    KVT_ASSIGN_OR_RETURN(caller->client_,
                         Client::Open({.socket_dir = socket_dir, .default_timeout = kPatience}));
    SpaceSpec spec = PlainSpace("calls", kSmallBytes);
    KVT_ASSIGN_OR_RETURN(caller->small_, caller->client_->RegisterSpace(spec));
    spec.block_bytes = kLargeBytes;
    KVT_ASSIGN_OR_RETURN(caller->large_, caller->client_->RegisterSpace(spec));
    KVT_RETURN_IF_ERROR(caller->Put(caller->small_, caller->small_keys_, kSmallBytes));
    KVT_RETURN_IF_ERROR(caller->Put(caller->large_, caller->large_keys_, kLargeBytes));
    return caller;
  }

  absl::Status SendNothing() { return empty_call_->Send(); }
  absl::Status Ping() { return client_->Ping(kPatience); }
  absl::Status Match(size_t keys) {
    KVT_ASSIGN_OR_RETURN(const MatchedPrefix matched,
                         client_->Match(small_, std::span(small_keys_).first(keys),
                                        {.timeout = kPatience, .local_only = true}));
    return Expect("matched", matched.local_blocks, keys);
  }
  absl::Status OnboardSmall(size_t keys) {
    return Onboard(small_, std::span(small_keys_).first(keys));
  }
  absl::Status OnboardLarge() { return Onboard(large_, large_keys_); }
  // Reserves and fills; the caller commits.
  absl::StatusOr<ReservedBlocks> Fill(uint64_t set) {
    return Filled(small_, KeysOf(set, kCommitted), kSmallBytes);
  }
  static absl::Status Expect(const char* what, size_t got, size_t wanted) {
    if (got == wanted) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(what, " ", got, " of ", wanted, " blocks"));
  }

 private:
  Caller() : bytes_(kLargeBytes, std::byte{7}) {}

  absl::StatusOr<ReservedBlocks> Filled(SpaceHandle space, std::span<const EngineKey> keys,
                                        uint64_t block_bytes) {
    KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client_->Reserve(space, keys));
    const ConstPiece piece{bytes_.data(), block_bytes};
    for (size_t i = 0; i < reserved.size(); ++i) {
      if (reserved.state(i) == ReservedBlocks::State::kPresent) continue;
      KVT_RETURN_IF_ERROR(reserved.CopyIn(i, {&piece, 1}));
    }
    return reserved;
  }
  absl::Status Put(SpaceHandle space, std::span<const EngineKey> keys, uint64_t block_bytes) {
    KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, Filled(space, keys, block_bytes));
    const size_t filled = reserved.reserved();
    return Expect("put", reserved.Commit(), filled);
  }
  absl::Status Onboard(SpaceHandle space, std::span<const EngineKey> keys) {
    KVT_ASSIGN_OR_RETURN(const OnboardedBlocks blocks,
                         client_->Onboard(space, keys, {.timeout = kPatience}));
    return Expect("onboarded", blocks.size(), keys.size());
  }

  std::unique_ptr<EmptyCall> empty_call_;
  std::unique_ptr<Client> client_;
  SpaceHandle small_{};
  SpaceHandle large_{};
  const std::vector<EngineKey> small_keys_ = KeysOf(0, kKeys);
  const std::vector<EngineKey> large_keys_ = KeysOf(0, kLargeBlocks);
  const std::vector<std::byte> bytes_;
};

// Seconds of one call, of ours and of the empty one: medians of batches that alternate.
struct Times {
  double ours = 0;
  double empty = 0;
};

// Measures both. `prepare` runs before each batch of ours, and is not measured.
absl::StatusOr<Times> TakeTurns(
    Caller* caller, int batches, const std::function<absl::Status()>& call,
    const std::function<absl::Status()>& prepare = [] { return absl::OkStatus(); }) {
  std::vector<double> ours;
  std::vector<double> empty;
  absl::Status status;
  const auto batch = [&status](const std::function<absl::Status()>& one) {
    return Seconds([&] {
             for (int i = 0; i < kBatch && status.ok(); ++i) status = one();
           }) /
           kBatch;
  };
  for (int i = 0; i < batches && status.ok(); ++i) {
    KVT_RETURN_IF_ERROR(prepare());
    empty.push_back(batch([caller] { return caller->SendNothing(); }));
    ours.push_back(batch(call));
  }
  KVT_RETURN_IF_ERROR(status);
  return Times{.ours = Median(ours), .empty = Median(empty)};
}

absl::Status Against(const std::string& name, Caller* caller, int batches,
                     const std::function<absl::Status()>& call) {
  KVT_ASSIGN_OR_RETURN(const Times times, TakeTurns(caller, batches, call));
  PrintFigure(name, 1e6 * times.ours, "us", times.ours / times.empty, "empty_grpc_call");
  return absl::OkStatus();
}

// Measures what a key adds to an empty call, beside the cost of naming it: one HMAC-SHA-256.
absl::Status MatchFigure(Caller* caller, size_t keys, int batches) {
  KVT_ASSIGN_OR_RETURN(const Times times,
                       TakeTurns(caller, batches, [&] { return caller->Match(keys); }));
  const std::string name = absl::StrCat("node.match.", keys);
  PrintFigure(name, 1e6 * times.ours, "us", times.ours / times.empty, "empty_grpc_call");
  const double per_key = (times.ours - times.empty) / static_cast<double>(keys);
  PrintFigure(absl::StrCat(name, ".each_key"), 1e6 * per_key, "us", per_key / times.empty,
              "empty_grpc_call");
  return absl::OkStatus();
}

absl::Status CommitFigure(Caller* caller) {
  uint64_t set = 0;
  std::vector<ReservedBlocks> filled;
  const auto fill = [&]() -> absl::Status {
    filled.clear();
    while (filled.size() < kBatch) {
      KVT_ASSIGN_OR_RETURN(ReservedBlocks blocks, caller->Fill(++set));
      filled.push_back(std::move(blocks));
    }
    return absl::OkStatus();
  };
  size_t next = 0;
  const auto commit = [&] {
    return Caller::Expect("committed", filled[next++ % kBatch].Commit(), kCommitted);
  };
  KVT_ASSIGN_OR_RETURN(const Times times, TakeTurns(caller, kBatches, commit, fill));
  PrintFigure("node.commit_sums.64", 1e6 * times.ours, "us", times.ours / times.empty,
              "empty_grpc_call");
  return absl::OkStatus();
}

// Measures how many blocks the agent looks up in a second of its processor time, whatever else
// runs.
absl::Status LookupFigure(const NodeProcess& node, Caller* caller) {
  KVT_ASSIGN_OR_RETURN(const double before, node.ProcessorSeconds());
  absl::Status status;
  for (int i = 0; i < kLookups && status.ok(); ++i) status = caller->Match(kKeys);
  KVT_RETURN_IF_ERROR(status);
  KVT_ASSIGN_OR_RETURN(const double after, node.ProcessorSeconds());
  const double rate = kLookups * static_cast<double>(kKeys) / (after - before);
  PrintFigure("node.lookups", rate / 1e6, "M/core_s", rate / kAskedLookups, "2_M_asked");
  return absl::OkStatus();
}

}  // namespace

absl::Status PrintCallFigures(const NodeProcess& node) {
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Caller> caller, Caller::Open(node.socket_dir()));
  Caller* const one = caller.get();

  KVT_RETURN_IF_ERROR(Against("node.ping", one, kBatches, [one] { return one->Ping(); }));
  KVT_RETURN_IF_ERROR(MatchFigure(one, 32, kBatches));
  KVT_RETURN_IF_ERROR(MatchFigure(one, 512, kBatches / 2));
  KVT_RETURN_IF_ERROR(MatchFigure(one, kKeys, kBatches / 10));
  KVT_RETURN_IF_ERROR(LookupFigure(node, one));
  KVT_RETURN_IF_ERROR(Against("node.onboard_release.32x4KiB", one, kBatches,
                              [one] { return one->OnboardSmall(32); }));
  KVT_RETURN_IF_ERROR(Against("node.onboard_release.64x2MiB", one, kBatches,
                              [one] { return one->OnboardLarge(); }));
  return CommitFigure(one);
}

}  // namespace kvtier::bench
