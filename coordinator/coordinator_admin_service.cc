#include "coordinator/coordinator_admin_service.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

void FillNode(const NodeView& node, v1::NodeReport* wire) {
  wire->set_node_id(node.id.str());
  wire->set_node_epoch(node.epoch.value);
  wire->set_address(node.address);
  wire->set_state(NodeStateName(node.state));
  wire->set_silence_seconds(absl::ToDoubleSeconds(node.silence));
  wire->set_directory_blocks(node.directory_blocks);
  for (const TierUsage& usage : node.tiers) *wire->add_tiers() = convert::ToWire(usage);
  wire->set_twin_address(node.twin_address);
  wire->set_twin_silence_seconds(absl::ToDoubleSeconds(node.twin_silence));
}

}  // namespace

grpc::Status CoordinatorAdminService::Status(grpc::ServerContext*,
                                             const v1::CoordinatorStatusRequest*,
                                             v1::CoordinatorStatusResponse* response) {
  CoordinatorView view;
  {
    absl::MutexLock lock(&coordinator_->mu);
    view = coordinator_->coordinator.snapshot();
  }
  *response->mutable_version() = convert::OurVersion(build_);
  response->set_coordinator_epoch(view.epoch.value);
  response->set_uptime_seconds(absl::ToDoubleSeconds(view.uptime));
  response->set_directory_keys(view.directory_keys);
  response->set_locate_requests(view.stats.locate_requests);
  response->set_reports(view.stats.reports);
  response->set_resyncs(view.stats.resyncs);
  response->set_refused_keys(view.stats.refused_keys);
  response->set_refused_holders(view.stats.refused_holders);
  response->set_refused_nodes(view.stats.refused_nodes);
  for (const NodeView& node : view.nodes) FillNode(node, response->add_nodes());
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                                             v1::LookupResponse* response) {
  if (request->block_key().empty()) {
    return convert::ToGrpc(absl::InvalidArgumentError(
        "block_key is empty; the coordinator knows block keys only, an agent can name one from "
        "tenant, space and engine key"));
  }
  const absl::StatusOr<BlockKey> key = convert::BlockKeyFrom(request->block_key(), "block_key");
  if (!key.ok()) return convert::ToGrpc(key.status());
  std::vector<Holder> copies;
  {
    absl::MutexLock lock(&coordinator_->mu);
    copies = coordinator_->coordinator.Lookup(*key);
  }
  response->set_block_key(request->block_key());
  for (const Holder& copy : copies) {
    v1::LookupResponse::Copy* const wire = response->add_copies();
    wire->set_node_id(copy.node.str());
    wire->set_tier(convert::ToWire(copy.tier));
  }
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::GetSettings(grpc::ServerContext*,
                                                  const v1::GetSettingsRequest*,
                                                  v1::GetSettingsResponse* response) {
  for (const auto& [name, value] : settings_->All()) {
    v1::Setting* const setting = response->add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::SetSetting(grpc::ServerContext*,
                                                 const v1::SetSettingRequest* request,
                                                 v1::SetSettingResponse*) {
  const v1::Setting& setting = request->setting();
  const absl::Status stored = settings_->Set(setting.name(), setting.value());
  if (!stored.ok()) return convert::ToGrpc(stored);
  {
    absl::MutexLock lock(&coordinator_->mu);
    // Asked for again under the lock: of two changes the later one stays in force.
    const CoordinatorSettings now = settings_->current();
    coordinator_->coordinator.SetTimeouts(now.node_timeout, now.forget_after);
  }
  Log(LogLevel::kInfo, absl::StrCat("setting ", setting.name(), " is now ", setting.value()));
  return grpc::Status::OK;
}

}  // namespace kvtier
