// AgentRig is one agent on simulated seams, in virtual time, with two or three tenants. The tests
// of flows start from it.
#ifndef KVTIER_TESTS_AGENT_AGENT_RIG_H_
#define KVTIER_TESTS_AGENT_AGENT_RIG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "core/check.h"
#include "core/eviction_policy.h"
#include "core/status_macros.h"
#include "tests/testing/blocks.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_manifest.h"
#include "tier_disk/cipher/secret_key.h"

namespace kvtier::testing {

inline constexpr uint64_t kRigBlockBytes = 4096;

class AgentRig {
 public:
  struct Shape {
    uint64_t slots = 16;  // Slots of each tenant in host memory.
    // Maximum number of slots of all tenants together to which host memory may grow; 0: it cannot
    // grow.
    uint64_t max_slots = 0;
    uint64_t (*free_memory)() = nullptr;
    bool third_tenant = false;
    uint64_t gpu_slots = 0;  // 0: no device.
    uint64_t gpu_max_slots = 0;
    bool second_gpu = false;         // A pool as large as the first, on NUMA node 1.
    MemoryBinder* binder = nullptr;  // Binder of the agent's memory; null: none.
    std::vector<std::string> gpu_tenants{};
    EvictionPolicies eviction{};
    uint64_t attention_bytes = 0;
    bool disk = true;
    bool second_disk = false;  // A disk as large as the first.
    bool sealed = false;       // The disks are encrypted.
    uint32_t segments = 64;    // Segments of a disk, of seven blocks each.
    DiskWriteOptions disk_writes{};
    uint64_t host_scrub_bytes_per_second = 0;
    HostMemory host_memory = HostMemory::kFixed;
    // Slots of each session's staging region; 0: workers write the arena.
    uint64_t staging_slots = 0;
    PeerTransport* transport = nullptr;
    CoordinatorLink* coordinator = nullptr;
    LessonsStore* lessons = nullptr;
    TenantStore* tenants = nullptr;
    TenantSettingsMap tenant_settings{};
  };
  AgentRig() : AgentRig(Shape()) {}
  explicit AgentRig(const Shape& shape)
      : executor(&time),
        media(shape.segments, 64 << 10, 1),
        manifest_media(1),
        disk(&executor, &media),
        manifest(&executor, &manifest_media),
        second_media(shape.segments, 64 << 10, 2),
        second_manifest_media(2),
        second(&executor, &second_media),
        second_manifest(&executor, &second_manifest_media),
        device(&executor, {.numa_node = 0}),
        second_device(&executor, {.ordinal = 1, .numa_node = 1}) {
    std::vector<TenantTable::Entry> tenants = {{.name = "default"},
                                               {.name = "acme", .secret = "sixteen bytes or more"}};
    if (shape.third_tenant) tenants.push_back({.name = "third", .secret = "sixteen more bytes"});
    const uint64_t slots_per_slab = 4;
    Agent::Options options{.node = *NodeId::FromString("rig"),
                           .epoch = {7},
                           .address = "rig:7400",
                           .tenants = *TenantTable::Create(tenants),
                           .tenant_settings = shape.tenant_settings,
                           .host_bytes = tenants.size() * shape.slots * kRigBlockBytes,
                           .host_max_bytes = shape.max_slots * kRigBlockBytes,
                           .slab_bytes = slots_per_slab * kRigBlockBytes,
                           .host_memory = shape.host_memory,
                           .staging_bytes = shape.staging_slots * kRigBlockBytes,
                           .eviction = shape.eviction,
                           .attention_bytes = shape.attention_bytes,
                           .disk_writes = shape.disk_writes,
                           .host_scrub_bytes_per_second = shape.host_scrub_bytes_per_second,
                           .gpu_bytes = shape.gpu_slots * kRigBlockBytes,
                           .gpu_max_bytes = shape.gpu_max_slots * kRigBlockBytes,
                           .gpu_block_bytes = kRigBlockBytes,
                           .gpu_tenants = shape.gpu_tenants};
    std::vector<DiskSeam> disk_seams;
    if (shape.disk) {
      disk_seams.push_back(
          {.id = {{1}}, .disk = &disk, .manifest = &manifest, .keys = MakeKeys(shape)});
    }
    if (shape.second_disk) {
      disk_seams.push_back(
          {.id = {{2}}, .disk = &second, .manifest = &second_manifest, .keys = MakeKeys(shape)});
    }
    auto created = Agent::Create(std::move(options), {.executor = &executor,
                                                      .byte_threads = &byte_threads,
                                                      .disks = std::move(disk_seams),
                                                      .devices = DevicesOf(shape),
                                                      .binder = shape.binder,
                                                      .transport = shape.transport,
                                                      .coordinator = shape.coordinator,
                                                      .lessons = shape.lessons,
                                                      .tenants = shape.tenants,
                                                      .free_memory = shape.free_memory});
    KVT_CHECK(created.ok());
    agent = *std::move(created);
    KVT_CHECK(Run(agent->Start()).ok());
    session = Open(0);
  }

  SessionId Open(size_t tenant) {
    return *OpenFor(
        SessionTenants::Own(agent->options().tenants.OfDomain(static_cast<DomainId>(tenant))));
  }
  // Opens a session. Errors: as WorkerSessions::Open().
  absl::StatusOr<SessionId> OpenFor(const SessionTenants& of) {
    const SessionToken token{static_cast<uint8_t>(++opened_), static_cast<uint8_t>(opened_ >> 8)};
    KVT_ASSIGN_OR_RETURN(const SessionId id, agent->sessions().Open(of, token));
    KVT_CHECK(agent->sessions().table().AddSpace(id, TestSpace(kRigBlockBytes)).ok());
    if (agent->sessions().staging().enabled()) {
      const auto region =
          agent->sessions().staging().RegionOf(id, agent->sessions().table().PayerOf(id));
      if (region.ok()) regions_[id] = (*region)->bytes();
    }
    return id;
  }

  // Starts a task in the agent's scope; the result has its value once the task has ended.
  template <typename T>
  std::shared_ptr<std::optional<T>> Spawn(Task<T> task) {
    auto value = std::make_shared<std::optional<T>>();
    agent->scope()->Spawn(Keep(std::move(task), value));
    return value;
  }
  // Steps until the task has ended. REQUIRES: it ends.
  template <typename T>
  T Run(Task<T> task) {
    const auto value = Spawn(std::move(task));
    while (!value->has_value()) KVT_CHECK(time.Step());
    return *std::move(*value);
  }
  void Pass(absl::Duration span) { time.RunUntil(time.Now() + span); }
  // Drop the blocks that nobody holds from host memory, or from the GPU pools; return how many.
  uint64_t EvictHost() { return Run(agent->evictor().EvictAll(&executor)); }
  uint64_t EvictGpus() { return Run(agent->gpus().EvictAll()); }

  static std::vector<EngineKey> Keys(uint64_t first, size_t count) {
    std::vector<EngineKey> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back(TestEngineKey(first + i));
    return keys;
  }
  BlockRun NameRun(SessionId of, uint64_t first, size_t count,
                   std::optional<EngineKey> parent = std::nullopt) {
    return *agent->sessions().table().NameRun(of, 1, parent, Keys(first, count));
  }
  std::span<std::byte> Host(SessionId of, uint64_t offset) {
    const DomainId domain = NameRun(of, 0, 1).domain;
    return agent->host().arena(domain).bytes().subspan(offset, kRigBlockBytes);
  }
  // Returns the memory in which the session writes the block that it reserved at `offset`.
  // REQUIRES: the session is open.
  std::span<std::byte> Write(SessionId of, uint64_t offset) {
    if (!agent->sessions().staging().enabled()) return Host(of, offset);
    return regions_.at(of).subspan(offset, kRigBlockBytes);
  }
  static uint64_t Seed(DomainId domain) { return static_cast<uint64_t>(domain) + 1; }

  // Reserves, writes and commits blocks, without a wait for slots; returns how many were committed.
  size_t Put(SessionId of, uint64_t first, size_t count,
             std::optional<EngineKey> parent = std::nullopt) {
    return Commit(of, Reserve(of, first, count, parent));
  }
  // Reserves slots for as many of the blocks as there is room for now, fills the slots with the
  // blocks' bytes, and returns the reservations.
  std::vector<ReservationId> Reserve(SessionId of, uint64_t first, size_t count,
                                     std::optional<EngineKey> parent = std::nullopt) {
    const BlockRun run = NameRun(of, first, count, parent);
    return Fill(of, first, *agent->flows().putter.Reserve(run, Tier::kHost));
  }
  std::vector<ReservationId> Fill(SessionId of, uint64_t first, const Reserved& reserved) {
    std::vector<ReservationId> ids;
    for (size_t i = 0; i < reserved.blocks.size(); ++i) {
      if (reserved.blocks[i].state != ReservedBlock::State::kReserved) continue;
      FillBlock(Seed(agent->sessions().table().DomainOf(of)), TestEngineKey(first + i),
                Write(of, reserved.blocks[i].offset));
      ids.push_back(reserved.blocks[i].id);
    }
    return ids;
  }
  size_t Commit(SessionId of, std::vector<ReservationId> ids) {
    return Run(agent->flows().putter.Commit(of, std::move(ids)));
  }
  // Puts a chain, as many blocks at a time as get slots, and waits until they are on disk; returns
  // how many were put.
  size_t PutOnDisk(SessionId of, uint64_t first, size_t count) {
    size_t put = 0;
    while (put < count) {
      std::optional<EngineKey> parent;
      if (put > 0) parent = TestEngineKey(first + put - 1);
      const size_t piece = Put(of, first + put, count - put, parent);
      while (agent->flows().offloader->pending() > 0) KVT_CHECK(time.Step());
      if (piece == 0) break;
      put += piece;
    }
    return put;
  }

  Task<absl::StatusOr<Onboarded>> Onboard(SessionId of, uint64_t first, size_t count,
                                          absl::Duration timeout, Tier target = Tier::kHost) {
    OnboardRequest request{
        .run = NameRun(of, first, count), .target = target, .deadline = executor.Now() + timeout};
    return agent->flows().onboarder.Onboard(std::move(request));
  }
  // Onboards blocks and checks each hit byte for byte; returns the number of hits.
  size_t Hits(SessionId of, uint64_t first, size_t count,
              absl::Duration timeout = absl::Milliseconds(100)) {
    const Onboarded onboarded = *Run(Onboard(of, first, count, timeout));
    const DomainId domain = NameRun(of, first, 1).domain;
    std::vector<LeaseId> leases;
    for (size_t i = 0; i < onboarded.blocks.size(); ++i) {
      KVT_CHECK(
          HoldsBlock(Seed(domain), TestEngineKey(first + i), Host(of, onboarded.blocks[i].offset)));
      leases.push_back(onboarded.blocks[i].lease);
    }
    agent->sessions().leases().Release(of, leases);
    return onboarded.blocks.size();
  }

  SimTime time;
  SimExecutor executor;
  InlineByteThreads byte_threads;
  SimDiskMedia media;
  SimManifestMedia manifest_media;
  SimDisk disk;
  SimManifest manifest;
  SimDiskMedia second_media;
  SimManifestMedia second_manifest_media;
  SimDisk second;
  SimManifest second_manifest;
  FaultyDevice device;
  FaultyDevice second_device;
  std::vector<std::unique_ptr<TenantKeys>> disk_keys;
  std::unique_ptr<Agent> agent;
  SessionId session{};

 private:
  template <typename T>
  static Task<void> Keep(Task<T> task, std::shared_ptr<std::optional<T>> value) {
    T result = co_await task;
    value->emplace(std::move(result));
  }
  std::vector<Device*> DevicesOf(const Shape& shape) {
    if (shape.gpu_slots == 0) return {};
    return shape.second_gpu ? std::vector<Device*>{&device, &second_device}
                            : std::vector<Device*>{&device};
  }
  // Makes and returns the keys of one more disk; null: the disks are not encrypted.
  TenantKeys* MakeKeys(const Shape& shape) {
    if (!shape.sealed) return nullptr;
    static const auto secret = std::make_shared<const MasterSecret>(
        MasterSecret{.current = KeyMaterial(std::vector<uint8_t>(32, 1))});
    DiskIdentity identity;
    identity.disk.bytes.fill(static_cast<uint8_t>(disk_keys.size() + 1));
    identity.incarnation.bytes.fill(1);
    OpeningId opening;
    FillRandom(opening.bytes);
    disk_keys.push_back(std::make_unique<TenantKeys>(secret, identity, opening));
    return disk_keys.back().get();
  }
  uint64_t opened_ = 0;
  // Staging regions of the sessions that have one.
  std::map<SessionId, std::span<std::byte>> regions_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_AGENT_AGENT_RIG_H_
