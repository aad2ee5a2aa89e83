// bench: node - one agent: its calls beside an empty one and among 64 tenants, puts, and disk I/O
//
// It uses a real agent in its own process, driven through the C++ client. Runs have 64 blocks of 2
// MiB (128 MiB, as 1,024 tokens of an 8B model); every block read from disk is verified.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/block_load.h"
#include "bench/call_figures.h"
#include "bench/figure.h"
#include "bench/fio.h"
#include "bench/many_tenants.h"
#include "bench/node_process.h"
#include "bench/residency_figures.h"
#include "bench/staged_figures.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr size_t kBlocks = 64;
constexpr uint64_t kBlockBytes = uint64_t{2} << 20;
constexpr uint64_t kSegmentBytes = uint64_t{128} << 20;  // fio flushes as often as the agent must.
constexpr int kRuns = 5;    // Number of runs of everything that moves bytes.
constexpr int kDepth = 16;  // Same as the agent's own offloads in flight.

// Fails unless all runs passed through the disk, because a figure of fewer bytes would be wrong.
absl::Status ExpectBytes(const char* what, uint64_t moved, const BlockLoad& load) {
  const uint64_t expected = kRuns * load.run_bytes();
  if (moved == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " ", moved, " bytes, not ", expected));
}

absl::Status PutAndOffload(NodeProcess* node, BlockLoad* load, double fio_write) {
  std::vector<double> put;
  std::vector<double> copy;
  std::vector<double> durable;
  absl::Status status;
  for (int run = 0; run < kRuns && status.ok(); ++run) {
    copy.push_back(Seconds([&] { load->Copy(); }));
    const double put_s = Seconds([&] { status = load->Put(run); });
    put.push_back(put_s);
    if (!status.ok()) break;
    durable.push_back(Seconds([&] { status = node->AwaitOffload(); }));
  }
  KVT_RETURN_IF_ERROR(status);
  KVT_ASSIGN_OR_RETURN(const v1::TierReport disk, node->Tier(v1::TIER_DISK));
  KVT_RETURN_IF_ERROR(ExpectBytes("wrote to disk", disk.bytes_in(), *load));
  const auto bytes = static_cast<double>(load->run_bytes());
  PrintFigure("node.put.2MiB", bytes / Median(put) / 1e9, "GB/s", Median(copy) / Median(put),
              "memcpy");
  PrintFigure("node.offload.2MiB", bytes / Median(durable) / 1e9, "GB/s",
              bytes / Median(durable) / fio_write, "fio_synced");
  return absl::OkStatus();
}

absl::Status DiskReads(NodeProcess* node, BlockLoad* load, double fio_read) {
  std::vector<double> read;
  absl::Status status;
  for (int run = 0; run < kRuns && status.ok(); ++run) {
    KVT_RETURN_IF_ERROR(node->EvictHost());
    read.push_back(Seconds([&] { status = load->Get(run); }));
  }
  KVT_RETURN_IF_ERROR(status);
  KVT_ASSIGN_OR_RETURN(const v1::TierReport disk, node->Tier(v1::TIER_DISK));
  KVT_RETURN_IF_ERROR(ExpectBytes("read from disk", disk.bytes_out(), *load));
  const double rate = static_cast<double>(load->run_bytes()) / Median(read);
  PrintFigure("node.disk_onboard.2MiB", rate / 1e9, "GB/s", rate / fio_read, "fio");
  return absl::OkStatus();
}

absl::Status Run() {
  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<NodeProcess> node,
      NodeProcess::StartAgent(
          "bench", {"--host_bytes=1GiB", "--slab_bytes=64MiB", "--disk_dir", "--disk_bytes=2GiB",
                    absl::StrCat("--segment_bytes=", kSegmentBytes)}));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<BlockLoad> load,
                       BlockLoad::Open(node->socket_dir(), kBlocks, kBlockBytes));
  const std::string file = node->socket_dir() + "/fio";
  const uint64_t file_bytes = kRuns * load->run_bytes();
  KVT_ASSIGN_OR_RETURN(const IoFigures fio_write, RunFio({.file = file,
                                                          .pattern = "write",
                                                          .file_bytes = file_bytes,
                                                          .block_bytes = kBlockBytes,
                                                          .depth = kDepth,
                                                          .sync_bytes = kSegmentBytes}));
  KVT_ASSIGN_OR_RETURN(const IoFigures fio_read, RunFio({.file = file,
                                                         .pattern = "randread",
                                                         .file_bytes = file_bytes,
                                                         .block_bytes = kBlockBytes,
                                                         .depth = kDepth}));
  KVT_RETURN_IF_ERROR(PutAndOffload(node.get(), load.get(), fio_write.bytes_per_second));
  KVT_RETURN_IF_ERROR(DiskReads(node.get(), load.get(), fio_read.bytes_per_second));
  KVT_RETURN_IF_ERROR(PrintResidencyFigures(node->socket_dir()));
  // This agent has no disk that could write the puts meanwhile.
  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<NodeProcess> calls,
      NodeProcess::StartAgent("calls", {"--host_bytes=1GiB", "--slab_bytes=64MiB"}));
  KVT_RETURN_IF_ERROR(PrintCallFigures(*calls));
  KVT_RETURN_IF_ERROR(PrintManyTenantsFigures());
  return PrintStagedFigures();
}

}  // namespace
}  // namespace kvtier::bench

int main() {
  const absl::Status status = kvtier::bench::Run();
  if (!status.ok()) std::fprintf(stderr, "bench_node: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
