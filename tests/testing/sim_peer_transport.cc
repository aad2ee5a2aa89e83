#include "tests/testing/sim_peer_transport.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "agent/agent.h"
#include "agent/limits.h"
#include "core/event.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kRequestBytes = 512;

struct SentBlock {
  size_t index = 0;
  BlockProof proof;
  std::vector<std::byte> payload;
  bool cut_short = false;  // Whether the stream breaks in the middle of it.
};

// Stream is one fetch, whose state both ends and the messages between them share.
struct Stream {
  Stream(SimNetwork* network, std::string asker, std::string server, Executor* executor)
      : network(network),
        asker(std::move(asker)),
        server(std::move(server)),
        executor(executor),
        news(std::make_shared<Event>(executor)) {}

  // Runs `apply` at the asking end, after everything that this stream sent before.
  void ToAsker(uint64_t bytes, std::function<void()> apply) {
    const absl::Time arrival = network->PeerServiceAt(server) == PeerService::kFrozen
                                   ? absl::InfiniteFuture()
                                   : network->ArrivalOf(server, asker, bytes);
    last_arrival = std::max(last_arrival, arrival);
    // Once a message of the stream was lost, no later one arrives.
    if (last_arrival == absl::InfiniteFuture()) return;
    network->time()->At(last_arrival, [this, apply = std::move(apply)] {
      apply();
      news->Set();
    });
  }

  SimNetwork* const network;
  const std::string asker;
  const std::string server;
  Executor* const executor;  // Executor of the asking end.
  absl::Time last_arrival = absl::InfinitePast();
  std::shared_ptr<Event> news;
  std::deque<SentBlock> arrived;
  std::optional<absl::Status> ended;
};

void End(const std::shared_ptr<Stream>& stream, absl::Status status) {
  stream->ToAsker(0, [stream, status] { stream->ended = status; });
}

// Damages a block that travels: its bytes, or one field of its proof.
void Flip(SimRandom* random, SentBlock* block) {
  const uint64_t bit = uint64_t{1} << random->Below(64);
  switch (random->Below(8)) {
    case 0:
      block->proof.sum.lo ^= bit;
      return;
    case 1:
      block->proof.mac[random->Below(block->proof.mac.size())] ^=
          static_cast<uint8_t>(1 + random->Below(255));
      return;
    case 2:
      block->proof.space.bytes[random->Below(32)] ^= static_cast<uint8_t>(1 + random->Below(255));
      return;
    case 3:
      block->proof.length ^= bit;
      return;
    default:
      block->payload[random->Below(block->payload.size())] ^= std::byte{1} << random->Below(8);
  }
}

void SendBlock(const std::shared_ptr<Stream>& stream, size_t index, const ServedBlock& served) {
  SimNetwork* const network = stream->network;
  SimRandom& random = network->random();
  SentBlock block{.index = index,
                  .proof = served.proof,
                  .payload = {served.payload.begin(), served.payload.end()},
                  .cut_short = random.Draw(network->faults.broken)};
  if (random.Draw(network->faults.flipped)) {
    Flip(&random, &block);
    ++network->counts.flipped;
  }
  if (random.Draw(network->faults.misnumbered)) {
    block.index = random.Below(index + 2);
    ++network->counts.misnumbered;
  }
  const uint64_t bytes = block.payload.size();
  const bool repeated = random.Draw(network->faults.repeated);
  std::function<void()> arrive = [stream, block = std::move(block)] {
    stream->arrived.push_back(block);
  };
  if (repeated) stream->ToAsker(bytes, arrive);
  stream->ToAsker(bytes, std::move(arrive));
}

// Serves a stream at the other node's end. Blocks that it cannot serve are left out.
Task<void> ServeStream(Agent* agent, std::shared_ptr<Stream> stream, FetchRequest request,
                       absl::Time deadline) {
  Executor* const executor = agent->executor();
  PeerServer* const server = &agent->flows().peer_server;
  const absl::StatusOr<std::optional<PeerServer::Stream>> begun =
      server->BeginStream(request.tag, request.names);
  if (!begun.ok() || !begun->has_value()) co_return End(stream, begun.status());
  const PeerServer::Stream& of = **begun;
  for (size_t i = 0; i < of.keys.size() && executor->Now() < deadline; ++i) {
    std::optional<ServedBlock> served = co_await server->Serve(of.domain, of.keys[i], deadline);
    if (!served.has_value()) continue;
    // The bytes leave when the link has room, so the slot is read then. Its content must be
    // unchanged until that time.
    const double seconds =
        static_cast<double>(served->payload.size()) / stream->network->faults.bytes_per_second;
    co_await SleepUntil(executor, executor->Now() + absl::Seconds(seconds));
    SendBlock(stream, i, *served);
  }
  server->EndStream(of.domain);
  End(stream, absl::OkStatus());
}

// Gives one arrived block to the sink and returns the end of the fetch; nullopt: it goes on.
std::optional<absl::Status> Hand(const SentBlock& block, FetchSink* sink) {
  const std::span<std::byte> room = sink->Begin(block.index, block.proof);
  const bool wanted = !room.empty();
  if (wanted && room.size() != block.payload.size()) {
    return absl::DataLossError("peer: sent another length than it said");
  }
  const size_t bytes = block.cut_short ? block.payload.size() / 2 : block.payload.size();
  if (wanted) std::copy_n(block.payload.begin(), bytes, room.begin());
  if (block.cut_short) return absl::UnavailableError("peer: the stream broke");
  if (wanted) sink->Arrived(block.index);
  return std::nullopt;
}

// Running counts a running fetch, until its task ends or is destroyed.
class Running {
 public:
  explicit Running(size_t* count) : count_(count) { ++*count_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { --*count_; }

 private:
  size_t* const count_;
};

}  // namespace

Task<absl::Status> SimPeerTransport::Fetch(std::string address, FetchRequest request,
                                           FetchTime time, FetchSink* sink) {
  if (running_ >= kMaxFetchesRunning) {
    co_return absl::ResourceExhaustedError("peer: too many fetches");
  }
  const Running running(&running_);
  const auto stream = std::make_shared<Stream>(network_, self_, address, executor_);
  std::function<void()> connect = [network = network_, address, stream, request,
                                   deadline = time.deadline] {
    Agent* const agent = network->AgentAt(address);
    const bool refuses = network->PeerServiceAt(address) == PeerService::kRefuses;
    if (agent != nullptr && !refuses) {
      agent->scope()->Spawn(ServeStream(agent, stream, request, deadline));
    } else {
      End(stream, absl::UnavailableError("peer: connection refused"));
    }
  };
  const absl::Time connected = network_->ArrivalOf(self_, address, kRequestBytes);
  if (connected != absl::InfiniteFuture()) network_->time()->At(connected, std::move(connect));

  absl::Time heard = executor_->Now();
  while (true) {
    while (!stream->arrived.empty()) {
      heard = executor_->Now();
      const SentBlock block = std::move(stream->arrived.front());
      stream->arrived.pop_front();
      const std::optional<absl::Status> broke = Hand(block, sink);
      if (broke.has_value()) co_return *broke;
    }
    if (stream->ended.has_value()) co_return *stream->ended;
    const auto news = std::make_shared<Event>(executor_);
    stream->news = news;
    const bool awake = co_await news->WaitUntil(std::min(time.deadline, heard + time.silence));
    if (awake) continue;
    if (executor_->Now() < time.deadline) co_return absl::UnavailableError("peer: silent");
    co_return absl::DeadlineExceededError("peer: silent until the deadline");
  }
}

}  // namespace kvtier::testing
