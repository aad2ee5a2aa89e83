// `kvtier disk verify`: has the asked agents verify every record of their disks, follows
// them to the end and says what they found.
#ifndef KVTIER_CLI_DISK_VERIFY_H_
#define KVTIER_CLI_DISK_VERIFY_H_

#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "cli/progress.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// Result of one agent's disks.
struct VerifiedDisks {
  std::vector<v1::DiskVerify> disks;
  std::vector<std::string> joined;  // Disks whose pass was running already.
};
using DiskVerifyAnswers = std::vector<Answer<VerifiedDisks>>;

// Has the agents verify their disks, and waits for the end. An agent that stops answering is an
// error; its pass goes on if it lives. Damaged and unreadable records are ExitCode::kDamaged.
Outcome RunDiskVerify(const Arguments& arguments, const Progress& progress);

std::string DiskVerifyTable(const DiskVerifyAnswers& answers);
std::string DiskVerifyJson(const DiskVerifyAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_DISK_VERIFY_H_
