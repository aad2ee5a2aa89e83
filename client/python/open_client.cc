#include "client/python/open_client.h"

#include <pthread.h>

#include <cstddef>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/device_lanes/lane_device.h"
#include "client/fork_guard.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

thread_local const OpenClient* calling = nullptr;  // Client whose callback runs here.

// Endings are the threads that end clients for callbacks. They are counted until they are done, and
// Await() waits for that, so that no thread has to be kept to be joined.
class Endings {
 public:
  void Start(std::unique_ptr<OpenClient> open) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      ++running_;
    }
    std::thread thread([this, open = std::move(open)]() mutable {
      open.reset();
      absl::MutexLock lock(&mu_);
      --running_;
    });
    pthread_setname_np(thread.native_handle(), "kvtier-ending");
    thread.detach();
  }
  void Await() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return running_ == 0; };
    mu_.Await(absl::Condition(&none));
  }

 private:
  absl::Mutex mu_;
  size_t running_ ABSL_GUARDED_BY(mu_) = 0;
};

// Returns the process's Endings. It is never destroyed, because a thread may still use it at exit.
Endings& AllEndings() {
  static Endings* const endings = new Endings;
  return *endings;
}

}  // namespace

std::shared_ptr<OpenClient> NewOpenClient() {
  return {new OpenClient{.devices = std::make_shared<LaneDevices>()}, [](OpenClient* last) {
            std::unique_ptr<OpenClient> open(last);
            if (calling == last) AllEndings().Start(std::move(open));
          }};
}

void AwaitEndings() {
  if (!InForkedChild()) AllEndings().Await();  // A child has none of the threads.
}

Callback::~Callback() {
  if (!function_) return;
  const py::gil_scoped_acquire acquire;
  function_ = py::object();
}

Callback::Calling::Calling(const OpenClient* open) : before_(calling) { calling = open; }
Callback::Calling::~Calling() { calling = before_; }

}  // namespace kvtier::python
