// These functions open the disk directories that an operator named.
#ifndef KVTIER_AGENT_NAMED_DISKS_H_
#define KVTIER_AGENT_NAMED_DISKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_config.h"
#include "core/executor.h"
#include "tier_disk/directory/open_disk.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

// A directory of --disk_dir and what became of it.
struct NamedDisk {
  std::string directory;
  bool buffered = false;
  absl::StatusOr<OpenedDisk> opened;
  // Returns "io_uring", "pread" or "buffered". REQUIRES: it opened.
  std::string io_name() const;
};

// Opens the directories of --disk_dir one after the other. A disk that the file system fails to
// open (kUnavailable: an I/O error, a manifest that cannot be read) stays out, also if it is the
// only one, and the log says so. So does one whose directory is missing (kNotFound), while another
// opens. Does not own `executor`. Errors: the first kNotFound, if no disk opened; any disk's other
// than kUnavailable and kNotFound, because an operator must then change flags or make room;
// kFailedPrecondition, two directories are the same disk; MasterSecret::Read()'s, naming
// --disk_secret_dir. The log says which disks are encrypted.
absl::StatusOr<std::vector<NamedDisk>> OpenNamedDisks(Executor* executor,
                                                      const AgentConfig& config);

// Logs a line for each disk and, if there are several, one for all. `recovery` has the disks that
// opened, in this order.
void LogRecovery(const std::vector<NamedDisk>& disks, const DiskSet::Recovery& recovery,
                 absl::Duration took);

}  // namespace kvtier

#endif  // KVTIER_AGENT_NAMED_DISKS_H_
