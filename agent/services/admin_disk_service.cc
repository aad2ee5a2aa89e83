// AdminService's part about disks: the status of each, and their verification, which one call
// begins and others follow. A pass takes minutes to days, so no call waits for it, and it goes on
// when the caller is gone.
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/services/admin_service.h"

namespace kvtier {
namespace {

void FillCounts(const ScrubCounts& counts, v1::DiskVerifyCounts* wire) {
  wire->set_records(counts.records);
  wire->set_bytes(counts.bytes);
  wire->set_damaged(counts.damaged);
  wire->set_errors(counts.errors);
}

void FillVerify(const ScrubReport& report, absl::Time now, v1::DiskVerify* wire) {
  const ScrubPass& pass = report.pass;
  wire->set_pass(pass.number);
  wire->set_passes(report.passes);
  FillCounts(report.total, wire->mutable_total());
  if (pass.number == 0) return;
  wire->set_asked(pass.asked);
  wire->set_running(pass.running());
  wire->set_segments_done(pass.segments_done);
  wire->set_segments(pass.segments);
  FillCounts(pass.counts, wire->mutable_counts());
  wire->set_seconds(absl::ToDoubleSeconds((pass.running() ? now : pass.ended) - pass.began));
  if (!pass.running()) wire->set_ended_seconds_ago(absl::ToDoubleSeconds(now - pass.ended));
}

}  // namespace

void AdminService::FillDisks(v1::AgentStatusResponse* response) const {
  const DiskSet* const disks = agent_->disks().set();
  std::vector<DiskSet::DiskStatus> statuses;
  if (disks != nullptr) statuses = disks->Statuses();
  size_t next = 0;
  for (const AboutDisk& about : about_.disks) {
    v1::DiskReport* const report = response->add_disks();
    report->set_directory(about.directory);
    if (!about.error.ok()) {
      report->set_health(absl::StrCat("not open: ", about.error.ToString()));
      continue;
    }
    const std::optional<DiskAdmission::Left> budget =
        agent_->disks().admission()->BudgetLeft(next, agent_->executor()->Now());
    const DiskSet::DiskStatus& status = statuses.at(next++);
    report->set_id(status.id.ToHex());
    report->set_io(about.io);
    report->set_encrypted(about.encrypted);
    report->set_serving(status.serving);
    report->set_health(about.lost.empty()
                           ? status.health
                           : absl::StrCat(status.health, "; started empty: ", about.lost));
    report->set_quarantines(status.quarantines);
    report->set_blocks(status.block_count);
    report->set_capacity_bytes(status.capacity_bytes);
    report->set_used_bytes(status.used_bytes);
    report->set_index_bytes(status.index_bytes);
    report->set_manifest_bytes(status.manifest_bytes);
    report->set_bytes_in(status.bytes_in);
    report->set_bytes_out(status.bytes_out);
    report->set_io_errors(status.io_errors);
    report->set_written_bytes(status.written_bytes);
    report->set_reappended_bytes(status.reappended_bytes);
    if (status.bytes_in > 0) {
      report->set_write_amplification(static_cast<double>(status.written_bytes) /
                                      static_cast<double>(status.bytes_in));
    }
    if (!budget.has_value()) continue;
    report->set_budget_bytes_per_day(budget->bytes_per_day);
    report->set_budget_left_bytes(budget->bytes);
  }
}

v1::DiskVerify AdminService::DiskVerifyOf(const AboutDisk& about,
                                          const DiskSet::DiskStatus* status) const {
  v1::DiskVerify wire;
  wire.set_disk(about.directory);
  if (status == nullptr) {
    wire.set_error(absl::StrCat("not open: ", about.error.ToString()));
  } else {
    FillVerify(status->scrub, agent_->executor()->Now(), &wire);
  }
  return wire;
}

AdminService::Reactor* AdminService::StartDiskVerify(Context* context,
                                                     const v1::StartDiskVerifyRequest* request,
                                                     v1::StartDiskVerifyResponse* response) {
  return calls_.Run(context, *request, DoStartDiskVerify(request, response));
}

Task<absl::Status> AdminService::DoStartDiskVerify(const v1::StartDiskVerifyRequest* request,
                                                   v1::StartDiskVerifyResponse* response) {
  if (agent_->disks().set() == nullptr)
    co_return absl::FailedPreconditionError(
        about_.disks.empty() ? "this node has no disk; start the agent with --disk_dir"
                             : "no disk of this node is open; its status says why");
  const uint64_t rate =
      request->bytes_per_second() == 0 ? kVerifyBytesPerSecond : request->bytes_per_second();
  const std::vector<absl::Status> began = agent_->disks().set()->VerifyAll(rate);
  const std::vector<DiskSet::DiskStatus> statuses = agent_->disks().set()->Statuses();
  size_t next = 0;
  for (const AboutDisk& about : about_.disks) {
    const size_t open = about.error.ok() ? next++ : statuses.size();
    v1::DiskVerify* const disk = response->add_disks();
    *disk = DiskVerifyOf(about, open < statuses.size() ? &statuses[open] : nullptr);
    if (open == statuses.size()) continue;
    if (absl::IsAlreadyExists(began[open])) {
      response->add_were_running(about.directory);
    } else if (!began[open].ok()) {
      disk->set_error(std::string(began[open].message()));
    }
  }
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::DiskVerifyStatus(Context* context,
                                                      const v1::DiskVerifyStatusRequest* request,
                                                      v1::DiskVerifyStatusResponse* response) {
  return calls_.Run(context, *request, DoDiskVerifyStatus(response));
}

Task<absl::Status> AdminService::DoDiskVerifyStatus(v1::DiskVerifyStatusResponse* response) {
  if (agent_->disks().set() == nullptr) co_return absl::OkStatus();
  const std::vector<DiskSet::DiskStatus> statuses = agent_->disks().set()->Statuses();
  size_t next = 0;
  for (const AboutDisk& about : about_.disks) {
    *response->add_disks() = DiskVerifyOf(about, about.error.ok() ? &statuses[next++] : nullptr);
  }
  co_return absl::OkStatus();
}

}  // namespace kvtier
