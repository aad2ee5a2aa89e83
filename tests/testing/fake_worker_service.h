// FakeWorkerService is FakeAgent's gRPC half and the map of blocks behind it.
#ifndef KVTIER_TESTS_TESTING_FAKE_WORKER_SERVICE_H_
#define KVTIER_TESTS_TESTING_FAKE_WORKER_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "agent/index/residency_table.h"
#include "core/checksum.h"
#include "core/space.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "tests/testing/fake_agent.h"
#include "tests/testing/fake_memory.h"

namespace kvtier::testing {

// FakeWorkerService is thread-safe.
class FakeWorkerService final : public v1::Worker::Service {
 public:
  explicit FakeWorkerService(const FakeAgentOptions& options);

  const FakeMemory& arena() const { return arena_; }
  const FakeMemory* gpu_pool() const { return gpu_pool_.get(); }
  // Returns the signal page. All sessions share it, as they share the GPU pool.
  const FakeMemory* signal_page() const { return signal_page_.get(); }

  // Returns the current residency table, which lives as long as the service.
  const SealedMemory& residency() const ABSL_LOCKS_EXCLUDED(mu_);
  // Replaces the table that was handed out with a larger one.
  void GrowResidency() ABSL_LOCKS_EXCLUDED(mu_);

  void OpenSession(const std::string& token) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the session, its leases and its reservations.
  void CloseSession(const std::string& token) ABSL_LOCKS_EXCLUDED(mu_);
  void CloseAllSessions() ABSL_LOCKS_EXCLUDED(mu_);
  void BreakSessions(absl::StatusCode code) ABSL_LOCKS_EXCLUDED(mu_);
  FakeAgentCounts Counts() const ABSL_LOCKS_EXCLUDED(mu_);

  // Sets which calls hang; nullopt: all are answered.
  void SetHang(std::optional<FakeAgent::Hang> hang) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends calls that hang without an answer, because the agent is being killed.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);
  void SetDelay(absl::Duration delay) ABSL_LOCKS_EXCLUDED(mu_);
  void SetPoolVersion(uint64_t version) ABSL_LOCKS_EXCLUDED(mu_);

  grpc::Status RegisterSpace(grpc::ServerContext* context, const v1::RegisterSpaceRequest* request,
                             v1::RegisterSpaceResponse* response) override;
  grpc::Status Match(grpc::ServerContext* context, const v1::MatchRequest* request,
                     v1::MatchResponse* response) override;
  grpc::Status Onboard(grpc::ServerContext* context, const v1::OnboardRequest* request,
                       v1::OnboardResponse* response) override;
  grpc::Status OnboardParts(grpc::ServerContext* context, const v1::OnboardRequest* request,
                            grpc::ServerWriter<v1::OnboardPart>* writer) override;
  grpc::Status Prefetch(grpc::ServerContext* context, const v1::PrefetchRequest* request,
                        v1::PrefetchResponse* response) override;
  grpc::Status Advise(grpc::ServerContext* context, const v1::AdviseRequest* request,
                      v1::AdviseResponse* response) override;
  grpc::Status Reserve(grpc::ServerContext* context, const v1::ReserveRequest* request,
                       v1::ReserveResponse* response) override;
  grpc::Status Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                      v1::CommitResponse* response) override;
  grpc::Status Release(grpc::ServerContext* context, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override;
  grpc::Status Ping(grpc::ServerContext* context, const v1::PingRequest* request,
                    v1::PingResponse* response) override;

 private:
  struct Block {
    BlockKey key;  // Key by which the worker's own client names it.
    uint64_t offset = 0;
    uint64_t length = 0;
    PayloadSum sum;
    size_t leases = 0;
  };
  // A block that the agent has: its place in the sequence, and its name in blocks_.
  struct Found {
    uint32_t index = 0;
    std::string name;
  };
  struct Lease {
    std::string block;
    std::optional<uint64_t> gpu_offset;
  };
  struct Reservation {
    std::string block;
    BlockKey key;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  struct Session {
    std::vector<SpaceSpec> spaces;  // Spaces by id - 1; also those that were released.
    size_t spaces_released = 0;
    // Space id by the client's registration and the digest; a repeated request gets the same id.
    std::map<std::pair<uint64_t, std::string>, uint32_t> registrations;
    std::map<uint64_t, Lease> leases;
    std::map<uint64_t, Reservation> reservations;
  };
  using Sessions = std::map<std::string, Session>;

  // Returns when a lease or a reservation that begins now ends, in nanoseconds of CLOCK_MONOTONIC.
  uint64_t LeaseEnd() const;
  // Leases the blocks that the request asks for, as far as there is room.
  void LendAll(Session* session, const v1::OnboardRequest& request, v1::OnboardResponse* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits while calls hang after the first part. False: the caller gave up meanwhile.
  bool AwaitNextPart(grpc::ServerContext* context) ABSL_LOCKS_EXCLUDED(mu_);
  // Counts the call, and holds it up as SetHang() and SetDelay() say. False: the caller gave up.
  bool Begin(grpc::ServerContext* context, bool is_ping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the session of a request; null: it is unknown, or broken.
  Session* Find(const std::string& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteHints(const google::protobuf::RepeatedPtrField<v1::Sequence>& sequences)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the answer to a call whose session was not found.
  grpc::Status Refusal(const std::string& token) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the blocks of a sequence that the agent has.
  std::vector<Found> Find(const Session& session, const v1::Sequence& sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Leases a block. False: the GPU pool has no room for it.
  bool Lend(Session* session, const Found& found, v1::Tier target, v1::OnboardedSequence* onboarded)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  struct Wanted {
    const std::string& key;
    uint64_t length = 0;
  };
  void ReserveOne(Session* session, const SpaceSpec& space, const Wanted& wanted,
                  v1::ReservedBlock* reserved) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Publishes the reserved block. Returns the number of blocks published: 1, or 0 if `id` is no
  // reservation. Without `sum`, takes the sum here.
  uint32_t Publish(Session* session, uint64_t id, std::optional<PayloadSum> sum)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsReserved(const std::string& block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<uint64_t> AllocateEvicting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives back reservations; returns how many there were.
  uint32_t GiveBack(Session* session, const google::protobuf::RepeatedField<uint64_t>& ids)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLease(const Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLeases(Session* session, const google::protobuf::RepeatedField<uint64_t>& ids)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndSession(Session* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const FakeAgentOptions options_;
  FakeMemory arena_;  // Its free list is guarded by mu_; its bytes are the workers'.
  const std::unique_ptr<FakeMemory> gpu_pool_;
  const std::unique_ptr<FakeMemory> signal_page_;
  mutable absl::Mutex mu_;
  // Tables handed out so far; only the last one is kept up to date.
  std::vector<std::unique_ptr<ResidencyTable>> tables_ ABSL_GUARDED_BY(mu_);
  std::optional<FakeAgent::Hang> hang_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration delay_ ABSL_GUARDED_BY(mu_);
  Sessions sessions_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, absl::StatusCode> broken_ ABSL_GUARDED_BY(mu_);  // Status codes by token.
  std::map<std::string, Block> blocks_ ABSL_GUARDED_BY(mu_);
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  size_t hanging_ ABSL_GUARDED_BY(mu_) = 0;
  size_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t committed_step_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t reserve_timeout_ms_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::optional<ReuseHint>> hints_ ABSL_GUARDED_BY(mu_);
  size_t damage_reports_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t pool_version_ ABSL_GUARDED_BY(mu_) = 1;  // Version that answers give.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_WORKER_SERVICE_H_
