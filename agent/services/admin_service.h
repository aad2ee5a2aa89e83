// AdminService tells operators what the agent holds and did, on a Unix socket that is theirs alone:
// they may name any tenant's blocks. All its calls only read, except for these: EvictTier,
// EraseTenant and DropPrefix drop blocks, which are copies, and nothing else; EndTenantKept ends
// kept prefixes; SetTenant and DropTenant change which tenants are admitted; StartDiskVerify drops
// damaged blocks; ResizeGpuPool and ResizeHostMemory drop blocks for which no room is left.
#ifndef KVTIER_AGENT_SERVICES_ADMIN_SERVICE_H_
#define KVTIER_AGENT_SERVICES_ADMIN_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/services/call_budget.h"
#include "agent/services/unary_service.h"
#include "core/status_macros.h"
#include "core/task.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "proto/convert.h"

namespace kvtier {

// Thread-safe. REQUIRES: the agent outlives the server.
class AdminService final : public v1::AgentAdmin::CallbackService {
 public:
  // Facts that only main knows.
  struct AboutDisk {
    std::string directory;
    std::string io;  // "io_uring", "pread" or "buffered".
    bool encrypted = false;
    // Reason why the disk did not open and is none of the agent's disks; OK if it did.
    absl::Status error;
    std::string lost{};  // Reason why the disk starts empty although it had blocks; empty: none.
  };
  struct About {
    std::string build;                    // "kvtier-agent 0.1.0".
    std::string coordinator;              // Address, or empty.
    std::string disk_io;                  // "io_uring", "pread" or "none".
    std::string device;                   // "none", "emulated" or a GPU's name.
    std::vector<uint32_t> worker_uids{};  // --allow_uids.
    std::vector<AboutDisk> disks{};  // Disks in the agent's order, then those that did not open.
  };
  AdminService(Agent* agent, About about)
      : agent_(agent),
        about_(std::move(about)),
        started_(agent->executor()->Now()),
        budget_({.bytes = kMaxAdminCallBytes, .duration = kMaxCallDuration}),
        calls_(agent->executor(), agent->scope(), &budget_) {}

  // Answers what anybody may know: no tenant's name, and no reason why a disk did not
  // open, which may tell of its secret.
  Task<absl::Status> PublicStatus(v1::AgentStatusResponse* response);

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* Status(Context* context, const v1::AgentStatusRequest* request,
                  v1::AgentStatusResponse* response) override;
  Reactor* Lookup(Context* context, const v1::LookupRequest* request,
                  v1::LookupResponse* response) override;
  Reactor* EvictTier(Context* context, const v1::EvictTierRequest* request,
                     v1::EvictTierResponse* response) override;
  Reactor* EraseTenant(Context* context, const v1::EraseTenantRequest* request,
                       v1::EraseTenantResponse* response) override;
  Reactor* ResizeGpuPool(Context* context, const v1::ResizeGpuPoolRequest* request,
                         v1::ResizeGpuPoolResponse* response) override;
  // Implemented in admin_host_service.cc.
  Reactor* ResizeHostMemory(Context* context, const v1::ResizeHostMemoryRequest* request,
                            v1::ResizeHostMemoryResponse* response) override;
  Reactor* StartDiskVerify(Context* context, const v1::StartDiskVerifyRequest* request,
                           v1::StartDiskVerifyResponse* response) override;
  Reactor* DiskVerifyStatus(Context* context, const v1::DiskVerifyStatusRequest* request,
                            v1::DiskVerifyStatusResponse* response) override;
  Reactor* DescribeSharing(Context* context, const v1::DescribeSharingRequest* request,
                           v1::DescribeSharingResponse* response) override;
  Reactor* ListTenants(Context* context, const v1::ListTenantsRequest* request,
                       v1::ListTenantsResponse* response) override;
  // Implemented in admin_kept_service.cc.
  Reactor* ListTenantsKept(Context* context, const v1::ListTenantsKeptRequest* request,
                           v1::ListTenantsKeptResponse* response) override;
  Reactor* EndTenantKept(Context* context, const v1::EndTenantKeptRequest* request,
                         v1::EndTenantKeptResponse* response) override;
  Reactor* DropPrefix(Context* context, const v1::DropPrefixRequest* request,
                      v1::DropPrefixResponse* response) override;
  Reactor* SetTenant(Context* context, const v1::SetTenantRequest* request,
                     v1::SetTenantResponse* response) override;
  Reactor* DropTenant(Context* context, const v1::DropTenantRequest* request,
                      v1::DropTenantResponse* response) override;
  Reactor* ExportTenants(Context* context, const v1::ExportTenantsRequest* request,
                         v1::ExportTenantsResponse* response) override;

 private:
  Task<absl::Status> DoStatus(v1::AgentStatusResponse* response);
  Task<absl::Status> DoLookup(const v1::LookupRequest* request, v1::LookupResponse* response);
  Task<absl::Status> DoEvictTier(const v1::EvictTierRequest* request,
                                 v1::EvictTierResponse* response);
  Task<absl::Status> DoEraseTenant(const v1::EraseTenantRequest* request,
                                   v1::EraseTenantResponse* response);
  Task<absl::Status> DoResizeGpuPool(const v1::ResizeGpuPoolRequest* request,
                                     v1::ResizeGpuPoolResponse* response);
  Task<absl::Status> DoResizeHostMemory(const v1::ResizeHostMemoryRequest* request,
                                        v1::ResizeHostMemoryResponse* response);
  void FillHostMemory(v1::HostMemoryReport* report);
  void FillDisks(v1::AgentStatusResponse* response) const;
  Task<absl::Status> DoStartDiskVerify(const v1::StartDiskVerifyRequest* request,
                                       v1::StartDiskVerifyResponse* response);
  Task<absl::Status> DoDiskVerifyStatus(v1::DiskVerifyStatusResponse* response);
  Task<absl::Status> DoDescribeSharing(v1::DescribeSharingResponse* response);
  Task<absl::Status> DoListTenants(v1::ListTenantsResponse* response);
  Task<absl::Status> DoListTenantsKept(const v1::ListTenantsKeptRequest* request,
                                       v1::ListTenantsKeptResponse* response);
  Task<absl::Status> DoEndTenantKept(const v1::EndTenantKeptRequest* request,
                                     v1::EndTenantKeptResponse* response);
  Task<absl::Status> DoDropPrefix(const v1::DropPrefixRequest* request,
                                  v1::DropPrefixResponse* response);
  // Errors: kNotFound, no tenant of this node has that name.
  absl::StatusOr<const Tenant*> TenantNamed(const std::string& name) const;
  Task<absl::Status> DoSetTenant(const v1::SetTenantRequest* request,
                                 v1::SetTenantResponse* response);
  Task<absl::Status> DoDropTenant(const v1::DropTenantRequest* request,
                                  v1::DropTenantResponse* response);
  Task<absl::Status> DoExportTenants(v1::ExportTenantsResponse* response);
  // Describes a disk, given its status in the agent; nullptr: the disk did not open.
  v1::DiskVerify DiskVerifyOf(const AboutDisk& about, const DiskSet::DiskStatus* status) const;
  absl::StatusOr<BlockKey> KeyOf(const v1::LookupRequest& request) const;
  // Names the block of a request that has tenant, space_digest and engine_key.
  template <typename Request>
  absl::StatusOr<BlockKey> NameOf(const Tenant& tenant, const Request& request) const {
    KVT_ASSIGN_OR_RETURN(const SpaceDigest space,
                         convert::SpaceDigestFrom(request.space_digest(), "space_digest"));
    KVT_ASSIGN_OR_RETURN(const EngineKey engine_key, EngineKey::FromBytes(request.engine_key()));
    return BlockNamer(tenant.key, space).Name(engine_key);
  }
  // Returns the tenant of the block that the request means: that which it names, or that of the
  // block if it is here, or the only one; nullptr: it is not known.
  const Tenant* TenantOf(const v1::LookupRequest& request, const BlockKey& key) const;
  // Returns the payload bytes of the tier's copy. REQUIRES: the tier has the block.
  uint64_t LengthIn(Tier tier, const BlockKey& key) const;

  Agent* const agent_;
  const About about_;
  const absl::Time started_;
  CallBudget budget_;
  UnaryCalls calls_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_ADMIN_SERVICE_H_
