#include "client/onboard_question.h"

#include <utility>

#include "client/block_memory.h"
#include "client/releases_along.h"

namespace kvtier {

bool OnboardQuestion::Fill(const std::shared_ptr<Connection>& connection, absl::Duration timeout,
                           v1::OnboardRequest* request) {
  const bool to_gpu = target_ == OnboardTarget::kGpu;
  BlockMemory memory = to_gpu ? BlockMemory::GpuPool(connection->session())
                              : BlockMemory::Arena(connection->session()->arena_read());
  if (memory.none()) return false;
  answer_ = OnboardAnswer(connection, std::move(memory));
  request->set_target(to_gpu ? v1::TIER_GPU : v1::TIER_HOST);
  request->set_timeout_ms(AgentTimeoutMs(timeout));
  request->set_local_only(local_only_);
  if (!FillSequences(*connection, sequences_, request, &asked_)) return false;
  connection_ = connection;
  TakeReleasesAlong(connection.get(), request);
  return true;
}

void OnboardQuestion::End(AgentLink* link, const v1::OnboardRequest& request, CallOutcome outcome) {
  ReturnReleases(link, connection_.get(), request, outcome);
}

}  // namespace kvtier
