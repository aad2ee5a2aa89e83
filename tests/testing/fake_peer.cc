#include "tests/testing/fake_peer.h"

#include <array>
#include <utility>

#include "core/check.h"
#include "core/checksum.h"
#include "core/node.h"
#include "core/report.h"
#include "grpcpp/server_builder.h"
#include "proto/convert.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {
namespace {

constexpr char kBuild[] = "fake-peer";

void WaitUntilCancelled(grpc::ServerContext* context) {
  while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
}

BlockProof DamagedProof(Damage damage, BlockMeta meta, const std::string& secret) {
  const PeerNamer members(PeerKey{.bytes = TenantKey::FromSecret(secret).bytes});
  if (damage == Damage::kWrongSum) meta.sum.lo = 1;
  if (damage == Damage::kMembersProof) return members.Prove(meta);
  BlockProof proof = PeerNamer(PeerKey::FromSecret(secret)).Prove(meta);
  if (damage == Damage::kWrongMac) proof.mac[0] ^= 1;
  if (damage == Damage::kOtherSpace) proof.space.bytes[0] ^= 1;
  if (damage == Damage::kWrongLength) proof.length -= 8;
  return proof;
}

}  // namespace

const char* DamageName(Damage damage) {
  constexpr std::array kNames = {
      "None",       "FlippedBit", "WrongSum",      "WrongMac",        "MembersProof",
      "OtherBlock", "OtherSpace", "WrongLength",   "NoProof",         "Short",
      "Long",       "Gap",        "RepeatedChunk", "IndexOutOfRange", "Stall",
      "Silence",    "Nothing",    "Error",         "OversizedMessage"};
  return kNames.at(static_cast<size_t>(damage));
}

class FakePeer::Service final : public v1::Peer::Service {
 public:
  explicit Service(FakePeer* peer) : peer_(peer) {}

  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override {
    const Damage damage = peer_->Begin();
    if (damage == Damage::kSilence) WaitUntilCancelled(context);
    if (damage == Damage::kError) return {grpc::StatusCode::UNAVAILABLE, "as the test wants it"};
    if (damage == Damage::kNothing) return grpc::Status::OK;
    for (int i = 0; i < request->peer_names_size(); ++i) {
      const bool other = damage == Damage::kOtherBlock;
      const int sent = other ? (i + 1) % request->peer_names_size() : i;
      const Held held = peer_->Find(*PeerName::FromBytes(request->peer_names(sent)));
      for (const v1::FetchChunk& chunk : Chunks(damage, i, held)) {
        if (!writer->Write(chunk)) return grpc::Status::CANCELLED;
      }
      if (damage == Damage::kStall) WaitUntilCancelled(context);
    }
    return grpc::Status::OK;
  }

 private:
  std::vector<v1::FetchChunk> Chunks(Damage damage, int index, Held held) const {
    const size_t half = held.payload.size() / 2;
    if (damage == Damage::kFlippedBit) held.payload[half + 1] ^= std::byte{4};
    v1::FetchChunk first;
    first.set_index(damage == Damage::kIndexOutOfRange ? 1000 : index);
    first.set_data(held.payload.data(), half);
    if (damage != Damage::kNoProof) {
      *first.mutable_proof() = convert::ToWire(peer_->Proof(damage, held.meta));
    }
    v1::FetchChunk second;
    second.set_index(first.index());
    second.set_offset(damage == Damage::kGap ? half + 8 : half);
    second.set_data(held.payload.data() + half, held.payload.size() - half);
    switch (damage) {
      case Damage::kShort:
      case Damage::kStall:
        return {first};
      case Damage::kRepeatedChunk:
        return {first, second, second};
      case Damage::kLong:
        second.mutable_data()->append("and more");
        return {first, second};
      case Damage::kOversizedMessage:
        second.mutable_data()->resize(convert::kMaxMessageBytes + 1);
        return {first, second};
      default:
        return {first, second};
    }
  }

  FakePeer* const peer_;
};

FakePeer::FakePeer(const std::string& address, const std::string& name)
    : address_(address), name_(name), service_(std::make_unique<Service>(this)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  KVT_CHECK(server_ != nullptr);
}

FakePeer::~FakePeer() { server_->Shutdown(std::chrono::system_clock::now()); }

void FakePeer::Hold(const BlockMeta& meta, std::vector<std::byte> payload) {
  absl::MutexLock lock(&mu_);
  blocks_[meta.key] = {.meta = meta, .payload = std::move(payload)};
}

void FakePeer::ServeTenant(const std::string& secret) {
  absl::MutexLock lock(&mu_);
  secret_ = secret;
  namer_ = PeerNamer(PeerKey::FromSecret(secret));
}

void FakePeer::Send(Damage damage) {
  absl::MutexLock lock(&mu_);
  damage_ = damage;
}

absl::Status FakePeer::Report(const std::shared_ptr<grpc::Channel>& coordinator) {
  kvtier::Report report{.node = *NodeId::FromString(name_),
                        .address = address_,
                        .snapshot_begin = true,
                        .snapshot_end = true};
  {
    absl::MutexLock lock(&mu_);
    report.node_epoch = {++lives_};
    for (const auto& [key, held] : blocks_) report.deltas.push_back({.name = namer_.NameOf(key)});
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(Patience(absl::Seconds(5))));
  v1::ReportResponse response;
  return convert::FromGrpc(v1::Coordinator::NewStub(coordinator)
                               ->Report(&context, convert::ToWire(report, kBuild), &response));
}

uint64_t FakePeer::fetches() const {
  absl::MutexLock lock(&mu_);
  return fetches_;
}

BlockProof FakePeer::Proof(Damage damage, const BlockMeta& meta) const {
  absl::MutexLock lock(&mu_);
  return DamagedProof(damage, meta, secret_);
}

FakePeer::Held FakePeer::Find(const PeerName& name) const {
  absl::MutexLock lock(&mu_);
  const auto held = blocks_.find(namer_.KeyOf(name));
  KVT_CHECK(held != blocks_.end());
  return held->second;
}

Damage FakePeer::Begin() {
  absl::MutexLock lock(&mu_);
  ++fetches_;
  return damage_;
}

}  // namespace kvtier::testing
