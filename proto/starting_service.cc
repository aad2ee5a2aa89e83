#include "proto/starting_service.h"

#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

// Refusal ends one call.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* StartingService::CreateReactor(
    grpc::GenericCallbackServerContext* /*context*/) {
  return new Refusal({grpc::StatusCode::UNAVAILABLE,
                      absl::StrCat("node ", node_, " is starting: it ", progress_->Text(),
                                   "; ask again when it is ready")});
}

}  // namespace kvtier
