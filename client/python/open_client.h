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

// Threads that wait in a call hold it, so that close() in another thread takes nothing from under
// them.
struct OpenClient {
  std::unique_ptr<Client> client;
  const std::shared_ptr<LaneDevices> devices;  // Devices that its lanes have open.
};

// Returns one without a client. Who gives up the last hold ends the client, which waits for its
// callbacks; a callback, which cannot wait for itself, leaves that to a thread of its own. So holds
// are given up without the GIL, which other callbacks need.
std::shared_ptr<OpenClient> NewOpenClient();
// Waits until all clients that callbacks gave up have ended. REQUIRES: not the GIL.
void AwaitEndings();

// Returns what `call` returns, called without the GIL. `open` is a copy, given up before the GIL
// is taken again, because the last one to give it up joins a thread.
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

  // Calls it, for the last time, with what `result()` returns, which is called with the GIL.
  template <typename Result>
  void Call(Result result) {
    const Calling calling(open_);
    const pybind11::gil_scoped_acquire acquire;
    const pybind11::object function = std::move(function_);
    Tell(function, std::move(result));
  }
  // The same, and it will be called again.
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
  pybind11::object function_;  // Null when it was called.
};

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_OPEN_CLIENT_H_
