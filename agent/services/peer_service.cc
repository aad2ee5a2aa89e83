#include "agent/services/peer_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/services/unary_service.h"
#include "core/call_on_executor.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

// Sends the block. Returns false if the stream is broken.
bool SendBlock(const ServedBlock& block, uint32_t index,
               grpc::ServerWriter<v1::FetchChunk>* writer) {
  for (size_t offset = 0; offset < block.payload.size(); offset += convert::kMaxChunkBytes) {
    const size_t bytes = std::min(convert::kMaxChunkBytes, block.payload.size() - offset);
    v1::FetchChunk chunk;
    chunk.set_index(index);
    chunk.set_offset(offset);
    chunk.set_data(block.payload.data() + offset, bytes);
    if (offset == 0) *chunk.mutable_proof() = convert::ToWire(block.proof);
    if (!writer->Write(chunk)) return false;
  }
  return true;
}

// StreamDeadline cancels a stream at its deadline: a write that waits for a peer that does not read
// ends in no other way. Must not be used on the executor, for which it waits.
class StreamDeadline {
 public:
  StreamDeadline(Executor* executor, absl::Time deadline, grpc::ServerContext* context)
      : executor_(executor), timer_(CallOn(executor, [executor, deadline, context] {
          return executor->PostAt(deadline, [context] { context->TryCancel(); });
        })) {}
  StreamDeadline(const StreamDeadline&) = delete;
  StreamDeadline& operator=(const StreamDeadline&) = delete;
  // Returns when the context is not touched any more.
  ~StreamDeadline() {
    CallOn(executor_, [this] {
      executor_->Cancel(timer_);
      return true;
    });
  }

 private:
  Executor* const executor_;
  const TimerId timer_;
};

}  // namespace

grpc::Status PeerService::Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                                grpc::ServerWriter<v1::FetchChunk>* writer) {
  return convert::ToGrpc(Serve(context, *request, writer));
}

absl::Status PeerService::Serve(grpc::ServerContext* context, const v1::FetchRequest& request,
                                grpc::ServerWriter<v1::FetchChunk>* writer) {
  KVT_RETURN_IF_ERROR(convert::CheckVersion(request.version()));
  KVT_ASSIGN_OR_RETURN(const std::vector<PeerName> names,
                       convert::PeerNamesFrom(request.peer_names(), "peer_names"));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout,
                       convert::TimeoutFrom(request.timeout_ms(), "timeout_ms"));
  Executor* const executor = agent_->executor();
  const absl::Time deadline = executor->Now() + PeerStreamTime(timeout, TimeLeft(*context));
  PeerServer* const server = &agent_->flows().peer_server;
  const PeerTag tag{request.peer_tag()};
  KVT_ASSIGN_OR_RETURN(const std::optional<PeerServer::Stream> stream,
                       CallOn(executor, [&] { return server->BeginStream(tag, names); }));
  if (!stream.has_value()) return absl::OkStatus();  // None of the blocks is on this node.
  const StreamDeadline ends_by(executor, deadline, context);
  const absl::Status sent = Send(*stream, deadline, writer);
  CallOn(executor, [&] {
    server->EndStream(stream->domain);
    return true;
  });
  return sent;
}

absl::Status PeerService::Send(const PeerServer::Stream& stream, absl::Time deadline,
                               grpc::ServerWriter<v1::FetchChunk>* writer) {
  Executor* const executor = agent_->executor();
  for (size_t i = 0; i < stream.keys.size() && executor->Now() < deadline; ++i) {
    std::optional<ServedBlock> block =
        AwaitOn(executor, agent_->scope(),
                agent_->flows().peer_server.Serve(stream.domain, stream.keys[i], deadline));
    if (!block.has_value()) continue;
    const bool sent = SendBlock(*block, static_cast<uint32_t>(i), writer);
    // The block's pin belongs to the executor.
    executor->Post([block = std::move(block)]() mutable { block.reset(); });
    if (!sent) return absl::CancelledError("the peer hung up before all blocks were sent");
  }
  return absl::OkStatus();
}

}  // namespace kvtier
