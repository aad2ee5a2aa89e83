// FakeNode is the start of every client test: a directory for the sockets, a FakeAgent in it (not
// started) and one space of small blocks.
#ifndef KVTIER_TESTS_TESTING_FAKE_NODE_H_
#define KVTIER_TESTS_TESTING_FAKE_NODE_H_

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/client.h"
#include "core/block_key.h"
#include "core/space.h"
#include "tests/testing/fake_agent.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {

class FakeNode {
 public:
  static constexpr uint64_t kBlockBytes = 5000;  // An odd length: no multiple of a page.

  // Makes the node, and sets `agent.socket_dir`.
  explicit FakeNode(FakeAgentOptions agent = {});
  ~FakeNode();

  FakeAgent& agent() { return *agent_; }
  const std::string& socket_dir() const { return socket_dir_; }
  const SpaceSpec& space() const { return space_; }
  // Returns impatient options: timeouts of 300 ms, and a breaker that opens after 2 failures and
  // probes after 20 to 40 ms.
  ClientOptions client_options() const;
  std::unique_ptr<Client> OpenClient() const;

 private:
  std::string socket_dir_;
  SpaceSpec space_;
  std::unique_ptr<FakeAgent> agent_;
};

// Returns `count` keys, of numbers `first`, first + 1, ...
std::vector<EngineKey> TestKeys(uint64_t first, size_t count);

// Reserves, fills with FillBlock() and commits; returns how many were committed.
size_t PutBlocks(Client* client, SpaceHandle space, std::span<const EngineKey> keys);

// Returns how many blocks of `keys` can be onboarded now and hold what PutBlocks() wrote; aborts on
// a wrong byte.
size_t GetBlocks(Client* client, SpaceHandle space, std::span<const EngineKey> keys);

// Waits until another thread has made `condition` true; returns false after 10 s.
template <typename Condition>
bool Eventually(Condition condition,
                std::source_location caller = std::source_location::current()) {
  return Await(absl::Seconds(10), std::move(condition), caller);
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_NODE_H_
