// Converts the messages between agent and coordinator: deltas, reports, Locate.
#include <array>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"

namespace kvtier::convert {
namespace {

absl::Status TooMany(const char* field, size_t count, size_t limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries; must be at most ", limit));
}

// Returns the tier, host or disk: another node may be told only of blocks in these.
absl::StatusOr<Tier> SharedTierFrom(v1::Tier tier, const std::string& field) {
  if (tier == v1::TIER_HOST || tier == v1::TIER_DISK) return TierFrom(tier, field.c_str());
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", static_cast<int>(tier), "; must be 2 (host) or 3 (disk)"));
}

absl::StatusOr<NamedDelta> DeltaFrom(const v1::BlockDelta& wire, size_t index) {
  const auto field = [index](const char* name) {
    return absl::StrCat("deltas[", index, "].", name);
  };
  NamedDelta delta;
  switch (wire.kind()) {
    case v1::BlockDelta::ADD:
      delta.kind = Delta::Kind::kAdd;
      break;
    case v1::BlockDelta::REMOVE:
      delta.kind = Delta::Kind::kRemove;
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          field("kind"), " is ", static_cast<int>(wire.kind()), "; must be 1 (add) or 2 (remove)"));
  }
  // The names are built for a refusal only: a report has 16,384 of these.
  if (wire.tier() == v1::TIER_HOST) {
    delta.tier = Tier::kHost;
  } else if (wire.tier() == v1::TIER_DISK) {
    delta.tier = Tier::kDisk;
  } else {
    return SharedTierFrom(wire.tier(), field("tier")).status();
  }
  const absl::StatusOr<PeerName> name = PeerName::FromBytes(wire.peer_name());
  if (!name.ok()) return PeerNameFrom(wire.peer_name(), field("peer_name").c_str()).status();
  delta.name = *name;
  return delta;
}

absl::StatusOr<std::vector<TierUsage>> TierUsagesFrom(
    const google::protobuf::RepeatedPtrField<v1::TierUsage>& tiers) {
  std::vector<TierUsage> parsed;
  std::array<bool, kTierCount> seen{};
  for (const v1::TierUsage& wire : tiers) {
    const std::string field = absl::StrCat("tiers[", parsed.size(), "].tier");
    KVT_ASSIGN_OR_RETURN(const Tier tier, TierFrom(wire.tier(), field.c_str()));
    if (std::exchange(seen[TierIndex(tier)], true)) {
      return absl::InvalidArgumentError(absl::StrCat(field, " is ", static_cast<int>(wire.tier()),
                                                     " a second time; must be told once"));
    }
    parsed.push_back({.tier = tier,
                      .capacity_bytes = wire.capacity_bytes(),
                      .used_bytes = wire.used_bytes(),
                      .blocks = wire.blocks()});
  }
  return parsed;
}

// Returns the holders of blocks[index]; `nodes` are the reply's, already parsed.
absl::StatusOr<std::vector<Holder>> HoldersFrom(const v1::LocateResponse::Holders& wire,
                                                size_t index, const std::vector<Holder>& nodes) {
  const std::string field = absl::StrCat("blocks[", index, "].holders");
  if (static_cast<size_t>(wire.holders_size()) > kMaxHoldersPerBlock) {
    return TooMany(field.c_str(), wire.holders_size(), kMaxHoldersPerBlock);
  }
  std::vector<Holder> holders;
  holders.reserve(wire.holders_size());
  for (const v1::BlockHolder& holder : wire.holders()) {
    if (holder.node() >= nodes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(field, "[", holders.size(), "].node is ",
                                                     holder.node(), "; must be below ",
                                                     nodes.size()));
    }
    KVT_ASSIGN_OR_RETURN(
        const Tier tier,
        SharedTierFrom(holder.tier(), absl::StrCat(field, "[", holders.size(), "].tier")));
    holders.push_back(nodes[holder.node()]);
    holders.back().tier = tier;
  }
  return holders;
}

}  // namespace

absl::StatusOr<std::vector<NamedDelta>> DeltasFrom(
    const google::protobuf::RepeatedPtrField<v1::BlockDelta>& deltas) {
  if (static_cast<size_t>(deltas.size()) > kMaxDeltasPerReport) {
    return TooMany("deltas", deltas.size(), kMaxDeltasPerReport);
  }
  std::vector<NamedDelta> parsed;
  parsed.reserve(deltas.size());
  for (const v1::BlockDelta& wire : deltas) {
    KVT_ASSIGN_OR_RETURN(NamedDelta delta, DeltaFrom(wire, parsed.size()));
    parsed.push_back(delta);
  }
  return parsed;
}

absl::StatusOr<Report> ReportFrom(const v1::ReportRequest& request) {
  KVT_RETURN_IF_ERROR(CheckVersion(request.version()));
  KVT_ASSIGN_OR_RETURN(NodeId node, NodeIdFrom(request.node_id(), "node_id"));
  if (request.node_epoch() == 0) {
    return absl::InvalidArgumentError("node_epoch is 0; must be drawn at the agent's start");
  }
  KVT_ASSIGN_OR_RETURN(std::string address, AddressFrom(request.address(), "address"));
  KVT_ASSIGN_OR_RETURN(std::vector<NamedDelta> deltas, DeltasFrom(request.deltas()));
  KVT_ASSIGN_OR_RETURN(std::vector<TierUsage> tiers, TierUsagesFrom(request.tiers()));
  if (request.first_sequence() > std::numeric_limits<uint64_t>::max() - deltas.size()) {
    return absl::InvalidArgumentError(absl::StrCat("first_sequence is ", request.first_sequence(),
                                                   "; must leave room for ", deltas.size(),
                                                   " deltas in 64 bits"));
  }
  return Report{.node = std::move(node),
                .node_epoch = {request.node_epoch()},
                .coordinator_epoch = {request.coordinator_epoch()},
                .address = std::move(address),
                .first_sequence = request.first_sequence(),
                .deltas = std::move(deltas),
                .snapshot_begin = request.snapshot_begin(),
                .snapshot_end = request.snapshot_end(),
                .tiers = std::move(tiers),
                .tenants = {.store = request.tenants_store(),
                            .version = request.tenants_version(),
                            .sum = request.tenants_sum()}};
}

absl::StatusOr<ReportReply> ReportReplyFrom(const v1::ReportResponse& response) {
  KVT_RETURN_IF_ERROR(CheckVersion(response.version()));
  if (response.coordinator_epoch() == 0) {
    return absl::InvalidArgumentError(
        "coordinator_epoch is 0; must be drawn at the coordinator's start");
  }
  ReportReply reply{.coordinator_epoch = {response.coordinator_epoch()},
                    .next_sequence = response.next_sequence(),
                    .resync = response.resync(),
                    .tenants_differ = response.tenants_differ()};
  if (response.has_tenants()) {
    KVT_ASSIGN_OR_RETURN(reply.tenants, ClusterTenantsFrom(response.tenants()));
  }
  return reply;
}

v1::BlockDelta ToWire(const NamedDelta& delta) {
  v1::BlockDelta wire;
  wire.set_kind(delta.kind == Delta::Kind::kAdd ? v1::BlockDelta::ADD : v1::BlockDelta::REMOVE);
  wire.set_tier(ToWire(delta.tier));
  wire.set_peer_name(ToWire(delta.name));
  return wire;
}

v1::TierUsage ToWire(const TierUsage& usage) {
  v1::TierUsage wire;
  wire.set_tier(ToWire(usage.tier));
  wire.set_capacity_bytes(usage.capacity_bytes);
  wire.set_used_bytes(usage.used_bytes);
  wire.set_blocks(usage.blocks);
  return wire;
}

v1::ReportRequest ToWire(const Report& report, const std::string& build) {
  KVT_CHECK(report.deltas.size() <= kMaxDeltasPerReport);
  v1::ReportRequest wire;
  *wire.mutable_version() = OurVersion(build);
  wire.set_node_id(report.node.str());
  wire.set_node_epoch(report.node_epoch.value);
  wire.set_coordinator_epoch(report.coordinator_epoch.value);
  wire.set_address(report.address);
  wire.set_first_sequence(report.first_sequence);
  for (const NamedDelta& delta : report.deltas) *wire.add_deltas() = ToWire(delta);
  wire.set_snapshot_begin(report.snapshot_begin);
  wire.set_snapshot_end(report.snapshot_end);
  for (const TierUsage& usage : report.tiers) *wire.add_tiers() = ToWire(usage);
  wire.set_tenants_store(report.tenants.store);
  wire.set_tenants_version(report.tenants.version);
  wire.set_tenants_sum(report.tenants.sum);
  return wire;
}

v1::ReportResponse ToWire(const ReportReply& reply, const std::string& build) {
  v1::ReportResponse wire;
  *wire.mutable_version() = OurVersion(build);
  wire.set_coordinator_epoch(reply.coordinator_epoch.value);
  wire.set_next_sequence(reply.next_sequence);
  wire.set_resync(reply.resync);
  if (reply.tenants.has_value()) *wire.mutable_tenants() = ToWire(*reply.tenants);
  wire.set_tenants_differ(reply.tenants_differ);
  return wire;
}

absl::StatusOr<LocateQuery> LocateQueryFrom(const v1::LocateRequest& request) {
  KVT_RETURN_IF_ERROR(CheckVersion(request.version()));
  KVT_ASSIGN_OR_RETURN(NodeId asker, NodeIdFrom(request.node_id(), "node_id"));
  KVT_ASSIGN_OR_RETURN(std::vector<PeerName> names,
                       PeerNamesFrom(request.peer_names(), "peer_names"));
  if (static_cast<size_t>(request.avoided_size()) > kMaxAvoidedNodes) {
    return TooMany("avoided", request.avoided_size(), kMaxAvoidedNodes);
  }
  std::vector<NodeId> avoided;
  for (const std::string& id : request.avoided()) {
    const std::string field = absl::StrCat("avoided[", avoided.size(), "]");
    KVT_ASSIGN_OR_RETURN(NodeId node, NodeIdFrom(id, field.c_str()));
    avoided.push_back(std::move(node));
  }
  return LocateQuery{.asker = std::move(asker),
                     .names = std::move(names),
                     .scope = request.each() ? LocateScope::kEach : LocateScope::kLeading,
                     .avoided = std::move(avoided)};
}

v1::LocateRequest ToWire(const LocateQuery& query, const std::string& build) {
  KVT_CHECK(query.names.size() <= kMaxKeysPerRequest);
  KVT_CHECK(query.avoided.size() <= kMaxAvoidedNodes);
  v1::LocateRequest wire;
  *wire.mutable_version() = OurVersion(build);
  wire.set_node_id(query.asker.str());
  for (const PeerName& name : query.names) wire.add_peer_names(ToWire(name));
  wire.set_each(query.scope == LocateScope::kEach);
  for (const NodeId& node : query.avoided) wire.add_avoided(node.str());
  return wire;
}

absl::StatusOr<LocateReply> LocateReplyFrom(const v1::LocateResponse& response) {
  if (static_cast<size_t>(response.nodes_size()) > kMaxNodesPerReply) {
    return TooMany("nodes", response.nodes_size(), kMaxNodesPerReply);
  }
  if (static_cast<size_t>(response.blocks_size()) > kMaxKeysPerRequest) {
    return TooMany("blocks", response.blocks_size(), kMaxKeysPerRequest);
  }
  std::vector<Holder> nodes;
  nodes.reserve(response.nodes_size());
  for (const v1::LocateResponse::Node& node : response.nodes()) {
    const std::string field = absl::StrCat("nodes[", nodes.size(), "]");
    KVT_ASSIGN_OR_RETURN(NodeId id, NodeIdFrom(node.node_id(), (field + ".node_id").c_str()));
    KVT_ASSIGN_OR_RETURN(std::string address,
                         AddressFrom(node.address(), (field + ".address").c_str()));
    nodes.push_back({.node = std::move(id), .address = std::move(address)});
  }
  LocateReply reply;
  reply.reserve(response.blocks_size());
  for (const v1::LocateResponse::Holders& block : response.blocks()) {
    KVT_ASSIGN_OR_RETURN(std::vector<Holder> holders, HoldersFrom(block, reply.size(), nodes));
    reply.push_back(std::move(holders));
  }
  return reply;
}

v1::LocateResponse ToWire(const LocateReply& reply) {
  KVT_CHECK(reply.size() <= kMaxKeysPerRequest);
  v1::LocateResponse wire;
  absl::flat_hash_map<NodeId, uint32_t> places;  // Places in wire.nodes.
  for (const std::vector<Holder>& holders : reply) {
    KVT_CHECK(holders.size() <= kMaxHoldersPerBlock);
    v1::LocateResponse::Holders* const block = wire.add_blocks();
    for (const Holder& holder : holders) {
      const auto [place, is_new] = places.try_emplace(holder.node, wire.nodes_size());
      if (is_new) {
        v1::LocateResponse::Node* const node = wire.add_nodes();
        node->set_node_id(holder.node.str());
        node->set_address(holder.address);
      }
      v1::BlockHolder* const out = block->add_holders();
      out->set_node(place->second);
      out->set_tier(ToWire(holder.tier));
    }
  }
  return wire;
}

}  // namespace kvtier::convert
