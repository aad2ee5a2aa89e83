// Binds the client's calls about kept prefixes for Python; the kvtier package makes them.
#ifndef KVTIER_CLIENT_PYTHON_KEPT_BINDING_H_
#define KVTIER_CLIENT_PYTHON_KEPT_BINDING_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "client/python/open_client.h"

namespace kvtier::python {

// KeptCalls makes one client's calls about kept prefixes. An object lives for one call and holds
// the client.
class KeptCalls {
 public:
  explicit KeptCalls(std::shared_ptr<OpenClient> open) : open_(std::move(open)) {}
  KeptCalls(KeptCalls&&) noexcept = default;
  KeptCalls& operator=(KeptCalls&&) = delete;
  ~KeptCalls() {
    if (open_ == nullptr) return;
    const pybind11::gil_scoped_release release;
    open_.reset();
  }
  const std::shared_ptr<OpenClient>& open() const { return open_; }

 private:
  std::shared_ptr<OpenClient> open_;
};

void BindKept(pybind11::module_& module);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_KEPT_BINDING_H_
