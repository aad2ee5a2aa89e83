#include "agent/peers/grpc_peer_transport.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/call_on_executor.h"
#include "core/status_macros.h"
#include "grpcpp/create_channel.h"
#include "proto/convert.h"
#include "proto/link.h"

namespace kvtier {
namespace {

constexpr size_t kMaxStubs = 4096;
// A peer that came back is found again within this.
constexpr int kMaxPeerBackoffMs = 1000;
// Text by which gRPC refuses a call for a server that has no thread for it. The code alone could
// also mean a message that is too long.
constexpr char kNoThread[] = "Server Threadpool Exhausted";

// Puts the chunks of one stream where the sink wants them, holding the peer to the
// protocol of peer.proto.
class ChunkReader {
 public:
  ChunkReader(Executor* executor, FetchSink* sink, size_t blocks)
      : executor_(executor), sink_(sink), blocks_(blocks) {}

  // Errors: kDataLoss, the peer broke the protocol.
  absl::Status Accept(const v1::FetchChunk& chunk) {
    if (chunk.offset() == 0) {
      KVT_RETURN_IF_ERROR(BeginBlock(chunk));
    } else if (chunk.index() != index_ || chunk.offset() != received_) {
      return absl::DataLossError(absl::StrCat("the peer sent a chunk at ", chunk.offset(),
                                              " of block ", chunk.index(), ", expected ", received_,
                                              " of block ", index_));
    }
    if (chunk.data().empty() || chunk.data().size() > length_ - received_) {
      return absl::DataLossError(absl::StrCat("the peer sent a chunk of ", chunk.data().size(),
                                              " bytes at ", received_, " of a block of ", length_));
    }
    if (!room_.empty()) {
      std::memcpy(room_.data() + received_, chunk.data().data(), chunk.data().size());
    }
    received_ += chunk.data().size();
    if (received_ == length_ && !room_.empty()) {
      CallOn(executor_, [&] {
        sink_->Arrived(index_);
        return true;
      });
    }
    return absl::OkStatus();
  }

 private:
  absl::Status BeginBlock(const v1::FetchChunk& chunk) {
    const absl::StatusOr<BlockProof> proof = convert::ProofFrom(chunk.proof());
    if (!proof.ok()) return absl::DataLossError(std::string(proof.status().message()));
    if (chunk.index() >= blocks_) {
      return absl::DataLossError(absl::StrCat("the peer sent block ", chunk.index(), " of ",
                                              blocks_, " that were asked for"));
    }
    index_ = chunk.index();
    length_ = proof->length;
    received_ = 0;
    room_ = CallOn(executor_, [&] { return sink_->Begin(index_, *proof); });
    return absl::OkStatus();
  }

  Executor* const executor_;
  FetchSink* const sink_;
  const size_t blocks_;
  size_t index_ = 0;
  uint64_t length_ = 0;
  uint64_t received_ = 0;
  std::span<std::byte> room_;
};

// SilenceWatch cancels a call whose peer has said nothing for too long. Executor thread
// only, but for Heard().
class SilenceWatch {
 public:
  SilenceWatch(Executor* executor, absl::Duration longest, grpc::ClientContext* context)
      : executor_(executor), longest_(longest), context_(context) {
    Heard();
    if (longest_ < absl::InfiniteDuration()) Arm(executor_->Now() + longest_);
  }
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;
  ~SilenceWatch() {
    if (timer_.has_value()) executor_->Cancel(*timer_);
  }

  // Notes the time of a message. Any thread. Relaxed, here and in Look(), because nothing else
  // depends on this clock reading.
  void Heard() { heard_ns_.store(absl::ToUnixNanos(executor_->Now()), std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_; }

 private:
  void Arm(absl::Time when) {
    timer_ = executor_->PostAt(when, [this] { Look(); });
  }
  void Look() {
    timer_.reset();
    const absl::Time heard = absl::FromUnixNanos(heard_ns_.load(std::memory_order_relaxed));
    if (executor_->Now() < heard + longest_) return Arm(heard + longest_);
    cancelled_ = true;
    context_->TryCancel();
  }

  Executor* const executor_;
  const absl::Duration longest_;
  grpc::ClientContext* const context_;
  std::atomic<int64_t> heard_ns_{0};
  std::optional<TimerId> timer_;
  bool cancelled_ = false;
};

}  // namespace

GrpcPeerTransport::GrpcPeerTransport(Executor* executor, NodeId self)
    : executor_(executor),
      self_(std::move(self)),
      threads_(executor, "peer-fetch", kMaxFetchesRunning) {}

std::shared_ptr<v1::Peer::Stub> GrpcPeerTransport::StubFor(const std::string& address) {
  if (stubs_.size() >= kMaxStubs && !stubs_.contains(address)) stubs_.clear();
  std::shared_ptr<v1::Peer::Stub>& stub = stubs_[address];
  if (stub == nullptr) {
    grpc::ChannelArguments arguments = LinkArguments();
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxPeerBackoffMs);
    stub = v1::Peer::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }
  return stub;
}

Task<absl::Status> GrpcPeerTransport::Fetch(std::string address, FetchRequest asked, FetchTime time,
                                            FetchSink* sink) {
  if (cancelled_) co_return absl::CancelledError("this node is stopping");
  if (running_.size() >= kMaxFetchesRunning) {
    co_return absl::ResourceExhaustedError(absl::StrCat(
        "peer fetches: ", kMaxFetchesRunning, " run already, the most that may; try again"));
  }
  const std::shared_ptr<v1::Peer::Stub> stub = StubFor(address);
  v1::FetchRequest request;
  *request.mutable_version() = convert::OurVersion("kvtier-agent");
  request.set_node_id(self_.str());
  request.set_peer_tag(static_cast<uint64_t>(asked.tag));
  for (const PeerName& name : asked.names) request.add_peer_names(convert::ToWire(name));
  const absl::Duration timeout = time.deadline - executor_->Now();
  request.set_timeout_ms(convert::ToMilliseconds(timeout));
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(timeout));
  SilenceWatch watch(executor_, time.silence, &context);
  absl::Status status;
  ByteThreads::Work receive = [&] {
    const auto stream = stub->Fetch(&context, request);
    ChunkReader reader(executor_, sink, asked.names.size());
    v1::FetchChunk chunk;
    while (status.ok() && stream->Read(&chunk)) {
      watch.Heard();
      status = reader.Accept(chunk);
    }
    if (!status.ok()) context.TryCancel();
    const absl::Status finished = convert::FromGrpc(stream->Finish());
    status.Update(finished);
  };
  running_.insert(&context);
  co_await threads_.Run(std::move(receive));
  running_.erase(&context);
  if (!status.ok() && watch.cancelled()) {
    co_return absl::UnavailableError(
        absl::StrCat("the peer sent nothing for ", absl::FormatDuration(time.silence)));
  }
  if (absl::IsResourceExhausted(status) && absl::StrContains(status.message(), kNoThread)) {
    co_return absl::AbortedError("the peer has no thread for the call; ask again later");
  }
  co_return status;
}

void GrpcPeerTransport::CancelAll() {
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

}  // namespace kvtier
