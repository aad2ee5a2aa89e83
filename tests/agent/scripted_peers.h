// These peers and this coordinator answer an AgentRig as a test says.
#ifndef KVTIER_TESTS_AGENT_SCRIPTED_PEERS_H_
#define KVTIER_TESTS_AGENT_SCRIPTED_PEERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/checksum.h"
#include "tests/agent/agent_rig.h"

namespace kvtier::testing {

inline constexpr char kPeer[] = "peer:7400";
inline constexpr char kSecond[] = "second:7400";

// KnowingCoordinator says at once that `holders` have every block that is asked for: four of them,
// those that the asker avoids last. If `silent`, it never answers.
class KnowingCoordinator final : public CoordinatorLink {
 public:
  Executor* executor = nullptr;
  bool silent = false;
  bool is_busy = false;  // Refuses each locate.
  int locates = 0;
  int reports = 0;
  std::optional<ClusterTenants> tenants;       // Settings that its answers bring.
  bool tenants_differ = false;                 // Flag of its answers.
  SettingsStamp followed;                      // Settings that the last report named.
  std::vector<std::string> holders = {kPeer};  // The best first.

  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) override {
    ++reports;
    followed = report.tenants;
    if (silent) {
      co_await SleepUntil(executor, deadline);
      co_return absl::DeadlineExceededError("silent");
    }
    co_return ReportReply{.coordinator_epoch = {3},
                          .next_sequence = report.first_sequence + report.deltas.size(),
                          .tenants = tenants,
                          .tenants_differ = tenants_differ};
  }
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time deadline) override {
    if (silent) {
      co_await SleepUntil(executor, deadline);
      co_return absl::DeadlineExceededError("silent");
    }
    ++locates;
    if (is_busy) co_return absl::ResourceExhaustedError("busy");
    std::vector<Holder> held;
    for (const std::string& address : holders) {
      const std::string name = address.substr(0, address.find(':'));
      held.push_back({.node = *NodeId::FromString(name), .address = address});
    }
    const auto avoidance = [&](const Holder& holder) {
      return query.avoided.end() - std::ranges::find(query.avoided, holder.node);
    };
    std::ranges::stable_sort(held, {}, avoidance);
    if (held.size() > kMaxHoldersPerReply) {
      held.erase(held.begin() + kMaxHoldersPerReply, held.end());
    }
    co_return LocateReply(query.names.size(), held);
  }
};

// Ways in which one peer answers.
struct PeerBehaviour {
  bool hangs = false;
  bool refuses = false;
  bool has_tenants_share = false;  // Its free streams are kept for other tenants.
  int streams = 1024;              // Fetches beyond so many are told that it is busy.
  int refused = 0;                 // Number of those.
  size_t sends = 1024;             // Blocks of a fetch, after which it hangs.
  absl::Duration takes = absl::Milliseconds(1);
  std::function<void(BlockProof*, std::vector<std::byte>*)> tamper{};
  int fetches = 0;
  int running = 0;
  int most_running = 0;
};

// ScriptedPeers have blocks 1, 2, ... of the rig's open tenant, as many as `blocks`.
class ScriptedPeers final : public PeerTransport {
 public:
  AgentRig* rig = nullptr;
  // Space of the session, and the bytes of its blocks.
  uint32_t space_id = 1;
  uint64_t block_bytes = kRigBlockBytes;
  uint64_t blocks = 8;
  PeerBehaviour& operator[](const std::string& address) { return behaviours_[address]; }

  BlockRun NameRun(uint64_t first, size_t count) const {
    return *rig->agent->sessions().table().NameRun(rig->session, space_id, std::nullopt,
                                                   AgentRig::Keys(first, count));
  }

  Task<absl::Status> Fetch(std::string address, FetchRequest request, FetchTime time,
                           FetchSink* sink) override {
    PeerBehaviour& peer = behaviours_[address];
    ++peer.fetches;
    peer.most_running = std::max(peer.most_running, ++peer.running);
    const absl::Status status = co_await Send(&peer, namer_.KeysOf(request.names), time, sink);
    --peer.running;
    co_return status;
  }

 private:
  Task<absl::Status> Send(PeerBehaviour* peer, std::vector<BlockKey> keys, FetchTime time,
                          FetchSink* sink) {
    Executor* const executor = &rig->executor;
    if (peer->has_tenants_share) co_return absl::AbortedError("kept for other tenants");
    if (peer->running > peer->streams) {
      ++peer->refused;
      co_return absl::AbortedError("busy");
    }
    if (peer->refuses) co_return absl::UnavailableError("refused");
    if (!peer->hangs) {
      co_await SleepUntil(executor, std::min(time.deadline, executor->Now() + peer->takes));
      for (size_t i = 0; i < std::min(keys.size(), peer->sends); ++i) {
        SendBlock(*peer, i, keys[i], sink);
      }
      if (peer->sends >= keys.size()) co_return absl::OkStatus();
    }
    const absl::Time silent = executor->Now() + time.silence;
    co_await SleepUntil(executor, std::min(time.deadline, silent));
    if (silent < time.deadline) co_return absl::UnavailableError("silent");
    co_return absl::DeadlineExceededError("hangs");
  }
  void SendBlock(const PeerBehaviour& peer, size_t index, const BlockKey& key, FetchSink* sink) {
    std::vector<std::byte> bytes = BytesOf(key);
    if (bytes.empty()) return;
    BlockProof proof = namer_.Prove({.key = key,
                                     .space = NameRun(1, 1).space,
                                     .length = bytes.size(),
                                     .sum = SumPayload(bytes)});
    if (peer.tamper) peer.tamper(&proof, &bytes);
    const std::span<std::byte> room = sink->Begin(index, proof);
    if (room.empty()) return;
    std::copy_n(bytes.begin(), room.size(), room.begin());
    sink->Arrived(index);
  }
  std::vector<std::byte> BytesOf(const BlockKey& key) {
    for (uint64_t number = 1; number <= blocks; ++number) {
      if (NameRun(number, 1).keys[0] != key) continue;
      std::vector<std::byte> bytes(block_bytes);
      FillBlock(AgentRig::Seed(DomainId{0}), TestEngineKey(number), bytes);
      return bytes;
    }
    return {};
  }

  std::map<std::string, PeerBehaviour> behaviours_;  // By address.
  const PeerNamer namer_{PeerKey::FromSecret("")};   // Namer of the open tenant.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_AGENT_SCRIPTED_PEERS_H_
