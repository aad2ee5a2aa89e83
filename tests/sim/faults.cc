#include "tests/sim/faults.h"

#include <iterator>
#include <utility>

#include "core/event.h"

namespace kvtier::sim {

Faults::Faults(World world, uint64_t seed)
    : world_(std::move(world)),
      random_(seed),
      scope_(std::make_unique<TaskScope>(world_.executor)) {}

double Faults::Dose(double rare, double often) {
  const uint64_t kind = random_.Below(10);
  if (kind < 5) return 0;
  return kind < 8 ? rare : often;
}

void Faults::Repeat(absl::Duration rare, absl::Duration often, std::function<void()> act) {
  const double dose = Dose(1, 2);
  if (dose > 0) scope_->Spawn(Loop(dose == 1 ? rare : often, std::move(act)));
}

Task<void> Faults::Loop(absl::Duration mean, std::function<void()> act) {
  while (true) {
    const absl::Duration pause = random_.Between(absl::Milliseconds(1), 2 * mean);
    co_await SleepUntil(world_.executor, world_.executor->Now() + pause);
    act();
  }
}

// Calls `act` after `delay`, also after Heal(), so that what was begun is undone.
void Faults::After(absl::Duration delay, std::function<void()> act) {
  world_.executor->PostAt(world_.executor->Now() + delay, std::move(act));
}

void Faults::Begin() {
  DoseNetwork();
  for (SimNode* const node : world_.nodes) {
    Repeat(absl::Seconds(15), absl::Seconds(4), [this, node] { CrashNode(node); });
    if (!node->disks().empty()) BeginOnDisks(node);
    Repeat(absl::Seconds(10), absl::Seconds(3), [this, node] { StallDevice(node); });
    Repeat(absl::Seconds(3), absl::Milliseconds(500), [this, node] { FailCopy(node); });
    Repeat(world_.device_life, world_.device_life / 2, [this, node] { LoseDevice(node); });
  }
  Repeat(absl::Seconds(15), absl::Seconds(4), [this] { CrashCoordinator(); });
  Repeat(absl::Seconds(12), absl::Seconds(4), [this] { CutNetwork(); });
  Repeat(absl::Seconds(8), absl::Seconds(2), [this] { world_.kill_worker(random_.Next()); });
  for (SimNode* const node : world_.nodes) {
    Repeat(absl::Seconds(15), absl::Seconds(4), [this, node] { StopServingPeers(node); });
  }
  Repeat(absl::Seconds(15), absl::Seconds(4), [this] { FreezeCoordinator(); });
}

void Faults::BeginOnDisks(SimNode* node) {
  DoseDisk(node);
  DoseManifest(node);
  Repeat(absl::Seconds(15), absl::Seconds(5), [this, node] { StallDisk(node); });
  Repeat(absl::Seconds(5), absl::Seconds(1), [this, node] { DamageDisk(node); });
  Repeat(absl::Seconds(10), absl::Seconds(3), [this, node] { DamageManifest(node); });
}

void Faults::DoseNetwork() {
  testing::SimNetworkFaults& faults = world_.network->faults;
  faults.lost = Dose(0.01, 0.1);
  faults.repeated = Dose(0.01, 0.1);
  faults.spike = Dose(0.01, 0.1);
  faults.broken = Dose(0.01, 0.1);
  faults.flipped = Dose(0.02, 0.2);
  faults.misnumbered = Dose(0.01, 0.05);
}

SimNode::NodeDisk* Faults::OneDisk(SimNode* node) {
  return node->disks()[random_.Below(node->disks().size())].get();
}

void Faults::DoseDisk(SimNode* node) {
  testing::SimDiskFaults& faults = OneDisk(node)->media.faults;
  faults.flip = Dose(0.01, 0.1);
  faults.misdirect = Dose(0.01, 0.05);
  faults.lost = Dose(0.01, 0.05);
  faults.read_error = Dose(0.01, 0.1);
  faults.write_error = Dose(0.01, 0.1);
  faults.full = Dose(0.01, 0.1);
  faults.spike = Dose(0.01, 0.1);
  if (faults.flip > 0 || faults.misdirect > 0 || faults.lost > 0) damages_disks_ = true;
}

void Faults::DoseManifest(SimNode* node) {
  OneDisk(node)->manifest_media.faults.commit_error = Dose(0.01, 0.1);
}

void Faults::CrashNode(SimNode* node) {
  if (!node->running()) return;
  if (!node->disks().empty()) {
    // A manifest may be out of reach while the node is down, or just after its start.
    SimNode::NodeDisk* const disk = OneDisk(node);
    disk->manifest_media.faults.load_fails = random_.Draw(0.2);
    After(random_.Between(absl::Milliseconds(1), absl::Seconds(3)),
          [disk] { disk->manifest_media.faults.load_fails = false; });
  }
  node->Crash();
  After(random_.Between(absl::Milliseconds(1), absl::Seconds(2)), [node] {
    if (!node->running()) node->Boot();
  });
}

void Faults::CrashCoordinator() {
  SimCoordinator* const coordinator = world_.coordinator;
  if (!coordinator->running()) return;
  coordinator->Crash();
  After(random_.Between(absl::Milliseconds(1), absl::Seconds(8)), [coordinator] {
    if (!coordinator->running()) coordinator->Boot();
  });
}

void Faults::FreezeCoordinator() {
  world_.trace->Add("coordinator freezes", {});
  world_.network->FreezeCoordinator(true);
  After(random_.Between(absl::Milliseconds(5), absl::Seconds(8)),
        [network = world_.network] { network->FreezeCoordinator(false); });
}

void Faults::StallDisk(SimNode* node) {
  if (!node->running()) return;
  world_.trace->Add("disk stalls", {node->number()});
  SimNode::NodeDisk* const disk = OneDisk(node);
  disk->disk->Stall();
  After(random_.Between(absl::Milliseconds(5), absl::Seconds(4)), [disk] {
    if (disk->disk != nullptr) disk->disk->Resume();
  });
}

void Faults::StallDevice(SimNode* node) {
  if (!node->running() || node->device() == nullptr) return;
  world_.trace->Add("device stalls", {node->number()});
  const Lane lane = random_.Draw(0.5) ? Lane::kOnboard : Lane::kOffload;
  node->device()->Stall(lane);
  // Now and then the stall is longer than anybody may wait.
  const absl::Duration longest = random_.Draw(0.2) ? absl::Seconds(20) : absl::Seconds(1);
  After(random_.Between(absl::Milliseconds(1), longest), [node, lane] {
    if (node->running()) node->device()->Resume(lane);
  });
}

void Faults::LoseDevice(SimNode* node) {
  if (!node->running() || node->device() == nullptr) return;
  // The device is lost in the middle of a copy, or at once.
  if (random_.Draw(0.5)) {
    const CopyDirection direction = DrawDirection();
    node->device()->LoseInCopy(direction, 1 + random_.Below(3));
  } else {
    node->device()->Lose();
  }
}

void Faults::FailCopy(SimNode* node) {
  if (!node->running() || node->device() == nullptr) return;
  node->device()->FailCopy(DrawDirection(), 1 + random_.Below(3));
}

void Faults::DamageDisk(SimNode* node) {
  testing::SimDiskMedia& media = OneDisk(node)->media;
  damages_disks_ = true;
  const DiskAddress address{.segment =
                                static_cast<SegmentId>(random_.Below(media.segment_count()))};
  media.FlipBit(address, random_.Below(media.segment_bytes() * 8));
}

// Damages a value for the agent's next start; while the agent runs, it would contradict "durable".
void Faults::DamageManifest(SimNode* node) {
  auto& rows = OneDisk(node)->manifest_media.rows;
  if (node->running() || rows.empty()) return;
  const auto row = std::next(rows.begin(), static_cast<ptrdiff_t>(random_.Below(rows.size())));
  if (row->second.empty()) return;
  char& byte = row->second[random_.Below(row->second.size())];
  byte = static_cast<char>(byte ^ (1 << random_.Below(8)));
}

void Faults::CutNetwork() {
  std::vector<std::string> places = {testing::kCoordinatorAddress};
  for (const SimNode* node : world_.nodes) places.push_back(node->address());
  const size_t first = random_.Below(places.size());
  const size_t second = (first + 1 + random_.Below(places.size() - 1)) % places.size();
  world_.trace->Add("network is cut", {first, second});
  world_.network->Cut(places[first], places[second]);
  After(random_.Between(absl::Milliseconds(5), absl::Seconds(8)),
        [network = world_.network] { network->Mend(); });
}

void Faults::StopServingPeers(SimNode* node) {
  using testing::PeerService;
  const PeerService service = random_.Draw(0.5) ? PeerService::kFrozen : PeerService::kRefuses;
  world_.trace->Add("peer service stops", {node->number(), static_cast<uint64_t>(service)});
  world_.network->SetPeerService(node->address(), service);
  After(random_.Between(absl::Milliseconds(5), absl::Seconds(8)), [network = world_.network, node] {
    network->SetPeerService(node->address(), PeerService::kServes);
  });
}

void Faults::Heal() {
  world_.trace->Add("faults end", {});
  scope_.reset();
  world_.network->faults = {};
  world_.network->Mend();
  world_.network->FreezeCoordinator(false);
  if (!world_.coordinator->running()) world_.coordinator->Boot();
  for (SimNode* const node : world_.nodes) {
    world_.network->SetPeerService(node->address(), testing::PeerService::kServes);
    for (const auto& disk : node->disks()) {
      disk->media.faults = {};
      disk->manifest_media.faults = {};
    }
    // Restarts the node, like an operator who reads in the log that a disk did not open.
    if (node->running() && (!node->serves() || node->MissesADisk())) node->Crash();
    if (!node->running()) node->Boot();
    for (const auto& disk : node->disks()) disk->disk->Resume();
    if (node->device() == nullptr) continue;
    node->device()->LoseInCopy(CopyDirection::kHostToDevice, 0);
    node->device()->LoseInCopy(CopyDirection::kDeviceToHost, 0);
    node->device()->Resume(Lane::kOnboard);
    node->device()->Resume(Lane::kOffload);
  }
}

}  // namespace kvtier::sim
