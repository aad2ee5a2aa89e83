// StartingService answers every RPC of a program that starts with UNAVAILABLE and what the start is
// doing.
#ifndef KVTIER_PROTO_STARTING_SERVICE_H_
#define KVTIER_PROTO_STARTING_SERVICE_H_

#include <string>
#include <utility>

#include "core/start_progress.h"
#include "grpcpp/generic/async_generic_service.h"

namespace kvtier {

// Thread-safe.
class StartingService final : public grpc::CallbackGenericService {
 public:
  // `node` names the program. Does not own `progress`.
  StartingService(std::string node, const StartProgress* progress)
      : node_(std::move(node)), progress_(progress) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const std::string node_;
  const StartProgress* const progress_;
};

}  // namespace kvtier

#endif  // KVTIER_PROTO_STARTING_SERVICE_H_
