#include "client/onboard_call.h"

#include <utility>

#include "client/block_memory.h"
#include "client/releases_along.h"

namespace kvtier {

bool OnboardCall::Fill(const std::shared_ptr<Connection>& connection) {
  const bool to_gpu = target_ == OnboardTarget::kGpu;
  BlockMemory memory = to_gpu ? BlockMemory::GpuPool(connection->session())
                              : BlockMemory::Arena(connection->session()->arena_read());
  if (memory.none()) return false;
  answer_ = OnboardAnswer(connection, std::move(memory));
  messages.request.set_target(to_gpu ? v1::TIER_GPU : v1::TIER_HOST);
  messages.request.set_timeout_ms(AgentTimeoutMs(messages.timeout));
  messages.request.set_local_only(local_only_);
  if (!FillSequences(*connection, sequences_, &messages.request, &asked_)) return false;
  connection_ = connection;
  TakeReleasesAlong(connection.get(), &messages.request);
  return true;
}

OnboardCall::Result OnboardCall::Finish(const std::shared_ptr<AgentLink>& link,
                                        CallOutcome outcome) {
  ReturnReleases(link.get(), connection_.get(), messages.request, outcome);
  Result all = answer_.Read(link, asked_, messages.response, outcome, messages.timeout);
  link->Count([&](ClientStats* stats) {
    for (size_t i = 0; i < all.size(); ++i) OnboardAnswer::Count(all[i], asked_[i].keys, stats);
  });
  return all;
}

}  // namespace kvtier
