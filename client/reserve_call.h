// ReserveCall asks for slots to write new blocks into; CommitCall publishes them.
#ifndef KVTIER_CLIENT_RESERVE_CALL_H_
#define KVTIER_CLIENT_RESERVE_CALL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/block_memory.h"
#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class ReserveCall {
 public:
  using Result = ReservedBlocks;
  static constexpr char kName[] = "reserve";

  // `commit_timeout` is the timeout of the result's Commit().
  ReserveCall(std::span<const KeySequence> sequences, const ReserveOptions& options,
              absl::Duration timeout, absl::Duration commit_timeout)
      : sequences_(sequences),
        asked_(AskedOf(sequences)),
        target_(options.target),
        commit_timeout_(commit_timeout) {
    messages.timeout = timeout;
    for (size_t i = 0; i < asked_.size(); ++i) asked_[i].left_out = sequences[i].no_store;
  }

  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Reserve(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncReserve(&messages.context, messages.request, queue);
  }
  ReservedBlocks Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::ReserveRequest, v1::ReserveResponse> messages;

 private:
  // Writes the lengths of the blocks. Returns false if a sequence of a space with any_length has no
  // length for a key: the space was unregistered before the lengths were checked.
  bool FillLengths();
  void Read(const std::shared_ptr<AgentLink>& link, ReservedBlocks* reserved);

  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
  const OnboardTarget target_;
  const absl::Duration commit_timeout_;
  std::shared_ptr<Connection> connection_;
  BlockMemory memory_;
  // A key that the agent was asked about.
  struct AskedKey {
    size_t place;     // Place in the result.
    uint64_t length;  // Length of its block.
  };
  std::vector<AskedKey> keys_;
};

class CommitCall {
 public:
  using Result = size_t;  // Blocks published; of a durable one, those on disk.
  static constexpr char kName[] = "commit";

  CommitCall(ReservedBlocks blocks, const CommitOptions& options)
      : blocks_(std::move(blocks)), step_(options.step), durable_(options.durable) {
    messages.timeout = blocks_.commit_timeout_;
    disk_timeout_ms_ = AgentTimeoutMs(messages.timeout);
    if (durable_ && options.timeout) {
      const absl::Duration disk_timeout =
          std::clamp(*options.timeout, absl::ZeroDuration(), Client::kMaxTimeout);
      disk_timeout_ms_ = AgentTimeoutMs(disk_timeout);
      // A caller without time for the disk still wants the blocks published.
      if (disk_timeout > absl::ZeroDuration()) messages.timeout = disk_timeout;
    }
  }

  // Writes the request. Returns false if the session that made the reservations is over.
  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Commit(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncCommit(&messages.context, messages.request, queue);
  }
  size_t Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);
  ReservedBlocks TakeBlocks() { return std::move(blocks_); }
  // Returns the link that the blocks came through.
  static std::shared_ptr<AgentLink> LinkOf(const ReservedBlocks& blocks) { return blocks.link_; }

  Messages<v1::CommitRequest, v1::CommitResponse> messages;

 private:
  ReservedBlocks blocks_;
  uint64_t bytes_ = 0;  // Bytes of the blocks that were written.
  const uint64_t step_;
  const bool durable_;
  uint32_t disk_timeout_ms_ = 0;  // Time that the agent waits for the disk, if durable_.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RESERVE_CALL_H_
