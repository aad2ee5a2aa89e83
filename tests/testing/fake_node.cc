#include "tests/testing/fake_node.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "tests/testing/blocks.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kTenantSeed = 7;

}  // namespace

FakeNode::FakeNode(FakeAgentOptions agent) : space_(TestSpace(kBlockBytes)) {
  // The name is short, because a socket's path has at most 107 bytes.
  char pattern[] = "/tmp/kvtier-test-XXXXXX";
  KVT_CHECK(mkdtemp(pattern) != nullptr);
  socket_dir_ = pattern;
  agent.socket_dir = socket_dir_;
  agent_ = std::make_unique<FakeAgent>(std::move(agent));
}

FakeNode::~FakeNode() {
  agent_.reset();
  std::error_code ignored;  // A directory left in /tmp fails no test.
  std::filesystem::remove_all(socket_dir_, ignored);
}

ClientOptions FakeNode::client_options() const {
  ClientOptions options;
  options.socket_dir = socket_dir_;
  options.default_timeout = absl::Milliseconds(300);
  options.connect_timeout = absl::Milliseconds(500);
  options.breaker = {.failures_to_open = 2,
                     .min_backoff = absl::Milliseconds(40),
                     .max_backoff = absl::Milliseconds(200),
                     .probe_timeout = absl::Milliseconds(200)};
  return options;
}

std::unique_ptr<Client> FakeNode::OpenClient() const {
  auto client = Client::Open(client_options());
  KVT_CHECK(client.ok());
  return *std::move(client);
}

std::vector<EngineKey> TestKeys(uint64_t first, size_t count) {
  std::vector<EngineKey> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(TestEngineKey(first + i));
  return keys;
}

size_t PutBlocks(Client* client, SpaceHandle space, std::span<const EngineKey> keys) {
  absl::StatusOr<ReservedBlocks> reserved = client->Reserve(space, keys);
  KVT_CHECK(reserved.ok());
  for (size_t i = 0; i < reserved->size(); ++i) {
    if (!reserved->slot(i).empty()) FillBlock(kTenantSeed, keys[i], reserved->slot(i));
  }
  return reserved->Commit();
}

size_t GetBlocks(Client* client, SpaceHandle space, std::span<const EngineKey> keys) {
  absl::StatusOr<OnboardedBlocks> hit = client->Onboard(space, keys);
  KVT_CHECK(hit.ok());
  for (size_t i = 0; i < hit->size(); ++i) {
    KVT_CHECK(HoldsBlock(kTenantSeed, keys[i], hit->bytes(i)));
  }
  return hit->empty() || hit->valid() ? hit->size() : 0;
}

}  // namespace kvtier::testing
