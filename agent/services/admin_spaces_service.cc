// AdminService's part about sharing: who may connect, and which spaces workers registered.
#include "agent/services/admin_service.h"
#include "proto/convert.h"

namespace kvtier {

AdminService::Reactor* AdminService::DescribeSharing(Context* context,
                                                     const v1::DescribeSharingRequest* request,
                                                     v1::DescribeSharingResponse* response) {
  return calls_.Run(context, *request, DoDescribeSharing(response));
}

Task<absl::Status> AdminService::DoDescribeSharing(v1::DescribeSharingResponse* response) {
  const RegisteredSpaces& registered = agent_->sessions().table().spaces();
  for (const RegisteredSpaces::Registered* const space : registered.All()) {
    v1::RegisteredSpace* const report = response->add_spaces();
    *report->mutable_space() = convert::ToWire(space->spec);
    report->set_space_digest(convert::ToWire(space->digest));
    report->set_tenant(agent_->options().tenants.OfDomain(space->domain).name);
    report->set_sessions(static_cast<uint32_t>(space->sessions));
  }
  response->set_forgotten_spaces(registered.forgotten());
  for (const uint32_t uid : about_.worker_uids) response->add_worker_uids(uid);
  response->set_slab_bytes(agent_->options().slab_bytes);
  co_return absl::OkStatus();
}

}  // namespace kvtier
