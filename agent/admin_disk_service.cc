// AdminService's part that verifies disks: begun by one call, followed by others. A pass
// takes minutes to days, so no call waits for it, and it outlives who asked.
#include "absl/strings/str_cat.h"
#include "agent/admin_service.h"
#include "agent/unary_service.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

void FillCounts(const ScrubCounts& counts, v1::DiskVerifyCounts* wire) {
  wire->set_records(counts.records);
  wire->set_bytes(counts.bytes);
  wire->set_damaged(counts.damaged);
  wire->set_errors(counts.errors);
}

}  // namespace

v1::DiskVerify AdminService::DiskVerifyOf(size_t disk) const {
  const ScrubReport report = agent_->disk_tiers()[disk]->scrub();
  const ScrubPass& pass = report.pass;
  const absl::Time now = agent_->executor()->Now();
  v1::DiskVerify wire;
  KVT_CHECK(disk < about_.disk_names.size());
  wire.set_disk(about_.disk_names[disk]);
  wire.set_pass(pass.number);
  wire.set_passes(report.passes);
  FillCounts(report.total, wire.mutable_total());
  if (pass.number == 0) return wire;
  wire.set_asked(pass.asked);
  wire.set_running(pass.running());
  wire.set_segments_done(pass.segments_done);
  wire.set_segments(pass.segments);
  FillCounts(pass.counts, wire.mutable_counts());
  wire.set_seconds(absl::ToDoubleSeconds((pass.running() ? now : pass.ended) - pass.began));
  if (!pass.running()) wire.set_ended_seconds_ago(absl::ToDoubleSeconds(now - pass.ended));
  return wire;
}

AdminService::Reactor* AdminService::StartDiskVerify(Context* context,
                                                     const v1::StartDiskVerifyRequest* request,
                                                     v1::StartDiskVerifyResponse* response) {
  return RunUnary(context, agent_->executor(), agent_->scope(),
                  DoStartDiskVerify(request, response));
}

Task<absl::Status> AdminService::DoStartDiskVerify(const v1::StartDiskVerifyRequest* request,
                                                   v1::StartDiskVerifyResponse* response) {
  const std::vector<DiskTier*> disks = agent_->disk_tiers();
  if (disks.empty()) co_return absl::FailedPreconditionError("this node has no disk");
  const uint64_t rate =
      request->bytes_per_second() == 0 ? kVerifyBytesPerSecond : request->bytes_per_second();
  for (size_t i = 0; i < disks.size(); ++i) {
    const absl::Status began = disks[i]->VerifyAll(rate);
    if (absl::IsAlreadyExists(began)) {
      response->add_were_running(about_.disk_names[i]);
    } else if (!began.ok()) {
      co_return began;
    }
    *response->add_disks() = DiskVerifyOf(i);
  }
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::DiskVerifyStatus(
    Context* context, const v1::DiskVerifyStatusRequest* /*request*/,
    v1::DiskVerifyStatusResponse* response) {
  return RunUnary(context, agent_->executor(), agent_->scope(), DoDiskVerifyStatus(response));
}

Task<absl::Status> AdminService::DoDiskVerifyStatus(v1::DiskVerifyStatusResponse* response) {
  for (size_t i = 0; i < agent_->disk_tiers().size(); ++i) {
    *response->add_disks() = DiskVerifyOf(i);
  }
  co_return absl::OkStatus();
}

}  // namespace kvtier
