#include "tests/testing/fake_worker_service.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/check.h"
#include "proto/convert.h"
#include "proto/sequence_keys.h"

namespace kvtier::testing {
namespace {

grpc::Status GaveUp() { return {grpc::StatusCode::CANCELLED, "the caller gave up"}; }

std::string BlockName(const SpaceSpec& space, const std::string& engine_key) {
  return space.Digest().ToHex() + engine_key;
}

// Logarithm of the table's buckets at first: 64, more than any test has blocks.
constexpr uint32_t kLog2Buckets = 6;

std::unique_ptr<ResidencyTable> MakeTable(uint32_t log2_buckets) {
  auto table = ResidencyTable::Create("kvtier-fake", log2_buckets);
  KVT_CHECK(table.ok() && (*table)->Populate(0, (*table)->buckets()).ok());
  return *std::move(table);
}

}  // namespace

FakeWorkerService::FakeWorkerService(const FakeAgentOptions& options)
    : options_(options),
      arena_(options.slots, options.slot_bytes),
      gpu_pool_(options.has_gpu_pool
                    ? std::make_unique<FakeMemory>(options.slots, options.slot_bytes)
                    : nullptr),
      signal_page_(options.has_gpu_pool ? std::make_unique<FakeMemory>(1, wire::kSignalPageBytes)
                                        : nullptr) {
  tables_.push_back(MakeTable(kLog2Buckets));
}

void FakeWorkerService::OpenSession(const std::string& token) {
  absl::MutexLock lock(&mu_);
  sessions_[token];
}

void FakeWorkerService::CloseSession(const std::string& token) {
  absl::MutexLock lock(&mu_);
  const auto found = sessions_.find(token);
  if (found == sessions_.end()) return;
  EndSession(&found->second);
  sessions_.erase(found);
}

void FakeWorkerService::CloseAllSessions() {
  absl::MutexLock lock(&mu_);
  for (auto& [token, session] : sessions_) EndSession(&session);
  sessions_.clear();
}

void FakeWorkerService::BreakSessions(absl::StatusCode code) {
  absl::MutexLock lock(&mu_);
  for (const auto& [token, session] : sessions_) broken_[token] = code;
}

const SealedMemory& FakeWorkerService::residency() const {
  absl::MutexLock lock(&mu_);
  return tables_.back()->memory();
}

void FakeWorkerService::GrowResidency() {
  absl::MutexLock lock(&mu_);
  const ResidencyTable& old = *tables_.back();
  tables_.push_back(MakeTable(old.log2_buckets() + 1));
  for (size_t bucket = 0; bucket < old.buckets(); ++bucket) {
    tables_.back()->TakeOver(old, bucket);
  }
  tables_[tables_.size() - 2]->Retire();
}

FakeAgentCounts FakeWorkerService::Counts() const {
  absl::MutexLock lock(&mu_);
  FakeAgentCounts counts{
      .sessions = sessions_.size(), .blocks = blocks_.size(), .calls = calls_, .hanging = hanging_};
  for (const auto& [token, session] : sessions_) {
    counts.leases += session.leases.size();
    counts.reservations += session.reservations.size();
  }
  counts.committed_step = committed_step_;
  counts.damage_reports = damage_reports_;
  counts.reserve_timeout_ms = reserve_timeout_ms_;
  counts.hints = hints_;
  if (signal_page_ != nullptr) {
    const auto word = [this](size_t index) {
      return reinterpret_cast<const std::atomic<uint64_t>*>(
                 signal_page_->at(index * wire::kSignalStride))
          ->load();
    };
    counts.begun_step = word(wire::kBegunWord);
    counts.retired_step = word(wire::kRetiredWord);
  }
  return counts;
}

void FakeWorkerService::NoteHints(
    const google::protobuf::RepeatedPtrField<v1::Sequence>& sequences) {
  hints_.clear();
  for (const v1::Sequence& sequence : sequences) {
    std::optional<ReuseHint>& hint = hints_.emplace_back();
    if (sequence.has_reuse_hint()) hint = convert::ReuseHintFrom(sequence).value();
  }
}

void FakeWorkerService::SetHang(std::optional<FakeAgent::Hang> hang) {
  absl::MutexLock lock(&mu_);
  hang_ = hang;
}

void FakeWorkerService::Stop() {
  absl::MutexLock lock(&mu_);
  hang_.reset();
  is_stopping_ = true;
}

void FakeWorkerService::SetPoolVersion(uint64_t version) {
  absl::MutexLock lock(&mu_);
  pool_version_ = version;
}

void FakeWorkerService::SetDelay(absl::Duration delay) {
  absl::MutexLock lock(&mu_);
  delay_ = delay;
}

bool FakeWorkerService::Begin(grpc::ServerContext* context, bool is_ping) {
  ++calls_;
  const auto flows = [this, is_ping]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !hang_ || *hang_ == FakeAgent::Hang::kParts ||
           (is_ping && *hang_ == FakeAgent::Hang::kAllButPing);
  };
  ++hanging_;
  // gRPC's synchronous server cannot wake this thread at cancellation, so it polls.
  while (!mu_.AwaitWithTimeout(absl::Condition(&flows), absl::Milliseconds(5)) &&
         !context->IsCancelled()) {
  }
  --hanging_;
  if (context->IsCancelled()) return false;
  const auto never = []() { return false; };
  if (delay_ > absl::ZeroDuration()) {
    mu_.AwaitWithTimeout(absl::Condition(&never), delay_);
  }
  return !context->IsCancelled();
}

FakeWorkerService::Session* FakeWorkerService::Find(const std::string& token) {
  const auto found = sessions_.find(token);
  return found == sessions_.end() || broken_.contains(token) ? nullptr : &found->second;
}

grpc::Status FakeWorkerService::Refusal(const std::string& token) const {
  const auto broken = broken_.find(token);
  if (broken != broken_.end()) return convert::ToGrpc(absl::Status(broken->second, "broken"));
  return {grpc::StatusCode::FAILED_PRECONDITION, "no open session has this token"};
}

std::vector<FakeWorkerService::Found> FakeWorkerService::Find(const Session& session,
                                                              const v1::Sequence& sequence) {
  KVT_CHECK(sequence.space_id() >= 1 && sequence.space_id() <= session.spaces.size());
  std::vector<Found> found;
  uint32_t index = 0;
  const std::vector<EngineKey> keys = convert::EngineKeysFrom(sequence).value();
  for (const EngineKey& key : keys) {
    std::string name = BlockName(session.spaces[sequence.space_id() - 1], std::string(key.bytes()));
    if (blocks_.contains(name)) {
      found.push_back({.index = index, .name = std::move(name)});
    } else if (!sequence.set()) {
      break;
    }
    ++index;
  }
  return found;
}

std::optional<uint64_t> FakeWorkerService::AllocateEvicting() {
  if (const auto offset = arena_.Allocate()) return offset;
  const auto victim = std::find_if(blocks_.begin(), blocks_.end(),
                                   [](const auto& entry) { return entry.second.leases == 0; });
  if (victim == blocks_.end()) return std::nullopt;
  const uint64_t offset = victim->second.offset;
  tables_.back()->Remove(victim->second.key, Tier::kHost);
  blocks_.erase(victim);
  return offset;
}

void FakeWorkerService::EndLease(const Lease& lease) {
  --blocks_.at(lease.block).leases;
  if (lease.gpu_offset) gpu_pool_->Free(*lease.gpu_offset);
}

void FakeWorkerService::EndSession(Session* session) {
  for (const auto& [id, lease] : session->leases) EndLease(lease);
  for (const auto& [id, reservation] : session->reservations) arena_.Free(reservation.offset);
}

grpc::Status FakeWorkerService::RegisterSpace(grpc::ServerContext* context,
                                              const v1::RegisterSpaceRequest* request,
                                              v1::RegisterSpaceResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  v1::SpaceSpec given = request->space();
  if (!options_.knows_codecs) {
    given.clear_codec();
    given.clear_any_length();
  }
  const absl::StatusOr<SpaceSpec> space = convert::SpaceFrom(given);
  if (!space.ok()) return convert::ToGrpc(space.status());
  const std::string digest = convert::ToWire(space->Digest());
  const std::pair registration(request->registration(), digest);
  if (!session->registrations.contains(registration)) {
    if (session->spaces.size() - session->spaces_released >= options_.most_spaces) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "spaces: all are in use"};
    }
    session->spaces.push_back(*space);
    session->registrations[registration] = static_cast<uint32_t>(session->spaces.size());
  }
  response->set_space_id(session->registrations.at(registration));
  response->set_space_digest(digest);
  response->set_slot_bytes(SlotBytes(space->block_bytes));
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::Match(grpc::ServerContext* context, const v1::MatchRequest* request,
                                      v1::MatchResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  const Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  for (const v1::Sequence& sequence : request->sequences()) {
    const std::vector<Found> found = Find(*session, sequence);
    v1::MatchedSequence* const matched = response->add_sequences();
    matched->set_local_blocks(static_cast<uint32_t>(found.size()));
    matched->set_total_blocks(static_cast<uint32_t>(found.size()));
    const size_t tiers = sequence.set() ? convert::CountEngineKeys(sequence) : found.size();
    for (size_t i = 0; i < tiers; ++i) matched->add_tiers(v1::TIER_UNSPECIFIED);
    for (const Found& block : found) {
      matched->set_tiers(static_cast<int>(block.index), v1::TIER_HOST);
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::Onboard(grpc::ServerContext* context,
                                        const v1::OnboardRequest* request,
                                        v1::OnboardResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  LendAll(session, *request, response);
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::Prefetch(grpc::ServerContext* context,
                                         const v1::PrefetchRequest* request,
                                         v1::PrefetchResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  const Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  NoteHints(request->sequences());
  size_t accepted = 0;
  for (const v1::Sequence& sequence : request->sequences()) {
    accepted += Find(*session, sequence).size();
  }
  response->set_accepted_blocks(static_cast<uint32_t>(accepted));
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::Advise(grpc::ServerContext* context,
                                       const v1::AdviseRequest* request,
                                       v1::AdviseResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  const Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  NoteHints(request->sequences());
  size_t advised = 0;
  for (const v1::Sequence& sequence : request->sequences()) {
    advised += Find(*session, sequence).size();
  }
  response->set_advised_blocks(static_cast<uint32_t>(advised));
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::Reserve(grpc::ServerContext* context,
                                        const v1::ReserveRequest* request,
                                        v1::ReserveResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  EndLeases(session, request->released_lease_ids());
  reserve_timeout_ms_ = request->timeout_ms();
  NoteHints(request->sequences());
  response->set_gpu_version(pool_version_);
  for (const v1::Sequence& sequence : request->sequences()) {
    KVT_CHECK(sequence.space_id() >= 1 && sequence.space_id() <= session->spaces.size());
    const SpaceSpec& space = session->spaces[sequence.space_id() - 1];
    const absl::Status lengths = convert::CheckLengths(sequence, BlockLengths::Of(space));
    if (!lengths.ok()) return convert::ToGrpc(lengths);
    int i = 0;
    const std::vector<EngineKey> keys = convert::EngineKeysFrom(sequence).value();
    for (const EngineKey& key : keys) {
      const uint64_t length = space.any_length ? sequence.lengths(i++) : space.block_bytes;
      ReserveOne(session, space, {.key = std::string(key.bytes()), .length = length},
                 response->add_blocks());
    }
  }
  response->set_deadline_ns(LeaseEnd());
  return grpc::Status::OK;
}

void FakeWorkerService::ReserveOne(Session* session, const SpaceSpec& space, const Wanted& wanted,
                                   v1::ReservedBlock* reserved) {
  std::string name = BlockName(space, wanted.key);
  if (options_.reserve_state != 0) {
    reserved->set_state(static_cast<v1::ReservedBlock::State>(options_.reserve_state));
    return;
  }
  if (blocks_.contains(name)) {
    reserved->set_state(v1::ReservedBlock::PRESENT);
    return;
  }
  if (IsReserved(name)) {
    reserved->set_state(v1::ReservedBlock::PENDING);
    return;
  }
  const std::optional<uint64_t> offset = AllocateEvicting();
  if (!offset || wanted.length > options_.slot_bytes) {
    reserved->set_state(v1::ReservedBlock::NO_ROOM);
    return;
  }
  reserved->set_state(v1::ReservedBlock::RESERVED);
  reserved->set_reservation_id(next_id_);
  reserved->set_offset(*offset);
  const BlockNamer namer(TenantKey::FromSecret(options_.tenant_secret), space.Digest());
  session->reservations[next_id_++] = {.block = std::move(name),
                                       .key = namer.Name(*EngineKey::FromBytes(wanted.key)),
                                       .offset = *offset,
                                       .length = wanted.length};
}

bool FakeWorkerService::IsReserved(const std::string& block) const {
  for (const auto& [token, session] : sessions_) {
    for (const auto& [id, reservation] : session.reservations) {
      if (reservation.block == block) return true;
    }
  }
  return false;
}

grpc::Status FakeWorkerService::Commit(grpc::ServerContext* context,
                                       const v1::CommitRequest* request,
                                       v1::CommitResponse* response) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  committed_step_ = request->step();
  response->set_unwritten_blocks(GiveBack(session, request->unwritten_reservation_ids()));
  uint32_t committed = 0;
  for (const uint64_t id : request->reservation_ids()) {
    committed += Publish(session, id, std::nullopt);
  }
  for (int i = 0; i < request->summed_reservation_ids_size(); ++i) {
    const PayloadSum sum{.hi = request->sums(2 * i), .lo = request->sums(2 * i + 1)};
    committed += Publish(session, request->summed_reservation_ids(i), sum);
  }
  response->set_committed_blocks(committed);
  // A durable commit says that all its blocks but the last are on disk.
  if (request->durable() && committed > 0) response->set_durable_blocks(committed - 1);
  return grpc::Status::OK;
}

uint32_t FakeWorkerService::Publish(Session* session, uint64_t id, std::optional<PayloadSum> sum) {
  const auto found = session->reservations.find(id);
  if (found == session->reservations.end()) return 0;
  const Reservation& done = found->second;
  if (!sum) sum = SumPayload({arena_.at(done.offset), done.length});
  // If two workers put the same block, the first one's stays.
  const Block block{.key = done.key, .offset = done.offset, .length = done.length, .sum = *sum};
  if (blocks_.try_emplace(done.block, block).second) {
    tables_.back()->Add(done.key, Tier::kHost);
  } else {
    arena_.Free(done.offset);
  }
  session->reservations.erase(found);
  return 1;
}

void FakeWorkerService::EndLeases(Session* session,
                                  const google::protobuf::RepeatedField<uint64_t>& ids) {
  for (const uint64_t id : ids) {
    const auto found = session->leases.find(id);
    if (found == session->leases.end()) continue;
    EndLease(found->second);
    session->leases.erase(found);
  }
}

grpc::Status FakeWorkerService::Release(grpc::ServerContext* context,
                                        const v1::ReleaseRequest* request, v1::ReleaseResponse*) {
  absl::MutexLock lock(&mu_);
  if (!Begin(context, false)) return GaveUp();
  Session* const session = Find(request->session_token());
  if (session == nullptr) return Refusal(request->session_token());
  EndLeases(session, request->lease_ids());
  EndLeases(session, request->damaged_lease_ids());
  damage_reports_ += static_cast<size_t>(request->damaged_lease_ids_size());
  GiveBack(session, request->reservation_ids());
  session->spaces_released += static_cast<size_t>(request->space_ids_size());
  return grpc::Status::OK;
}

uint32_t FakeWorkerService::GiveBack(Session* session,
                                     const google::protobuf::RepeatedField<uint64_t>& ids) {
  uint32_t given_back = 0;
  for (const uint64_t id : ids) {
    const auto found = session->reservations.find(id);
    if (found == session->reservations.end()) continue;
    arena_.Free(found->second.offset);
    session->reservations.erase(found);
    ++given_back;
  }
  return given_back;
}

grpc::Status FakeWorkerService::Ping(grpc::ServerContext* context, const v1::PingRequest*,
                                     v1::PingResponse*) {
  absl::MutexLock lock(&mu_);
  return Begin(context, true) ? grpc::Status::OK : GaveUp();
}

}  // namespace kvtier::testing
