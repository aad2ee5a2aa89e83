// A worker that forks, as engines do:
//   kvtier-forking-worker SOCKET_DIR calls   the child uses and destroys all that it inherited,
//                                            then ends; the parent goes on
//   kvtier-forking-worker SOCKET_DIR busy    the same many times, while threads of the parent are
//                                            inside the client, whose locks a fork copies
//   kvtier-forking-worker SOCKET_DIR orphan  the child lives on and holds blocks 100 to 103
//                                            and reservations of 200 to 207; says "holds PID"
// Prints "ok" and ends with 0, or says what was not as it should be. A child that hangs is
// killed by its alarm.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/testing/test_worker.h"

// Turns LeakSanitizer's search off: a child never frees what belongs to its parent.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT: its name is given.

namespace kvtier::testing {
namespace {

constexpr unsigned kChildSeconds = 20;  // Timeout of a child, which needs milliseconds.
constexpr Blocks kPut = {.first = 100, .count = 4};
constexpr Blocks kNew = {.first = 200, .count = 8};

void Expect(bool so, const char* what) {
  if (so) return;
  std::printf("%s: not so: %s\n", getpid() == getsid(0) ? "parent" : "child", what);
  std::fflush(stdout);
  _exit(1);
}

// EngineHoldings is all that an engine holds when it forks.
struct EngineHoldings {
  explicit EngineHoldings(const std::string& socket_dir)
      : worker(std::make_unique<TestWorker>(TestWorkerOptions{.socket_dir = socket_dir})),
        socket_dir(socket_dir) {}
  void Take() {
    hit = worker->Hold(kPut);
    Expect(hit.size() == kPut.count, "the parent holds its blocks");
    reserved = *worker->client().Reserve(worker->space(), worker->KeysOf(kNew));
    Expect(reserved.reserved() == kNew.count, "the parent has its slots");
    for (size_t i = 0; i < kNew.count; ++i) worker->Fill(kNew.first + i, reserved.slot(i));
  }

  std::unique_ptr<TestWorker> worker;
  std::string socket_dir;
  OnboardedBlocks hit;
  ReservedBlocks reserved;
};

void ExpectMisses(Client* client, const EngineHoldings& held) {
  const std::vector<EngineKey> keys = held.worker->KeysOf(kPut);
  const absl::StatusOr<SpaceHandle> space = client->RegisterSpace(held.worker->spec());
  Expect(space.ok(), "a space is registered in the child");
  Expect(client->Match(*space, keys)->blocks == 0, "match misses in the child");
  Expect(client->Onboard(*space, keys)->empty(), "onboard misses in the child");
  Expect(client->Reserve(*space, keys)->reserved() == 0, "reserve misses in the child");
  Expect(*client->Prefetch(*space, keys) == 0, "prefetch misses in the child");
  Expect(client->TakeSlots(*space, 1)->size() == 0, "no slots are granted in the child");
  bool told = false;
  Expect(client->SubmitMatch(*space, keys, {}, [&](MatchedPrefix) { told = true; }).ok() && told,
         "a submitted call ends in the child");
  Expect(!client->Ping(absl::Seconds(1)).ok(), "ping says no in the child");
  Expect(!client->connected() && !client->Stats().connected, "the child is not connected");
  Expect(client->Stats().last_error.find("forked") != std::string::npos, "the child says why");
  client->EndStep(client->BeginStep());
  Expect(client->gpu_memory() == nullptr && client->host_memory().write == nullptr,
         "the child has none of the node's memory");
}

[[noreturn]] void BeChild(EngineHoldings* held) {
  alarm(kChildSeconds);
  Client* const client = &held->worker->client();
  ExpectMisses(client, *held);
  Expect(!held->hit.empty() && !held->hit.valid(), "what the parent leased is not the child's");
  for (const std::byte byte : held->hit.bytes(0)) {
    Expect(byte == std::byte{0}, "the child reads zeros where the parent has the node's memory");
  }
  std::memset(held->reserved.slot(0).data(), 0xff, held->reserved.slot(0).size());
  held->reserved.GiveBack(1);
  Expect(held->reserved.Commit() == 0, "a commit of the child's publishes nothing");
  {
    const auto opened = Client::Open({.socket_dir = held->socket_dir});
    Expect(opened.ok(), "a client is opened in the child");
    ExpectMisses(opened->get(), *held);
  }
  held->hit.Release();
  held->reserved = {};
  held->worker.reset();
  std::exit(0);  // Ends the child like a program: static objects are destroyed.
}

// Forks a child that runs BeChild(), and waits until it has ended well.
void ForkOnce(EngineHoldings* held) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) BeChild(held);
  int status = 0;
  Expect(waitpid(child, &status, 0) == child, "the child is waited for");
  Expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended well");
}

// Expects that the parent has all that it had: the children changed nothing.
void ExpectUntouched(EngineHoldings* held) {
  Expect(held->hit.valid() && held->worker->Proves(held->hit, kPut.first),
         "the parent's lease stands");
  Expect(held->reserved.Commit() == kNew.count, "the parent's slots are committed");
  Expect(held->worker->Get(kPut).size() == kPut.count, "the parent still hits");
  Expect(held->worker->Get(kNew).size() == kNew.count, "what it committed is as it wrote it");
  const ClientStats stats = held->worker->client().Stats();
  Expect(stats.sessions == 1 && stats.calls_failed == 0 && stats.breaker == "closed",
         "the parent's session is the one that it had");
}

int RunCalls(EngineHoldings* held) {
  Expect(held->worker->Put(kPut) == kPut.count, "the parent puts");
  held->Take();
  for (int i = 0; i < 3; ++i) ForkOnce(held);
  ExpectUntouched(held);
  return 0;
}

int RunBusy(EngineHoldings* held) {
  Expect(held->worker->Put(kPut) == kPut.count, "the parent puts");
  held->Take();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) Expect(held->worker->Get(kPut).size() == kPut.count, "every call hits");
    });
  }
  for (int i = 0; i < 50; ++i) ForkOnce(held);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ExpectUntouched(held);
  return 0;
}

int RunOrphan(EngineHoldings* held) {
  held->Take();
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds * 3);
    for (;;) pause();
  }
  std::printf("holds %d\n", child);
  std::fflush(stdout);
  for (;;) pause();
}

}  // namespace
}  // namespace kvtier::testing

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string manner = argv[2];
  kvtier::testing::EngineHoldings held(argv[1]);
  int result = 2;
  if (manner == "calls") result = RunCalls(&held);
  if (manner == "busy") result = RunBusy(&held);
  if (manner == "orphan") result = RunOrphan(&held);
  if (result == 0) std::printf("ok\n");
  return result;
}
