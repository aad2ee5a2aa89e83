// bench: peer - blocks fetched from another agent over loopback, verified, beside iperf3
//
// It uses two real agents and a coordinator. Runs of 64 blocks of 2 MiB are put on one node and
// onboarded on the other, whose host tier is emptied before each.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/block_load.h"
#include "bench/figure.h"
#include "bench/iperf.h"
#include "bench/node_process.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr size_t kBlocks = 64;
constexpr uint64_t kBlockBytes = uint64_t{2} << 20;
constexpr int kRuns = 25;
constexpr int kIperfSeconds = 2;
// Time within which the holder's report reaches the coordinator.
constexpr absl::Duration kTold = absl::Seconds(3);

absl::StatusOr<double> FetchSeconds(NodeProcess* asker, BlockLoad* load) {
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    KVT_RETURN_IF_ERROR(asker->EvictHost());
    absl::Status status;
    seconds.push_back(Seconds([&] { status = load->Get(0); }));
    KVT_RETURN_IF_ERROR(status);
  }
  KVT_ASSIGN_OR_RETURN(const v1::AgentStatusResponse status, asker->Status());
  const uint64_t expected = kRuns * load->run_bytes();
  if (status.peers().fetched_bytes() != expected) {
    return absl::InternalError(absl::StrCat("fetched ", status.peers().fetched_bytes(),
                                            " bytes from the peer, not ", expected));
  }
  return Median(seconds);
}

absl::Status Run() {
  KVT_ASSIGN_OR_RETURN(const double iperf, RunIperf(kIperfSeconds));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<NodeProcess> coordinator,
                       NodeProcess::StartCoordinator());
  const std::vector<std::string> flags = {"--host_bytes=512MiB", "--slab_bytes=64MiB",
                                          absl::StrCat("--coordinator=", coordinator->address())};
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<NodeProcess> holder,
                       NodeProcess::StartAgent("holder", flags));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<NodeProcess> asker,
                       NodeProcess::StartAgent("asker", flags));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<BlockLoad> put,
                       BlockLoad::Open(holder->socket_dir(), kBlocks, kBlockBytes));
  KVT_RETURN_IF_ERROR(put->Put(0));
  absl::SleepFor(kTold);
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<BlockLoad> get,
                       BlockLoad::Open(asker->socket_dir(), kBlocks, kBlockBytes));
  KVT_ASSIGN_OR_RETURN(const double seconds, FetchSeconds(asker.get(), get.get()));
  const double rate = static_cast<double>(get->run_bytes()) / seconds;
  PrintFigure("peer.fetch.2MiB", rate / 1e9, "GB/s", rate / iperf, "iperf3");
  return absl::OkStatus();
}

}  // namespace
}  // namespace kvtier::bench

int main() {
  const absl::Status status = kvtier::bench::Run();
  if (!status.ok()) std::fprintf(stderr, "bench_peer: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
