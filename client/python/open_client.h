// OpenClient is the C++ client that one Python client holds, and the ways in which Python uses it:
// waiting without the GIL, being called back, and letting it go from any thread.
#ifndef KVTIER_CLIENT_PYTHON_OPEN_CLIENT_H_
#define KVTIER_CLIENT_PYTHON_OPEN_CLIENT_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "client/client.h"

namespace kvtier {
class LaneDevices;
}

namespace kvtier::python {

// OpenClient is shared with the threads in its calls, so it lives until these return, also if
// another thread calls close().
struct OpenClient {
  std::unique_ptr<Client> client;
  const std::shared_ptr<LaneDevices> devices;  // Devices that its lanes have open.
};

// Returns an OpenClient without a client. The thread that drops the last reference ends the client,
// which waits for its callbacks; a callback, which cannot wait for itself, leaves that to a new
// thread. So references are dropped without the GIL, which other callbacks need.
std::shared_ptr<OpenClient> NewOpenClient();
// Waits until all clients that callbacks gave up have ended. REQUIRES: the caller lacks the GIL.
void AwaitEndings();

// Calls `call` without the GIL and returns its result. `open` is a copy that is dropped before the
// GIL is taken again, because dropping the last one joins a thread.
template <typename Call>
auto Unlocked(std::shared_ptr<OpenClient> open, Call call) {
  pybind11::gil_scoped_release release;
  auto result = call(*open);
  open.reset();
  return result;
}

// A Python function that is called with the result of a submitted call, once, or with each part of
// it, by any thread that does not hold the GIL. What it raises goes to sys.unraisablehook.
// Move-only.
class Callback {
 public:
  // REQUIRES: the GIL.
  Callback(const OpenClient* open, pybind11::object function)
      : open_(open), function_(std::move(function)) {}
  Callback(Callback&&) noexcept = default;
  Callback& operator=(Callback&&) = delete;
  ~Callback();

  // Calls the function, for the last time, with the result of `result()`, both with the GIL.
  template <typename Result>
  void Call(Result result) {
    const Calling calling(open_);
    const pybind11::gil_scoped_acquire acquire;
    const pybind11::object function = std::move(function_);
    Tell(function, std::move(result));
  }
  // Calls the function in the same way, but keeps it to be called again.
  template <typename Part>
  void CallWithPart(Part part) {
    const Calling calling(open_);
    const pybind11::gil_scoped_acquire acquire;
    const pybind11::object function = function_;
    Tell(function, std::move(part));
  }

 private:
  template <typename Result>
  static void Tell(const pybind11::object& function, Result result) {
    try {
      function(result());
    } catch (pybind11::error_already_set& error) {
      error.discard_as_unraisable("a submitted call of kvtier");
    }
  }

  // Marks this thread as one that a client waits for.
  class Calling {
   public:
    explicit Calling(const OpenClient* open);
    ~Calling();
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;

   private:
    const OpenClient* const before_;
  };

  const OpenClient* open_;     // Lives longer than its calls.
  pybind11::object function_;  // The Python function; null after its last call.
};

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_OPEN_CLIENT_H_
