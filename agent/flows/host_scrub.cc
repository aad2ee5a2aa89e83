#include "agent/flows/host_scrub.h"

#include <utility>
#include <vector>

#include "core/event.h"

namespace kvtier {

Task<void> HostScrub::Run() {
  if (report_.bytes_per_second == 0) co_return;
  pacer_.SetRate(report_.bytes_per_second, parts_.executor->Now());
  while (!parts_.waits->ended()) {
    const absl::Time began = parts_.executor->Now();
    co_await RunPass();
    if (parts_.waits->ended()) break;
    ++report_.passes;
    report_.last_pass = parts_.executor->Now() - began;
    pacer_.NotBefore(began + kHostScrubInterval);
    co_await AwaitTurn();
  }
}

Task<void> HostScrub::AwaitTurn() {
  if (parts_.executor->Now() >= pacer_.ready()) co_return;
  Event never(parts_.executor);
  co_await parts_.waits->Until(&never, pacer_.ready());
}

Task<void> HostScrub::RunPass() {
  for (size_t i = 0; i < parts_.index->domain_count(); ++i) {
    uint64_t offset = 0;
    while (!parts_.waits->ended()) {
      std::vector<BlockKey> batch = parts_.index->InHostFrom(
          static_cast<DomainId>(i), kHostScrubBatchBlocks, kHostScrubBatchBytes, &offset);
      if (batch.empty()) break;
      const HostProver::Proven proven = co_await parts_.prover->ProveAll(std::move(batch));
      report_.blocks += proven.blocks;
      report_.bytes += proven.bytes;
      report_.altered += proven.news;
      pacer_.Spend(proven.bytes, parts_.executor->Now());
      co_await AwaitTurn();
    }
  }
}

}  // namespace kvtier
