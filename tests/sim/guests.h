// Guests are tenants that come to a node while it runs, put some blocks, read them, and are dropped
// again, even while their blocks are leased.
#ifndef KVTIER_TESTS_SIM_GUESTS_H_
#define KVTIER_TESTS_SIM_GUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "core/block_key.h"
#include "core/task.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/trace.h"

namespace kvtier::sim {

// GuestVisit is one visit of a node's guest. Each node has one guest, with its own name and secret.
class GuestVisit {
 public:
  struct Parts {  // Not owned.
    SimNode* node = nullptr;
    Oracle* oracle = nullptr;
    Trace* trace = nullptr;
  };
  // Behaviour of a guest; with `keeps_leases` it keeps its leases until it is dropped.
  struct Behaviour {
    uint64_t blocks = 1;
    bool keeps_leases = false;
  };
  GuestVisit(const Parts& parts, const Behaviour& behaviour);

  // Makes the guest come, put, read and be dropped, then come again, expects that no block of it is
  // left, and drops it. Ends early if the node refuses the guest, because blocks of its last visit
  // are held or a disk is out of service. Runs on the agent's executor. REQUIRES: the node serves,
  // and no visit is in progress.
  Task<void> Run();

 private:
  // Makes the tenant and opens a session; false: it is refused.
  Task<bool> Come();
  Task<void> Put();
  // Gets the blocks, proves each, and returns how many there are.
  Task<uint64_t> Get();
  // Drops the guest; returns false if a disk is out of service.
  Task<bool> Leave();
  BlockRun NameRun() const;

  const Parts parts_;
  const Behaviour behaviour_;
  const std::string name_;
  const std::vector<EngineKey> keys_;
  Agent& agent_;
  DomainId domain_{};
  SessionId session_{};
  uint32_t space_id_ = 0;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_GUESTS_H_
