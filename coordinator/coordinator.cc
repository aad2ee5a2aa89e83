#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Sweeps in a tick, beside the one of each report: all shards in about two minutes even when idle.
constexpr int kSweepsPerTick = 8;

// Returns the 64-bit FNV-1a hash: the same number for the same asker in every run of a simulation.
uint64_t NumberOf(const NodeId& id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : id.str()) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

Coordinator::Coordinator(const Clock* clock, Epoch epoch, const CoordinatorOptions& options)
    : clock_(clock),
      epoch_(epoch),
      started_(clock->Now()),
      options_(options),
      directory_(options.max_keys),
      nodes_(options.max_nodes) {
  KVT_CHECK(epoch.value != 0);
  KVT_CHECK(options.max_nodes > 0 && options.max_nodes <= Directory::kMaxEnrolled);
  KVT_CHECK(options.max_keys > 0);
  SetTimeouts(options.node_timeout, options.forget_after);
}

void Coordinator::SetTimeouts(absl::Duration node_timeout, absl::Duration forget_after) {
  KVT_CHECK(node_timeout > absl::ZeroDuration() && forget_after > absl::ZeroDuration());
  options_.node_timeout = node_timeout;
  options_.forget_after = forget_after;
}

absl::StatusOr<ReportReply> Coordinator::OnReport(const Report& report) {
  ++stats_.reports;
  KVT_ASSIGN_OR_RETURN(Node* const node, FindOrInsert(report));
  KVT_RETURN_IF_ERROR(CheckEpoch(node, report));
  node->address = report.address;
  node->tiers = report.tiers;
  node->last_heard = clock_->Now();

  if (report.snapshot_begin) {
    Lose(node);
    node->stream = Stream::kSnapshot;
    node->next_sequence = report.first_sequence;
    ++stats_.snapshots;
  }
  const bool continues = report.snapshot_begin || report.coordinator_epoch == epoch_;
  if (continues && node->stream != Stream::kLost && report.first_sequence <= node->next_sequence) {
    Follow(node, report);
  } else {
    Lose(node);
    ++stats_.resyncs;
  }
  directory_.Sweep();
  NoteTenants(node, report.tenants);
  ReportReply reply{.coordinator_epoch = epoch_,
                    .next_sequence = node->next_sequence,
                    .resync = node->stream == Stream::kLost,
                    .tenants_differ = node->tenants_differ};
  if (Takes(report.tenants, tenants_stamp_, tenants_.replaced)) reply.tenants.emplace(tenants_);
  return reply;
}

void Coordinator::SetTenants(ClusterTenants tenants) {
  tenants_ = std::move(tenants);
  tenants_stamp_ = tenants_.version == 0 ? SettingsStamp() : tenants_.Stamp();
}

bool Coordinator::Differs(const SettingsStamp& followed) const {
  return followed.version > 0 && followed != tenants_stamp_ &&
         !Takes(followed, tenants_stamp_, tenants_.replaced);
}

void Coordinator::NoteTenants(Node* node, const SettingsStamp& followed) {
  node->tenants = followed;
  const bool differed = std::exchange(node->tenants_differ, Differs(followed));
  if (differed || !node->tenants_differ) return;
  differences_.Write(
      LogLevel::kWarning,
      absl::StrCat("node ", node->id.str(), " follows settings of tenants that are not here: ",
                   "version ", followed.version, " of store ", StoreIdText(followed.store),
                   tenants_.version == 0 ? ", and here settings are unknown"
                                         : absl::StrCat(", and here is version ", tenants_.version,
                                                        " of store ", StoreIdText(tenants_.store))),
      clock_->Now());
}

absl::StatusOr<Node*> Coordinator::FindOrInsert(const Report& report) {
  if (Node* const known = nodes_.Find(report.node); known != nullptr) return known;
  if (nodes_.full()) ForgetLongestSilent();
  if (nodes_.full()) {
    ++stats_.refused_nodes;
    return absl::ResourceExhaustedError(
        absl::StrCat("node ", report.node.str(), ": the coordinator has ", nodes_.size(),
                     " nodes already, the most that it may; stop agents that are not needed"));
  }
  return nodes_.Insert({.id = report.node,
                        .epoch = report.node_epoch,
                        .address = report.address,
                        .index = directory_.Enrol()});
}

absl::Status Coordinator::CheckEpoch(Node* node, const Report& report) {
  if (node->epoch == report.node_epoch) return absl::OkStatus();
  const auto before = std::find(node->succeeded.begin(), node->succeeded.end(), report.node_epoch);
  if (before != node->succeeded.end()) {
    // No agent speaks for the later epoch any more: the name belongs to this epoch again.
    const bool silent = clock_->Now() - node->last_heard > options_.node_timeout;
    if (!silent) return RefuseNamesake(node, report);
    node->succeeded.erase(before);
  }
  node->succeeded.insert(node->succeeded.begin(), node->epoch);
  if (node->succeeded.size() > kRememberedEpochs) node->succeeded.pop_back();
  Lose(node);
  node->epoch = report.node_epoch;
  node->next_sequence = 0;
  return absl::OkStatus();
}

absl::Status Coordinator::RefuseNamesake(Node* node, const Report& report) {
  const absl::Time now = clock_->Now();
  ++stats_.refused_namesakes;
  RefusedNamesake namesake = node->refused_namesake.value_or(RefusedNamesake());
  if (now - namesake.last_heard > kNamesakeRemembered) namesake.refused = 0;
  namesake.address = report.address;
  namesake.last_heard = now;
  ++namesake.refused;
  if (namesake.refused >= kReportsOfANamesake &&
      now - namesake.last_logged >= kNamesakeRemembered) {
    namesake.last_logged = now;
    Log(LogLevel::kWarning,
        absl::StrCat("node ", report.node.str(), ": two agents have this name; the later one, at ",
                     node->address, ", is served, the reports of the other, at ", report.address,
                     ", are refused; give each agent a --node_id of its own"));
  }
  node->refused_namesake = std::move(namesake);
  return absl::FailedPreconditionError(
      absl::StrCat("node ", report.node.str(), ": another agent of this name, at ", node->address,
                   ", has reported since; give each agent a --node_id of its own"));
}

void Coordinator::Lose(Node* node) {
  node->stream = Stream::kLost;
  if (directory_.blocks(node->index) == 0) return;
  directory_.Retire(node->index);
  nodes_.Reindex(node, directory_.Enrol());
}

void Coordinator::Follow(Node* node, const Report& report) {
  const uint64_t known =
      std::min<uint64_t>(node->next_sequence - report.first_sequence, report.deltas.size());
  for (const NamedDelta& delta : std::span(report.deltas).subspan(known)) {
    if (delta.kind == Delta::Kind::kAdd) {
      directory_.Add(delta.name, node->index, delta.tier);
    } else {
      directory_.Remove(delta.name, node->index, delta.tier);
    }
  }
  stats_.duplicate_deltas += known;
  stats_.deltas += report.deltas.size() - known;
  const uint64_t end = report.first_sequence + report.deltas.size();
  node->next_sequence = std::max(node->next_sequence, end);
  // The repeated end of an earlier snapshot ends nothing.
  if (report.snapshot_end && end == node->next_sequence) node->stream = Stream::kWhole;
}

LocateReply Coordinator::Locate(const LocateQuery& query) {
  const absl::Time now = clock_->Now();
  const auto usable = [&](NodeIndex index) {
    const Node* const node = nodes_.At(index);
    return node != nullptr && node->id != query.asker &&
           node->StateAt(now, options_.node_timeout) == NodeState::kLive;
  };
  std::vector<HolderSet> held;
  std::vector<size_t> positions;  // Position in the query of each of `held`.
  for (size_t i = 0; i < query.names.size(); ++i) {
    const HolderSet holders = directory_.FindUsable(query.names[i], usable);
    if (holders.size > 0) {
      held.push_back(holders);
      positions.push_back(i);
    } else if (query.scope == LocateScope::kLeading) {
      break;
    }
  }
  absl::flat_hash_map<NodeIndex, size_t> avoided;
  for (size_t i = 0; i < query.avoided.size(); ++i) {
    const Node* const node = nodes_.Find(query.avoided[i]);
    if (node != nullptr) avoided.emplace(node->index, query.avoided.size() - i);
  }
  const std::vector<RankedHolders> ranked = RankHolders(held, NumberOf(query.asker), avoided);
  const bool each = query.scope == LocateScope::kEach;
  LocateReply reply(each ? query.names.size() : held.size());
  for (size_t i = 0; i < ranked.size(); ++i) {
    std::vector<Holder>& holders = reply[positions[i]];
    holders.reserve(ranked[i].size());
    for (const RankedHolder& holder : ranked[i]) {
      const Node* const node = nodes_.At(holder.node);
      holders.push_back({.node = node->id, .address = node->address, .tier = holder.tier});
    }
  }
  ++stats_.locate_requests;
  stats_.located_blocks += held.size();
  return reply;
}

std::vector<Holder> Coordinator::Lookup(const PeerName& name) const {
  std::vector<Holder> copies;
  const HolderSet holders = directory_.Find(name);
  for (const NodeCopies held : holders.view()) {
    const Node* const node = nodes_.At(held.node());
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      if (held.Has(tier)) {
        copies.push_back({.node = node->id, .address = node->address, .tier = tier});
      }
    }
  }
  return copies;
}

void Coordinator::Tick() {
  const absl::Time now = clock_->Now();
  std::vector<NodeId> forgotten;
  for (const Node* node : nodes_.All()) {
    if (now - node->last_heard > options_.forget_after) forgotten.push_back(node->id);
  }
  for (const NodeId& id : forgotten) Forget(id);
  for (int i = 0; i < kSweepsPerTick; ++i) directory_.Sweep();
}

void Coordinator::ForgetLongestSilent() {
  const Node& longest = nodes_.LongestSilent();
  if (longest.StateAt(clock_->Now(), options_.node_timeout) == NodeState::kSilent) {
    Forget(longest.id);
  }
}

void Coordinator::Forget(NodeId id) {
  directory_.Retire(nodes_.Find(id)->index);
  nodes_.Remove(id);
  ++stats_.forgotten_nodes;
}

CoordinatorView Coordinator::snapshot() const {
  const absl::Time now = clock_->Now();
  CoordinatorView view{.epoch = epoch_,
                       .uptime = now - started_,
                       .directory_keys = directory_.keys(),
                       .tenants = tenants_stamp_,
                       .stats = stats_};
  view.stats.refused_keys = directory_.refusals().keys;
  view.stats.refused_holders = directory_.refusals().holders;
  for (const Node* node : nodes_.All()) {
    const bool has_namesake = node->refused_namesake &&
                              node->refused_namesake->refused >= kReportsOfANamesake &&
                              now - node->refused_namesake->last_heard <= kNamesakeRemembered;
    view.nodes.push_back({.id = node->id,
                          .epoch = node->epoch,
                          .address = node->address,
                          .state = node->StateAt(now, options_.node_timeout),
                          .silence = now - node->last_heard,
                          .directory_blocks = directory_.blocks(node->index),
                          .tiers = node->tiers,
                          .tenants = node->tenants,
                          .tenants_differ = Differs(node->tenants),
                          .namesake_address = has_namesake ? node->refused_namesake->address : "",
                          .namesake_silence = has_namesake
                                                  ? now - node->refused_namesake->last_heard
                                                  : absl::ZeroDuration()});
  }
  return view;
}

void Coordinator::Audit() const {
  directory_.Audit();
  nodes_.Audit();
  for (const Node* node : nodes_.All()) {
    KVT_CHECK(node->stream != Stream::kLost || directory_.blocks(node->index) == 0);
  }
}

}  // namespace kvtier
