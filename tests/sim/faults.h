// Faults makes things go wrong in a simulated world. The seed draws a dose of each kind of fault,
// so that some worlds are calm, some have one kind and some have all.
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
  // Parts of the world, which it does not own.
  struct World {
    Executor* executor = nullptr;
    Trace* trace = nullptr;
    testing::SimNetwork* network = nullptr;
    SimCoordinator* coordinator = nullptr;
    std::vector<SimNode*> nodes;
    absl::Duration device_life;  // Mean time until a device is lost, if seldom; else half of it.
    std::function<void(size_t)> kill_worker;  // Kills the n-th worker, modulo their number.
  };
  Faults(World world, uint64_t seed);

  // Draws the doses and lets things go wrong until Heal().
  void Begin();
  // Ends all faults: everything that was stopped runs again.
  void Heal();
  // Returns whether some bytes on a disk may be damaged, so that a failed verification is expected.
  bool damages_disks() const { return damages_disks_; }

 private:
  // Begin faults on the node's disks. REQUIRES: it has a disk.
  void BeginOnDisks(SimNode* node);
  SimNode::NodeDisk* OneDisk(SimNode* node);
  // Sets the chances of one node's media, or of the network.
  void DoseDisk(SimNode* node);
  void DoseManifest(SimNode* node);
  void DoseNetwork();
  // Draws a chance: zero, `rare` or `often`.
  double Dose(double rare, double often);
  // Calls `act` again and again, at a mean interval that is drawn: `rare` or `often`; or never.
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
