// Tests a worker that names others' leases, reservations and tickets, repeats calls, asks for more
// than there is and writes all over its tenant's arena: the worker gets errors, its session ends,
// and another tenant notices nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "proto/convert.h"
#include "proto/sequence_keys.h"
#include "tests/integration/hostile_worker.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;

// The test tries every number that the agent could have given to the bystander so far, and many
// more.
TEST_F(HostileWorkerTest, LeasesReservationsAndTicketsOfOthersAreNotItsOwn) {
  TestWorker& victim = bystander_.worker();
  const OnboardedBlocks held = victim.Hold(kHot);
  ASSERT_EQ(held.size(), kHot.count);
  const std::vector<EngineKey> more = victim.KeysOf({kHot.first + kHot.count, 4});
  absl::StatusOr<ReservedBlocks> reserved = victim.client().Reserve(victim.space(), more);
  ASSERT_TRUE(reserved.ok());
  const std::vector<EngineKey> hot = victim.KeysOf(kHot);
  const KeySequence run{.space = victim.space(), .keys = hot};
  const auto ticket = victim.client().TakeTicket(std::span(&run, 1), {});
  ASSERT_TRUE(ticket.ok() && ticket->id.has_value());

  v1::ReleaseRequest release;
  v1::CommitRequest commit;
  release.set_session_token(token_);
  commit.set_session_token(token_);
  for (uint64_t id = 0; id < convert::kMaxIdsPerRequest; ++id) {
    release.add_lease_ids(id);
    release.add_damaged_lease_ids(id);
    release.add_reservation_ids(id);
    release.add_slots(static_cast<uint32_t>(id));
    commit.add_summed_reservation_ids(id);
    commit.add_sums(random_());
    commit.add_sums(random_());
  }
  v1::CommitResponse committed;
  EXPECT_TRUE(Call(&v1::Worker::Stub::Commit, commit, &committed).ok());
  EXPECT_EQ(committed.committed_blocks(), 0);
  commit.clear_summed_reservation_ids();
  commit.clear_sums();
  for (uint64_t id = 0; id < convert::kMaxIdsPerRequest; ++id) {
    commit.add_unwritten_reservation_ids(id);
  }
  EXPECT_TRUE(Call(&v1::Worker::Stub::Commit, commit, &committed).ok());
  EXPECT_EQ(committed.unwritten_blocks(), 0);
  const std::string ticket_id(ticket->id->begin(), ticket->id->end());
  release.add_tickets(ticket_id);
  v1::ReleaseResponse released;
  EXPECT_TRUE(Call(&v1::Worker::Stub::Release, release, &released).ok());
  v1::RedeemTicketRequest redeem;
  redeem.set_session_token(token_);
  redeem.add_space_ids(space_id_);
  v1::OnboardResponse redeemed;
  for (size_t i = 0; i <= Tries(); ++i) {
    redeem.set_ticket(i == 0 ? ticket_id : Noise(ticket_id.size()));
    Call(&v1::Worker::Stub::RedeemTicket, redeem, &redeemed);
    for (const v1::OnboardedSequence& sequence : redeemed.sequences()) {
      EXPECT_EQ(sequence.blocks().lease_ids_size(), 0);
    }
  }

  EXPECT_TRUE(victim.Proves(held, kHot.first) && held.valid());
  for (size_t i = 0; i < more.size(); ++i) {
    ASSERT_EQ(reserved->state(i), ReservedBlocks::State::kReserved);
    victim.Fill(kHot.first + kHot.count + i, reserved->slot(i));
  }
  EXPECT_EQ(reserved->Commit(), more.size());
  const SpaceHandle space = victim.space();
  const auto loaded = victim.client().Redeem(*ticket->id, 0, std::span(&space, 1));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ((*loaded)[0].size(), kHot.count);
  EXPECT_TRUE(victim.Proves((*loaded)[0], kHot.first));
}

TEST_F(HostileWorkerTest, WhatItRepeatsDoesNothingTheSecondTime) {
  v1::CommitRequest commit;
  commit.set_session_token(token_);
  for (const uint64_t id : Reserve(1, 4)) {
    // The call names each id twice, too.
    commit.add_reservation_ids(id);
    commit.add_reservation_ids(id);
  }
  v1::CommitResponse committed;
  ASSERT_TRUE(Call(&v1::Worker::Stub::Commit, commit, &committed).ok());
  EXPECT_EQ(committed.committed_blocks(), 4);
  ASSERT_TRUE(Call(&v1::Worker::Stub::Commit, commit, &committed).ok());
  EXPECT_EQ(committed.committed_blocks(), 0);

  auto onboard = RequestOf<v1::OnboardRequest>(1, 4);
  onboard.set_target(v1::TIER_HOST);
  v1::OnboardResponse onboarded;
  ASSERT_TRUE(Call(&v1::Worker::Stub::Onboard, onboard, &onboarded).ok());
  v1::ReleaseRequest release;
  release.set_session_token(token_);
  for (const uint64_t id : onboarded.sequences(0).blocks().lease_ids()) {
    for (int i = 0; i < 3; ++i) release.add_lease_ids(id);
  }
  ASSERT_EQ(release.lease_ids_size(), 12);
  v1::ReleaseResponse released;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Call(&v1::Worker::Stub::Release, release, &released).ok());
  }
  // The token of an ended session is refused.
  session_.reset();
  EXPECT_TRUE(Await(kPatience, [&] {
    return Call(&v1::Worker::Stub::Onboard, onboard, &onboarded).error_code() ==
           grpc::StatusCode::FAILED_PRECONDITION;
  }));
}

TEST_F(HostileWorkerTest, HugeBatchesMeetTheirLimitsAndEndWithTheSession) {
  PutAnything(1, 1024);
  // Takes leases and tickets of the same blocks until the agent grants no more.
  auto onboard = RequestOf<v1::OnboardRequest>(1, 1024);
  onboard.set_target(v1::TIER_HOST);
  auto take = RequestOf<v1::TakeTicketRequest>(1, 1024);
  take.set_redemptions(64);
  take.set_lifetime_ms(60'000);
  v1::OnboardResponse onboarded;
  v1::TakeTicketResponse taken;
  size_t leased = 0;
  size_t ticketed = 0;
  for (int i = 0; i < 100; ++i) {
    if (Call(&v1::Worker::Stub::Onboard, onboard, &onboarded).ok()) {
      leased += static_cast<size_t>(onboarded.sequences(0).blocks().lease_ids_size());
    }
    const grpc::Status said = Call(&v1::Worker::Stub::TakeTicket, take, &taken);
    if (said.ok()) {
      ticketed += static_cast<size_t>(taken.sequences(0).indices_size());
    } else {
      EXPECT_THAT(said.error_message(), HasSubstr("65536 blocks"));
    }
  }
  // The bound is kMaxLeasesPerSession. Under a sanitizer the loop is so slow that the first leases
  // expire, and more are granted.
  EXPECT_GE(leased, 65'536);
  EXPECT_TRUE(leased == 65'536 || kSanitized) << leased;
  // The bound is kTicketPart, half of the tenant's arena, which is half of the node's: this is less
  // than kMaxTicketBlocks.
  const uint64_t half_arena = agent_.TierStatus(Tier::kHost).capacity_bytes() / 4;
  EXPECT_EQ(ticketed * kSmallBytes, half_arena);
  // Takes reservations until the agent grants no more: at most half of the arena may be promised to
  // the disks.
  uint64_t reserved_bytes = 0;
  for (uint64_t i = 1; i < 10; ++i)
    reserved_bytes += Reserve(i * 100'000, 8192).size() * kSmallBytes;
  EXPECT_GT(reserved_bytes, 0);
  EXPECT_LE(reserved_bytes, half_arena);
  bystander_.AwaitServed();
  EXPECT_GT(agent_.Status().tickets(), 0);
  session_.reset();
  // The worker's leases end at once. Its reserved slots stay taken while its process lives, because
  // that process, which is this one, may still write there.
  EXPECT_TRUE(Await(kPatience, [&] { return agent_.Status().leases() <= 2 * kHot.count; }));
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).late_bytes(), reserved_bytes);
}

TEST_F(HostileWorkerTest, WildLengthsAreRefusedByNameAndReserveNothing) {
  v1::RegisterSpaceRequest any;
  any.set_session_token(token_);
  *any.mutable_space() = convert::ToWire(AnyLengthSpace(kSmallBytes));
  v1::RegisterSpaceResponse registered;
  ASSERT_TRUE(Call(&v1::Worker::Stub::RegisterSpace, any, &registered).ok());
  v1::ReserveResponse response;
  for (size_t i = 0; i < Tries(); ++i) {
    auto request = RequestOf<v1::ReserveRequest>(1 + 8 * i, 1 + random_() % 8);
    request.set_target(v1::TIER_HOST);
    v1::Sequence* const sequence = request.mutable_sequences(0);
    const bool fixed = i % 4 == 0;
    if (!fixed) sequence->set_space_id(registered.space_id());
    const auto keys = static_cast<int>(convert::CountEngineKeys(*sequence));
    const size_t lengths = i % 4 == 1 ? random_() % 20'000 : static_cast<size_t>(keys);
    for (size_t n = 0; n < lengths; ++n) sequence->add_lengths(1 + random_() % kSmallBytes);
    if (i % 4 == 1 && sequence->lengths_size() == keys) continue;
    if (i % 4 > 1) {
      const uint64_t wild = i % 8 < 4 ? 0 : kSmallBytes + 1 + random_() % (~uint64_t{0} / 2);
      sequence->set_lengths(static_cast<int>(random_() % static_cast<uint64_t>(keys)), wild);
    }
    const grpc::Status said = Call(&v1::Worker::Stub::Reserve, request, &response);
    EXPECT_EQ(said.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(said.error_message(), HasSubstr("lengths"));
  }
  // None of the malformed requests is pending: a valid request gets a slot for each key.
  EXPECT_EQ(Reserve(1, 8 * Tries()).size(), 8 * Tries());
}

TEST_F(HostileWorkerTest, WritesAllOverItsArenaHurtItsOwnTenantAlone) {
  TestWorker neighbour({.socket_dir = agent_.socket_dir(),
                        .tenant = "hostile",
                        .secret = kHostileSecret,
                        .block_bytes = kHotBytes});
  ASSERT_EQ(neighbour.Put(kHot), kHot.count);
  const OnboardedBlocks leased = neighbour.Hold(kHot);
  ASSERT_EQ(leased.size(), kHot.count);
  int arena = -1;
  const auto reply = session_->Ask({.kind = wire::DescriptorKind::kArenaWrite}, &arena);
  ASSERT_TRUE(reply.has_value() && arena >= 0);
  auto* const bytes = static_cast<std::byte*>(
      mmap(nullptr, reply->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena, 0));
  ASSERT_NE(bytes, MAP_FAILED);
  close(arena);
  for (uint64_t page = 0; page < reply->bytes; page += 4096) {
    bytes[page + random_() % 4096] ^= static_cast<std::byte>(1 + random_() % 255);
  }
  std::vector<std::byte> copy(kHotBytes);
  const Piece piece(copy);
  for (size_t i = 0; i < leased.size(); ++i) {
    EXPECT_EQ(leased.CopyOut(i, std::span(&piece, 1)).code(), absl::StatusCode::kDataLoss) << i;
  }
  munmap(bytes, reply->bytes);
  altered_ = kHot.count;
  EXPECT_TRUE(Await(kPatience, [&] { return agent_.Status().altered_blocks() == altered_; }));
}

}  // namespace
}  // namespace kvtier::testing
