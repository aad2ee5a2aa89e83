// ComputeSteps end steps of the worker when its device's compute lane has come past them:
// the lane writes a word behind each, and the lanes' thread looks at the word and tells
// the client, whose numbers they are. So steps of compute, of threads and of copies are
// one line, and none is told as ended for another.
//
// The lanes' thread only.
#ifndef KVTIER_CLIENT_LANES_COMPUTE_STEPS_H_
#define KVTIER_CLIENT_LANES_COMPUTE_STEPS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "core/executor.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/signal_page.h"
#include "tier_gpu/lane_runner.h"

namespace kvtier {

class ComputeSteps {
 public:
  // How long the end of a step stays unseen: its slots serve others so much later.
  static constexpr absl::Duration kPollInterval = absl::Microseconds(100);

  struct Parts {  // Does not own.
    Client* client = nullptr;
    Device* device = nullptr;
    Executor* executor = nullptr;
    LaneRunner* runner = nullptr;
  };
  // The page is of nobody else, all words 0, and pinned on the device.
  ComputeSteps(const Parts& parts, std::shared_ptr<const SignalPage> page);

  // `step` of Client::BeginStep(), and all before it, end when the compute lane has come
  // past what was submitted to it so far. 0, or one that was given before: nothing to do.
  // Errors: Device::Signal()'s; then the step goes on.
  absl::Status End(uint64_t step);
  const SignalPage& page() const { return *page_; }

 private:
  void LookAgain();

  const Parts parts_;
  const std::shared_ptr<const SignalPage> page_;
  SignalWord* const word_;
  uint64_t given_ = 0;  // To the compute lane.
  uint64_t told_ = 0;   // To the client.
  bool looking_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_COMPUTE_STEPS_H_
