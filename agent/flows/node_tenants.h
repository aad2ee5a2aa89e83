// NodeTenants makes, changes and drops the tenants of a node while it runs, and stores their
// settings (TenantStore).
//
// A tenant exists once it has a secret, which is set here or appears in the directory of secrets.
// The agent reads that directory every kTenantsInterval. A tenant whose secret is removed may
// open no more sessions, but its blocks stay. The same holds for one whose secret has changed,
// because its blocks are named with the old secret. Lost or unknown settings delete nothing. Only
// Drop() deletes: it ends the tenant's sessions and erases its blocks in all tiers. Blocks that are
// still held go when they are released, and until then the tenant's name and secret cannot be used
// again.
//
// Executor thread only. One change at a time: each waits for the one before it.
#ifndef KVTIER_AGENT_FLOWS_NODE_TENANTS_H_
#define KVTIER_AGENT_FLOWS_NODE_TENANTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/disk/node_disks.h"
#include "agent/flows/memory_mover.h"
#include "agent/flows/node_flows.h"
#include "agent/flows/tenant_book.h"
#include "agent/flows/tenant_store.h"
#include "agent/flows/tier_division.h"
#include "agent/index/residency.h"
#include "agent/index/stored_lessons.h"
#include "agent/tenants.h"
#include "core/event.h"
#include "core/report.h"
#include "core/task.h"
#include "core/tenant_settings.h"
#include "core/tier.h"
#include "core/tier_share.h"
#include "tier_host/host_shares.h"

namespace kvtier {

class NodeTenants {
 public:
  struct Options {
    uint64_t host_bytes = 0;      // Host memory of all tenants, at first.
    uint64_t host_max_bytes = 0;  // Bound of its growth.
    uint64_t slab_bytes = 0;
    HostMemory host_memory = HostMemory::kFixed;
    TenantSettingsMap settings_file;  // Settings that the agent was started with.
  };
  // Parts of the agent that a tenant has something in; not owned.
  struct Parts {
    NodeRooms rooms;
    TenantTable* tenants = nullptr;
    Residency* residency = nullptr;
    StoredLessons* lessons = nullptr;
    NodeFlows* flows = nullptr;
    HostShares* shares = nullptr;
    GpuDivider* gpu_divider = nullptr;
    MemoryMover* mover = nullptr;
    TenantStore* store = nullptr;  // Store of the settings; null: they end with the agent.
    // Hangs up on the session's worker and closes the session.
    absl::AnyInvocable<void(SessionId)> end_session;
  };
  NodeTenants(Options options, Parts parts);

  // Reads the stored settings. REQUIRES: the disks are open; nothing else is called before.
  Task<void> Load();
  // Looks at the secrets every kTenantsInterval, until the waits end.
  Task<void> Run();
  // Looks at the secrets now.
  Task<void> Look();

  // Looks at the secrets, changes a tenant's settings, and with a secret makes the tenant, or lets
  // it in again. Errors after which nothing has changed: kInvalidArgument, naming field and value;
  // kNotFound, there is no such tenant, and neither a secret nor a setting is named;
  // TenantTable::Check()'s; TenantStore's; HostTier::AddDomain()'s.
  Task<absl::Status> Set(TenantChange change, std::optional<std::string> secret);

  struct Dropped {
    uint64_t sessions = 0;  // Sessions that were ended.
    uint64_t disk_blocks = 0;
    uint64_t memory_blocks = 0;
    uint64_t held_bytes =
        0;  // Host memory that is leased, is being copied, or that workers may write.
    bool had_settings = false;
  };
  // Drops the tenant. Errors after which nothing has changed: kNotFound, there is no such tenant;
  // kFailedPrecondition, it is the open tenant, the only one, or that of the GPU pools, or its
  // secret cannot be removed here. After errors of TenantEraser::EraseAll() the tenant is gone from
  // memory; drop it again.
  Task<absl::StatusOr<Dropped>> Drop(std::string name);

  // Follows the coordinator's settings from now on, or ignores them (Takes()).
  void TakeCluster(ClusterTenants tenants);
  // Returns the cluster's settings that the node follows; version 0: none.
  const ClusterTenants& cluster() const { return book_.kept().cluster; }
  // Returns their stamp.
  const SettingsStamp& cluster_stamp() const { return cluster_stamp_; }

  struct View {
    std::string name;
    std::optional<DomainId> domain;  // nullopt: it has no secret here, and no blocks in memory.
    bool shut = false;               // Whether the tenant's workers are refused from now on.
    TenantBook::Holding holding;
    // Shares by tier, of a tenant with a domain.
    std::array<TierShare, kTierCount> shares{};
  };
  // Returns the tenants with a domain, in the order of the domains, then the tenants that only
  // settings name.
  std::vector<View> All() const;
  // Returns why kept settings were not read when the agent started; empty: they were.
  const std::string& settings_failure() const { return settings_failure_; }
  // Returns the bytes of the tier that tenants divide; 0: the node has no such tier.
  uint64_t CapacityOf(Tier tier) const { return division_.CapacityOf(tier); }
  // Sets how much host memory all tenants have together from now on. REQUIRES: it is no more than
  // host_max_bytes.
  void SetHostSlabs(uint64_t slabs);

  // Evicts what is released of tenants that were dropped. Returns whether it is to be called again
  // at once, because there is more to evict.
  bool Sweep();

 private:
  // A change is made between the two: TakeTurn() waits for the changes before it.
  Task<void> TakeTurn();
  void EndTurn();
  Task<void> LookInTurn();
  Task<absl::Status> SetInTurn(TenantChange change, std::optional<std::string> secret);
  Task<absl::StatusOr<Dropped>> DropInTurn(std::string name);

  // Waits until the new domain has its first memory, kNewTenantMemoryWait at most.
  Task<void> AwaitMemory(DomainId domain);
  absl::Status CheckSecret(const TenantChange& change, const std::string& secret) const;
  absl::Status CheckFits(const TenantSettings& changed) const;
  absl::Status CheckMayDrop(const Tenant* tenant) const;
  // Stores the settings that were made on this node, and then applies them.
  Task<absl::Status> Keep(KeptTenantSettings kept);
  Task<void> KeepCluster();
  // Gives the tenant a domain in every part of the agent. Errors: TenantTable::Check()'s,
  // HostTier::AddDomain()'s.
  absl::Status Admit(const TenantTable::Entry& entry);
  void LookAt(const std::vector<TenantSecret>& secrets);
  void LookAt(const TenantSecret& there);
  // Logs what is wrong with a tenant's secret, once for each reason.
  void Complain(const std::string& name, const absl::Status& why);
  // Computes the shares that apply, and hands them to the tiers. Lets the members of share groups
  // in, and ends the sessions of workers that are no longer members.
  void ApplyShares();
  // Returns the domain of a new tenant, with an arena and no memory yet.
  absl::StatusOr<DomainId> AddHostDomain(const std::string& name);
  // Begins to give the domain memory. REQUIRES: every part of the agent knows the domain.
  void FillHostDomain(DomainId domain);
  // Ends a domain of which nothing is held.
  Task<void> EndDomain(DomainId domain);

  const Options options_;
  Parts parts_;
  TierDivision division_;
  TenantBook book_;
  // Whether settings may be stored; not OK: the stored ones cannot be read and must stay.
  absl::Status may_keep_;
  std::string settings_failure_;
  std::string secrets_failure_;  // Failure of the latest look.
  absl::flat_hash_set<std::string> complaints_;
  std::vector<DomainId> leaving_;  // Domains of dropped tenants of which something is held.
  SettingsStamp cluster_stamp_;
  bool keeping_cluster_ = false;
  bool has_turn_ = false;
  std::deque<Event*> line_;  // Changes that wait for their turn.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_NODE_TENANTS_H_
