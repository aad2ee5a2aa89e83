#include "cli/disk_verify.h"

#include <algorithm>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/admin_client.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(250);

// Progress of several agents' passes, as one line. Thread-safe.
class SharedProgress {
 public:
  explicit SharedProgress(const Progress& progress) : progress_(progress) {}
  void Update(const std::string& address, const std::vector<v1::DiskVerify>& disks) {
    const absl::MutexLock lock(&mu_);
    disks_[address] = disks;
    v1::DiskVerifyCounts sum;
    uint64_t done = 0;
    uint64_t segments = 0;
    for (const auto& [unused, of_agent] : disks_) {
      for (const v1::DiskVerify& disk : of_agent) {
        sum.set_records(sum.records() + disk.counts().records());
        sum.set_bytes(sum.bytes() + disk.counts().bytes());
        sum.set_damaged(sum.damaged() + disk.counts().damaged());
        done += disk.segments_done();
        segments += disk.segments();
      }
    }
    if (!progress_) return;
    progress_(absl::StrCat("segment ", CountText(done), " of ", CountText(segments), ": ",
                           CountText(sum.records()), " records, ", BytesText(sum.bytes()),
                           " verified, ", CountText(sum.damaged()), " damaged"));
  }

 private:
  const Progress& progress_;
  absl::Mutex mu_;
  std::map<std::string, std::vector<v1::DiskVerify>> disks_ ABSL_GUARDED_BY(mu_);
};

// Updates each of the passes `disks` from `status`. Errors: kAborted, the agent started again, or
// has other disks now.
absl::Status Follow(const v1::DiskVerifyStatusResponse& status,
                    std::vector<v1::DiskVerify>* disks) {
  for (v1::DiskVerify& ours : *disks) {
    const auto theirs =
        std::find_if(status.disks().begin(), status.disks().end(),
                     [&](const v1::DiskVerify& disk) { return disk.disk() == ours.disk(); });
    if (theirs == status.disks().end() || theirs->pass() != ours.pass()) {
      return absl::AbortedError(
          absl::StrCat("the pass over ", ours.disk(),
                       " was lost: the agent restarted or has other disks; start another"));
    }
    ours = *theirs;
  }
  return absl::OkStatus();
}

absl::StatusOr<VerifiedDisks> VerifyAgent(const std::string& address, const Arguments& arguments,
                                          SharedProgress* progress) {
  const AgentAdmin admin(address, arguments.timeout);
  v1::StartDiskVerifyRequest request;
  request.set_bytes_per_second(arguments.rate);
  KVT_ASSIGN_OR_RETURN(const v1::StartDiskVerifyResponse began, admin.StartDiskVerify(request));
  VerifiedDisks verified{.disks = {began.disks().begin(), began.disks().end()},
                         .joined = {began.were_running().begin(), began.were_running().end()}};
  while (true) {
    progress->Update(address, verified.disks);
    const bool running = std::any_of(verified.disks.begin(), verified.disks.end(),
                                     [](const v1::DiskVerify& disk) { return disk.running(); });
    if (!running) return verified;
    absl::SleepFor(kAskAgainAfter);
    KVT_ASSIGN_OR_RETURN(const v1::DiskVerifyStatusResponse status, admin.DiskVerifyStatus());
    KVT_RETURN_IF_ERROR(Follow(status, &verified.disks));
  }
}

bool IsJoined(const VerifiedDisks& verified, const v1::DiskVerify& disk) {
  return std::count(verified.joined.begin(), verified.joined.end(), disk.disk()) > 0;
}

std::string RemarkOn(const VerifiedDisks& verified, const v1::DiskVerify& disk) {
  if (!disk.error().empty()) return disk.error();
  return IsJoined(verified, disk) ? "a pass was running; followed it" : "";
}

}  // namespace

std::string DiskVerifyTable(const DiskVerifyAnswers& answers) {
  Table table({{"AGENT"},
               {"DISK"},
               {"RECORDS", Align::kRight},
               {"BYTES", Align::kRight},
               {"DAMAGED", Align::kRight},
               {"ERRORS", Align::kRight},
               {"TOOK", Align::kRight},
               {""}});
  for (const auto& [address, response] : answers) {
    if (!response.ok()) {
      table.AddRow({address, "-", "-", "-", "-", "-", "-", FailureText(response.status())});
      continue;
    }
    for (const v1::DiskVerify& disk : response->disks) {
      const v1::DiskVerifyCounts& counts = disk.counts();
      table.AddRow({address, disk.disk(), CountText(counts.records()), BytesText(counts.bytes()),
                    CountText(counts.damaged()), CountText(counts.errors()),
                    SecondsText(disk.seconds()), RemarkOn(*response, disk)});
    }
  }
  return table.ToString();
}

std::string DiskVerifyJson(const DiskVerifyAnswers& answers) {
  return AgentsJson(answers, [](const VerifiedDisks& response, JsonWriter* json) {
    json->OpenArray("disks");
    for (const v1::DiskVerify& disk : response.disks) {
      json->OpenElement();
      json->Text("disk", disk.disk());
      json->Text("error", disk.error());
      json->Flag("was_running", IsJoined(response, disk));
      json->Count("records", disk.counts().records());
      json->Count("bytes", disk.counts().bytes());
      json->Count("damaged", disk.counts().damaged());
      json->Count("errors", disk.counts().errors());
      json->Seconds("seconds", disk.seconds());
      json->Close();
    }
    json->Close();
  });
}

Outcome RunDiskVerify(const Arguments& arguments, const Progress& progress) {
  SharedProgress shared(progress);
  const DiskVerifyAnswers answers = AskAll<VerifiedDisks>(
      arguments.agents,
      [&](const std::string& address) { return VerifyAgent(address, arguments, &shared); });
  Verdict verdict;
  bool damaged = false;
  for (const auto& answer : answers) {
    verdict.Add(answer);
    if (!answer.response.ok()) continue;
    for (const v1::DiskVerify& disk : answer.response->disks) {
      if (!disk.error().empty()) verdict.Add(absl::FailedPreconditionError(disk.error()));
      damaged = damaged || disk.counts().damaged() > 0 || disk.counts().errors() > 0;
    }
  }
  const ExitCode code =
      verdict.code() == ExitCode::kOk && damaged ? ExitCode::kDamaged : verdict.code();
  return {.code = code,
          .out = arguments.format == Format::kJson ? DiskVerifyJson(answers)
                                                   : DiskVerifyTable(answers)};
}

}  // namespace kvtier::cli
