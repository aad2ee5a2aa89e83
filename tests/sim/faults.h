// Faults is what goes wrong in a simulated world: each kind with a dose that the
// seed draws, so that some worlds are calm, some have one illness and some have all.
#ifndef KVTIER_TESTS_SIM_FAULTS_H_
#define KVTIER_TESTS_SIM_FAULTS_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/task_scope.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/trace.h"
#include "tests/testing/sim_network.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

class Faults {
 public:
  // Owns none of them.
  struct World {
    Executor* executor = nullptr;
    Trace* trace = nullptr;
    testing::SimNetwork* network = nullptr;
    SimCoordinator* coordinator = nullptr;
    std::vector<SimNode*> nodes;
    absl::Duration device_life;  // Until a device is lost, where that is rare; else half of it.
    std::function<void(size_t)> kill_worker;  // The n-th, modulo their number.
  };
  Faults(World world, uint64_t seed);

  // Draws the doses and lets things go wrong until Heal().
  void Begin();
  // Nothing goes wrong any more: everything that was stopped runs again.
  void Heal();
  // True: some bytes on a disk may have been damaged, so a failed verification there
  // is no news.
  bool damages_disks() const { return damages_disks_; }

 private:
  // REQUIRES of these two: the node has a disk.
  void BeginOnDisks(SimNode* node);
  SimNode::NodeDisk* OneDisk(SimNode* node);
  // Sets the chances of one node's media, or of the network.
  void DoseDisk(SimNode* node);
  void DoseManifest(SimNode* node);
  void DoseNetwork();
  // A chance: none, rare or often.
  double Dose(double rare, double often);
  // Does `act` again and again, `mean` apart on average; never, if `mean` is drawn so.
  void Repeat(absl::Duration rare, absl::Duration often, std::function<void()> act);
  Task<void> Loop(absl::Duration mean, std::function<void()> act);
  void After(absl::Duration delay, std::function<void()> act);

  void CrashNode(SimNode* node);
  void CrashCoordinator();
  void FreezeCoordinator();
  void StallDisk(SimNode* node);
  void StallDevice(SimNode* node);
  void LoseDevice(SimNode* node);
  CopyDirection DrawDirection() { return static_cast<CopyDirection>(random_.Below(2)); }
  void FailCopy(SimNode* node);
  void DamageDisk(SimNode* node);
  void DamageManifest(SimNode* node);
  void CutNetwork();
  void StopServingPeers(SimNode* node);

  const World world_;
  testing::SimRandom random_;
  bool damages_disks_ = false;
  std::unique_ptr<TaskScope> scope_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_FAULTS_H_
