#include "tests/sim/burst_proof.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/event.h"
#include "core/task_scope.h"
#include "tests/sim/workload.h"
#include "tier_disk/log/record.h"

namespace kvtier::sim {
namespace {

constexpr size_t kPutters = 3;
// Blocks that a putter puts at a time.
constexpr size_t kPiece = 4;
// Shorter than a stall that takes a disk out of service, and than a put waits.
constexpr absl::Duration kLongestStall = absl::Milliseconds(600);
// Conversations from here on are the burst's own.
constexpr uint64_t kFirstConversation = 10'000;
constexpr absl::Duration kPoll = absl::Milliseconds(10);

}  // namespace

struct BurstProof::Putter {
  std::unique_ptr<SimWorker> worker;
  std::vector<EngineKey> keys;
  size_t acknowledged = 0;  // Number of leading puts that were acknowledged.
};

Task<void> BurstProof::PutInPieces(Putter* putter) {
  const bool connected = co_await putter->worker->Connect();
  world_.oracle->Expect(connected, "in a burst, no session opens");
  while (putter->acknowledged < putter->keys.size()) {
    const size_t end = std::min(putter->keys.size(), putter->acknowledged + kPiece);
    const std::vector<EngineKey> prefix(putter->keys.begin(),
                                        putter->keys.begin() + static_cast<ptrdiff_t>(end));
    putter->acknowledged += co_await putter->worker->Put(prefix, putter->acknowledged);
    // No room came in time: an engine would compute the rest again.
    if (putter->acknowledged < end) break;
  }
  putter->keys.erase(putter->keys.begin() + static_cast<ptrdiff_t>(putter->acknowledged),
                     putter->keys.end());
}

Task<void> BurstProof::Run(SimNode* node) {
  if (!node->writes_everything() || !node->DisksServe()) co_return;
  const Identity identity{.tenant = random_.Below(kTenants), .space = random_.Below(kSpaces)};
  // The proof counts the committed blocks of a piece as its leading ones. That is right only if all
  // have one length: then no block after one without room finds room either.
  if (Space(identity.space).any_length) co_return;
  const uint64_t bytes = Space(identity.space).block_bytes;
  const Agent& agent = node->agent();
  const auto domain = static_cast<DomainId>(identity.tenant);
  const uint64_t slots = agent.host().slots(domain).capacity_bytes() / SlotBytes(bytes);
  const uint64_t blocks = slots + slots / 2;
  // Disks reclaim their oldest segments first, so a burst of at most a third of them stays.
  const bool room =
      3 * blocks * RecordBytes(bytes) <= node->agent().disks().set()->capacity_bytes();
  if (!room) co_return;

  std::vector<Putter> putters(kPutters);
  TaskScope putting(world_.executor);
  for (const auto& disk : node->disks()) disk->disk->Stall();
  for (Putter& putter : putters) {
    const uint64_t number = kFirstConversation + random_.Below(1 << 20);
    putter.keys = FreshConversation(number, blocks / kPutters);
    putter.worker = std::make_unique<SimWorker>(world_, node, identity, random_.Next());
    putting.Spawn(PutInPieces(&putter));
  }
  const absl::Duration stall = random_.Between(absl::Milliseconds(1), kLongestStall);
  co_await SleepUntil(world_.executor, world_.executor->Now() + stall);
  node->EvictHost();
  for (const auto& disk : node->disks()) disk->disk->Resume();
  while (putting.running() > 0 || node->pending_offloads() > 0) {
    co_await SleepUntil(world_.executor, world_.executor->Now() + kPoll);
  }

  world_.oracle->Expect(node->DisksServe(), "a short stall takes a disk out of service");
  for (Putter& putter : putters) {
    const size_t found = putter.worker->CountHere(putter.keys);
    world_.trace->Add("burst", {node->number(), putter.keys.size(), found});
    world_.oracle->Expect(
        found == putter.keys.size(),
        absl::StrCat("node ", node->number(), ": of ", putter.keys.size(),
                     " blocks of a burst that were acknowledged, host memory and disks have ",
                     found));
    co_await putter.worker->Disconnect();
  }
}

}  // namespace kvtier::sim
