#include "tests/testing/test_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "tests/testing/blocks.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {
namespace {

std::unique_ptr<Client> OpenClient(const TestWorkerOptions& options) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Open({.socket_dir = options.socket_dir,
                    .tenant = options.tenant,
                    .tenant_secret = options.secret,
                    .group = options.group,
                    .default_timeout = Patience(options.timeout),
                    .connect_timeout = Patience(absl::Seconds(1)),
                    .gpu_device = options.gpu_device});
  KVT_CHECK(client.ok());
  return *std::move(client);
}

SpaceHandle Register(Client* client, const SpaceSpec& spec) {
  const absl::StatusOr<SpaceHandle> space = client->RegisterSpace(spec);
  KVT_CHECK(space.ok());
  return *space;
}

}  // namespace

TestWorker::TestWorker(const TestWorkerOptions& options)
    : spec_(options.any_length ? AnyLengthSpace(options.block_bytes)
                               : TestSpace(options.block_bytes)),
      tenant_seed_(options.tenant_seed),
      namer_(TenantKey::FromSecret(options.secret), spec_.Digest()),
      client_(OpenClient(options)),
      space_(Register(client_.get(), spec_)) {}

EngineKey TestWorker::TestKey(uint64_t number) { return TestEngineKey(number); }

std::vector<EngineKey> TestWorker::KeysOf(Blocks blocks) const {
  std::vector<EngineKey> keys;
  keys.reserve(blocks.count);
  for (size_t i = 0; i < blocks.count; ++i) keys.push_back(TestKey(blocks.first + i));
  return keys;
}

void TestWorker::Fill(uint64_t number, std::span<std::byte> slot) const {
  FillBlock(tenant_seed_, TestKey(number), slot);
}

uint64_t TestWorker::LengthOf(uint64_t number) const {
  constexpr uint64_t kPrime = 12'347;
  return spec_.any_length ? 1 + number * kPrime % spec_.block_bytes : spec_.block_bytes;
}

size_t TestWorker::Put(Blocks blocks, const ReserveOptions& options) {
  ReserveOptions reserve = options;
  size_t committed = 0;
  while (blocks.count > 0) {
    const size_t count = std::min(blocks.count, Client::kMaxKeys);
    std::vector<uint64_t> lengths;
    for (size_t i = 0; spec_.any_length && i < count; ++i) {
      lengths.push_back(LengthOf(blocks.first + i));
    }
    reserve.lengths = lengths;
    absl::StatusOr<ReservedBlocks> reserved =
        client_->Reserve(space_, KeysOf({blocks.first, count}), reserve);
    EXPECT_TRUE(reserved.ok()) << reserved.status();
    if (!reserved.ok()) break;
    for (size_t i = 0; i < reserved->size(); ++i) {
      if (!reserved->slot(i).empty()) Fill(blocks.first + i, reserved->slot(i));
    }
    given_ += reserved->reserved();
    committed += reserved->Commit();
    reserve.parent = TestKey(blocks.first + count - 1);
    blocks = {blocks.first + count, blocks.count - count};
  }
  return committed;
}

OnboardedBlocks TestWorker::Hold(Blocks blocks, const OnboardOptions& options) {
  absl::StatusOr<OnboardedBlocks> onboarded = client_->Onboard(space_, KeysOf(blocks), options);
  EXPECT_TRUE(onboarded.ok()) << onboarded.status();
  if (!onboarded.ok()) return {};
  const bool proven = Proves(*onboarded, blocks.first);
  // A hit that is not valid any more is a miss: the worker recomputes its blocks.
  if (!onboarded->empty() && !onboarded->valid()) return {};
  EXPECT_TRUE(proven) << "WRONG BYTES in blocks " << blocks.first << " to "
                      << blocks.first + onboarded->size();
  verified_ += onboarded->size();
  return *std::move(onboarded);
}

bool TestWorker::Proves(const OnboardedBlocks& onboarded, uint64_t first) const {
  for (size_t i = 0; i < onboarded.size(); ++i) {
    const std::span<const std::byte> bytes = onboarded.bytes(i);
    if (bytes.size() != LengthOf(first + i)) return false;
    if (!HoldsBlock(tenant_seed_, TestKey(first + i), bytes)) return false;
  }
  return true;
}

std::vector<BlockSource> TestWorker::Get(Blocks blocks, const OnboardOptions& options) {
  const OnboardedBlocks onboarded = Hold(blocks, options);
  std::vector<BlockSource> sources;
  sources.reserve(onboarded.size());
  for (size_t i = 0; i < onboarded.size(); ++i) sources.push_back(onboarded.source(i));
  return sources;
}

bool TestWorker::AwaitConnected() {
  return Await(absl::Seconds(10),
               [&] { return client_->connected() && client_->Stats().breaker == "closed"; });
}

}  // namespace kvtier::testing
