#include "agent/flows/node_flows.h"

#include "agent/limits.h"

namespace kvtier {
namespace {

std::unique_ptr<DiskLoader> MakeDiskLoader(const NodeRooms& rooms, LoadTable* loads) {
  if (rooms.disks->set() == nullptr) return nullptr;
  return std::make_unique<DiskLoader>(DiskLoader::Parts{.scope = rooms.scope,
                                                        .index = rooms.index,
                                                        .evictor = rooms.evictor,
                                                        .disks = rooms.disks->set(),
                                                        .loads = loads,
                                                        .host = rooms.host,
                                                        .stats = rooms.stats});
}

std::unique_ptr<Offloader> MakeOffloader(const NodeRooms& rooms, HostProver* prover) {
  if (rooms.disks->set() == nullptr) return nullptr;
  return std::make_unique<Offloader>(Offloader::Parts{.executor = rooms.executor,
                                                      .byte_threads = rooms.byte_threads,
                                                      .scope = rooms.scope,
                                                      .waits = rooms.waits,
                                                      .tenants = rooms.tenants,
                                                      .changes = rooms.changes,
                                                      .index = rooms.index,
                                                      .host = rooms.host,
                                                      .disks = rooms.disks->set(),
                                                      .admission = rooms.disks->admission(),
                                                      .promises = rooms.disks->promises(),
                                                      .prover = prover,
                                                      .stats = &rooms.stats->offload});
}

}  // namespace

NodeFlows::NodeFlows(const Options& options, const NodeRooms& rooms)
    : kept_prefixes({.index = rooms.index,
                     .host = rooms.host,
                     .shares = rooms.shares,
                     .changes = rooms.changes}),
      host_loads(rooms.executor, rooms.index),
      host_prover({.byte_threads = rooms.byte_threads,
                   .scope = rooms.scope,
                   .index = rooms.index,
                   .stats = &rooms.stats->host}),
      host_scrub({.executor = rooms.executor,
                  .waits = rooms.waits,
                  .index = rooms.index,
                  .prover = &host_prover},
                 options.host_scrub_bytes_per_second),
      fetcher({.executor = rooms.executor,
               .byte_threads = rooms.byte_threads,
               .scope = rooms.scope,
               .waits = rooms.waits,
               .index = rooms.index,
               .evictor = rooms.evictor,
               .loads = &host_loads,
               .stats = rooms.stats,
               .tenants = rooms.tenants,
               .reporter = rooms.reporter,
               .transport = rooms.transport,
               .locate_grace = options.locate_grace},
              options.self),
      matcher({.executor = rooms.executor,
               .turns = rooms.turns,
               .index = rooms.index,
               .fetcher = &fetcher}),
      disk_loader(MakeDiskLoader(rooms, &host_loads)),
      offloader(MakeOffloader(rooms, &host_prover)),
      onboarder({.executor = rooms.executor,
                 .turns = rooms.turns,
                 .waits = rooms.waits,
                 .index = rooms.index,
                 .sessions = &rooms.sessions->table(),
                 .leases = &rooms.sessions->leases(),
                 .stats = rooms.stats,
                 .disk = disk_loader.get(),
                 .offloader = offloader.get(),
                 .gpus = rooms.gpus,
                 .fetcher = &fetcher,
                 .host_loads = &host_loads,
                 .evictor = rooms.evictor,
                 .scope = rooms.scope}),
      tickets({.executor = rooms.executor, .onboarder = &onboarder, .host = rooms.host}),
      prefix_keeper({.executor = rooms.executor,
                     .turns = rooms.turns,
                     .waits = rooms.waits,
                     .onboarder = &onboarder,
                     .kept = &kept_prefixes}),
      putter({.executor = rooms.executor,
              .turns = rooms.turns,
              .byte_threads = rooms.byte_threads,
              .scope = rooms.scope,
              .waits = rooms.waits,
              .index = rooms.index,
              .evictor = rooms.evictor,
              .gpus = rooms.gpus,
              .offloader = offloader.get(),
              .promises = rooms.disks->promises(),
              .sessions = &rooms.sessions->table(),
              .staging = &rooms.sessions->staging(),
              .reservations = &rooms.sessions->reservations(),
              .stats = rooms.stats}),
      swapper({.executor = rooms.executor,
               .turns = rooms.turns,
               .byte_threads = rooms.byte_threads,
               .scope = rooms.scope,
               .waits = rooms.waits,
               .host = rooms.host,
               .shares = rooms.shares,
               .evictor = rooms.evictor,
               .gpus = rooms.gpus,
               .sessions = &rooms.sessions->table(),
               .swapped = &rooms.sessions->swapped(),
               .stats = &rooms.stats->host}),
      peer_server({.executor = rooms.executor,
                   .scope = rooms.scope,
                   .waits = rooms.waits,
                   .tenants = rooms.tenants,
                   .index = rooms.index,
                   .disks = rooms.disks->set(),
                   .prover = &host_prover,
                   .stats = rooms.stats},
                  kMaxPeerReadBytes),
      tenant_eraser({.executor = rooms.executor,
                     .scope = rooms.scope,
                     .waits = rooms.waits,
                     .tenants = rooms.tenants,
                     .index = rooms.index,
                     .evictor = rooms.evictor,
                     .kept = &kept_prefixes,
                     .gpus = rooms.gpus,
                     .offloader = offloader.get(),
                     .disks = rooms.disks->set(),
                     .sealed = rooms.disks->sealed()}),
      block_deleter({.executor = rooms.executor,
                     .turns = rooms.turns,
                     .waits = rooms.waits,
                     .index = rooms.index,
                     .evictor = rooms.evictor,
                     .kept = &kept_prefixes,
                     .gpus = rooms.gpus,
                     .disks = rooms.disks->set()}) {}

bool NodeFlows::Sweep(absl::Time now) {
  kept_prefixes.Sweep(now);
  const bool more = tickets.Sweep();
  if (disk_loader != nullptr) disk_loader->Pump();
  if (offloader != nullptr) offloader->Pump();
  return more;
}

void NodeFlows::Audit() const {
  tickets.Audit();
  kept_prefixes.Audit();
  if (offloader != nullptr) offloader->Audit();
}

}  // namespace kvtier
