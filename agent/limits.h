// This file has every limit of the agent (law 6). A table or queue that is full answers
// kResourceExhausted, or a miss, and counts it; no limit grows.
#ifndef KVTIER_AGENT_LIMITS_H_
#define KVTIER_AGENT_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace kvtier {

inline constexpr size_t kMaxTenants = 256;
// Isolation domains that an agent gives in its life: each tenant that comes gets a new one, even
// one that was dropped and comes again. Beyond the limit the agent must be restarted.
inline constexpr size_t kMaxDomains = 4 * kMaxTenants;
// Blocks on disk that are looked at in one turn of the executor, when a tenant comes or goes: some
// 100 us.
inline constexpr size_t kDiskKeysPerTurn = 1024;
// Shortest interval between two looks at the directory of the tenants' secrets.
inline constexpr absl::Duration kTenantsInterval = absl::Seconds(10);
inline constexpr size_t kMaxSessions = 1024;
inline constexpr size_t kMaxSpacesPerSession = 16;
// Spaces that operators can see, including spaces that no session uses any more.
inline constexpr size_t kMaxSpacesDescribed = 256;
inline constexpr size_t kMaxLeasesPerSession = 65536;
inline constexpr size_t kMaxLeases = 262144;  // Maximum for all sessions together.
// Bytes of a share group's host memory that one member may pin, by leases, tickets and requests in
// progress: one in kMemberPinPart of what the other members leave. All members together leave one
// in kGroupLeftPart bytes of it.
inline constexpr uint64_t kMemberPinPart = 2;
inline constexpr uint64_t kGroupLeftPart = 4;
// Tickets of one tenant, and blocks that they pin. All tickets together may pin one in kTicketPart
// bytes of a domain's host memory; a member of a share group may pin one in kMemberTicketPart bytes
// of what others' tickets leave of that.
inline constexpr size_t kMaxTicketsPerDomain = 1024;
inline constexpr size_t kMaxTicketBlocks = 65536;
inline constexpr uint64_t kTicketPart = 2;
inline constexpr uint64_t kMemberTicketPart = 2;
// Ranks that redeem one ticket, and the longest that it waits for them.
inline constexpr uint32_t kMaxRedemptions = 64;
inline constexpr absl::Duration kMaxTicketLifetime = absl::Seconds(60);
// Prefixes that are kept, and blocks of them: a block counts once for each prefix that it is of.
// The part of a domain's host memory that they take is one in so many bytes.
inline constexpr size_t kMaxKeptPrefixesPerDomain = 256;
// Maximum for all domains together, like the next.
inline constexpr size_t kMaxKeptPrefixes = 4096;
inline constexpr size_t kMaxKeptBlocksPerDomain = 32768;
inline constexpr size_t kMaxKeptBlocks = 131072;
inline constexpr uint64_t kKeptPart = 4;
inline constexpr absl::Duration kMinKeptTtl = absl::Seconds(1);
inline constexpr absl::Duration kMaxKeptTtl = absl::Hours(1);
// Kept blocks, leases, reservations and blocks of tickets, of each so many, that one turn of the
// executor lets go of because their time is over: some milliseconds. The next turn goes on.
inline constexpr size_t kEndedPerSweep = 2048;
// Limits of a drop of a prefix with all its descendants: blocks that it remembers on the way down
// (beyond them it begins again from the root), blocks that stay because they are held, and its
// duration. Beyond the last two it ends, and says so. One drop runs at a time for each domain.
inline constexpr size_t kMaxDropDepth = 4096;
inline constexpr size_t kMaxDropHeld = 4096;
inline constexpr absl::Duration kDropTimeout = absl::Seconds(30);
// Evicted blocks whose keys are remembered, so that a miss can say that its block was evicted: 3
// MiB.
inline constexpr size_t kMaxEvictedKeys = 65536;
// Blocks in host memory that workers said are damaged and that wait to be looked at.
inline constexpr size_t kMaxSuspects = 1024;
// Largest --staging_bytes: the size of one session's region.
inline constexpr uint64_t kMaxStagingBytes = uint64_t{64} << 30;
inline constexpr size_t kMaxReservationsPerSession = 16384;
// Maximum for all sessions together, late reservations included.
inline constexpr size_t kMaxReservations = 65536;
inline constexpr size_t kMaxSlotsPerSession = 65536;  // Slots of the GPU pool as KV memory.
// Sequences that are swapped out, of one session and of all sessions together, and blocks of all
// sessions together. They take at most one in kSwapPart bytes of a domain's guaranteed host memory.
inline constexpr size_t kMaxSwappedPerSession = 1024;
inline constexpr size_t kMaxSwappedSequences = 4096;
inline constexpr size_t kMaxSwappedBlocks = 65536;
inline constexpr uint64_t kSwapPart = 4;
// Blocks in one copy of a swap, which one pass verifies: 1 to 5 ms for blocks of 2 MiB.
inline constexpr size_t kSwapBlocksPerCopy = 16;
// Interval at which a swapped sequence that waits for slots looks for free ones.
inline constexpr absl::Duration kSlotLineInterval = absl::Milliseconds(5);

// Loads (disk to host) running, and waiting for their turn; of the second each domain has a
// guaranteed part.
inline constexpr size_t kMaxLoadsRunning = 64;
inline constexpr size_t kMaxLoadsQueued = 16384;
// Size of a domain's residency table at first and at most (64 KiB, 256 MiB), in buckets of 15
// blocks, and how many blocks a bucket has on average when a table of twice the size takes over.
// docs/design/residency.md says how often a lookup then answers "perhaps".
inline constexpr uint32_t kMinResidencyLog2Buckets = 9;
inline constexpr uint32_t kMaxResidencyLog2Buckets = 21;
inline constexpr uint32_t kResidencyLoad = 6;
// Buckets that move to a larger table in one turn of the executor: about 100 us.
inline constexpr size_t kBucketsTakenOverPerTurn = 512;
// Time after which a domain whose table could not grow, for lack of memory, tries again.
inline constexpr absl::Duration kResidencyRetryInterval = absl::Minutes(1);
// Directories of --disk_dir.
inline constexpr size_t kMaxDisks = 32;
// Longest time that the agent's start waits for several disks; a disk that takes longer joins
// later. For a single disk the start waits as long as it takes.
inline constexpr absl::Duration kDiskOpenTimeout = absl::Seconds(60);
// kMaxLoadsRunning, kMaxOffloadsRunning and kMaxPeerDiskReads do not count calls that a disk out of
// service holds up (DiskSet::stuck()), so that such a disk does not use them up for the others.
// Blocks that may be promised to the disks, including reserved ones; each domain has an equal part.
// Beyond it a put waits or is refused.
inline constexpr size_t kMaxOffloadQueued = 16384;
// Part of a domain's bytes that may be promised to the disks at most: one in this many.
inline constexpr uint64_t kPromisedPart = 2;
// Puts of one session that wait until the disks have caught up; more are refused at once.
inline constexpr size_t kMaxPutsWaitingPerSession = 16;
// Time for which the disks count as behind after a block was refused room.
inline constexpr absl::Duration kBehindShown = absl::Seconds(10);
inline constexpr size_t kMaxOffloadsRunning = 16;
// Time that a durable commit leaves the disks to confirm that their files are in place; an eighth
// of its timeout at most.
inline constexpr absl::Duration kConfirmTime = absl::Milliseconds(50);
// Fetches between nodes, of one stream each, that run at a time: those that this node serves; those
// that it has at one peer; and those that it has at all peers, twice as many, so that a peer that
// does not answer leaves room for others.
inline constexpr size_t kMaxPeerStreamsServed = 16;
inline constexpr size_t kMaxFetchesPerPeer = kMaxPeerStreamsServed;
inline constexpr size_t kMaxFetchesRunning = 2 * kMaxFetchesPerPeer;
// Requests that wait for a fetch from another node take places in FetchLine, one for so many
// blocks; each tenant is guaranteed some of the places (StreamShares). A request without a place is
// told that the node is busy.
inline constexpr size_t kMaxFetchPlaces = 512;
inline constexpr size_t kBlocksPerFetchPlace = 16;
// Interval at which requests that wait look whether a peer may begin fetches again.
inline constexpr absl::Duration kFetchLineInterval = absl::Milliseconds(10);
// The longest that one stream is served, whatever deadline the asking node sets: a node that does
// not read it holds a place, a pin and a buffer no longer.
inline constexpr absl::Duration kMaxPeerStreamTime = absl::Seconds(30);
// Disk reads for peers. Each has a buffer outside the arena for its block, until the block is sent.
inline constexpr size_t kMaxPeerDiskReads = 16;
inline constexpr size_t kMaxPeerReadBytes = size_t{64} << 20;
// Interval at which a read that waits for one of them looks for it.
inline constexpr absl::Duration kPeerReadInterval = absl::Milliseconds(2);
// Blocks of one stream.
inline constexpr size_t kMaxKeysPerFetch = 1024;
// Changes that wait to be reported to the coordinator; a snapshot replaces more of them.
inline constexpr size_t kMaxPendingDeltas = 262144;
inline constexpr size_t kMaxDeltasPerMessage = 8192;

// Duration of a lease, and the time for which its slot stays untouched after that: a reader checks
// the deadline after its copy, so it may read the clock late.
inline constexpr absl::Duration kLeaseDuration = absl::Seconds(10);
inline constexpr absl::Duration kLeaseGrace = absl::Seconds(1);
// A tenant whose late slots take one in this many of its bytes gets no more slots to write.
inline constexpr uint64_t kLatePart = 2;
// Time within which a reserved slot must be committed.
inline constexpr absl::Duration kReservationDuration = absl::Seconds(30);
// The longest a request waits, whatever it asks for.
inline constexpr absl::Duration kMaxRequestTimeout = absl::Seconds(60);
// The longest a commit waits for its checksums and, out of the GPU, its copies.
inline constexpr absl::Duration kCommitTimeout = absl::Seconds(10);
// Longest time of a resize of a GPU pool, which waits for the driver and, to shrink, for slots in
// use beyond the new size; and the longest time that the answer to the operator waits for its end.
inline constexpr absl::Duration kGpuResizeTimeout = absl::Seconds(60);
inline constexpr absl::Duration kGpuResizeWait = absl::Seconds(1);
// Interval at which pools that are not of the size of their tenants' shares are looked at.
inline constexpr absl::Duration kGpuDivideInterval = absl::Milliseconds(250);
// Maximum number of blocks that are evicted in one turn of the executor for a resize, an operator,
// or because a tenant is erased: some milliseconds.
inline constexpr size_t kEvictedPerTurn = 256;
// Interval at which the agent looks for host memory that should move, and for the blocks that a
// leaving slab waits for; and the number of slabs that move at a time.
inline constexpr absl::Duration kMemoryMoveInterval = absl::Milliseconds(50);
inline constexpr size_t kMaxSlabMoves = 8;
// Threads that take host memory at the start, one for each processor at most, and those that fill
// and empty slabs later.
inline constexpr size_t kMaxHostFillThreads = 64;
inline constexpr int kHostMemoryThreads = 2;
// Longest wait for a slab that is to leave. Leases and reservations of its slots end before that.
inline constexpr absl::Duration kSlabLeaveTimeout = absl::Seconds(45);
// The longest that the answer about a new tenant waits for its first slab, without which it can put
// nothing.
inline constexpr absl::Duration kNewTenantMemoryWait = absl::Seconds(2);
// Time for which no memory grows after the system had none left; and the bytes of the system's
// memory that an arriving slab must leave free for the agent and the node's other processes.
inline constexpr absl::Duration kNoMemoryRetryInterval = absl::Minutes(1);
inline constexpr uint64_t kFreeMemoryLeft = uint64_t{128} << 20;
// Time that host memory has to reach the size that an operator asked for, during which slabs that
// were held are tried again; and the longest time that the answer to the operator waits for the end
// of the resize.
inline constexpr absl::Duration kHostResizeTimeout = absl::Minutes(2);
inline constexpr absl::Duration kHostResizeWait = absl::Seconds(1);
// Unless --host_max_bytes says it, host memory that moves may grow to so many times --host_bytes.
inline constexpr uint64_t kHostGrowth = 2;
// The most times --host_bytes that --host_max_bytes may be: tenants' tables of slabs are that long.
inline constexpr uint64_t kMaxHostGrowth = 16;
// Interval at which the agent looks for memory that workers allocated by touching slabs that are
// not their tenant's.
inline constexpr absl::Duration kStrayInterval = absl::Milliseconds(250);
// Interval at which deadlines of leases and reservations are looked at.
inline constexpr absl::Duration kSweepInterval = absl::Milliseconds(100);

// Shortest interval between two writes of the lessons of the orders of eviction; and the longest
// lessons file that is read: an order takes 5 to 180 KB of it.
inline constexpr absl::Duration kLessonsInterval = absl::Minutes(1);
inline constexpr size_t kMaxLessonsBytes = size_t{64} << 20;

inline constexpr absl::Duration kHeartbeatInterval = absl::Seconds(1);
// Changes gather for this long before they are reported.
inline constexpr absl::Duration kReportDelay = absl::Milliseconds(10);
inline constexpr absl::Duration kReportTimeout = absl::Seconds(1);
// The longest wait for a coordinator's answer to a locate, which is only a hint.
inline constexpr absl::Duration kLocateTimeout = absl::Milliseconds(200);
// Shortest such wait, however fast the answers were so far: the default of --locate_grace, and its
// largest value.
inline constexpr absl::Duration kLocateGrace = absl::Milliseconds(50);
inline constexpr absl::Duration kMaxLocateGrace = absl::Seconds(10);
// Time for which a measurement of a peer counts. A peer that was slow is not asked meanwhile, so no
// new measurement would ever replace the old one.
inline constexpr absl::Duration kPeerEstimateLifetime = absl::Seconds(5);
// A peer that failed is asked after the other holders for this long, and by one fetch at a time. Of
// all that failed, one is tried again first in so much time, so that many that hang do not take the
// time of one request after the other.
inline constexpr absl::Duration kPeerAvoidance = absl::Seconds(2);
// Time for which a peer that was busy begins no fetch of the tenant.
inline constexpr absl::Duration kPeerBusyPause = absl::Milliseconds(10);
// Time without a byte from a peer after which another holder is asked: kPeerSilenceFactor times the
// predicted time of one block, and no less than kMinPeerSilence.
inline constexpr int kPeerSilenceFactor = 4;
inline constexpr absl::Duration kMinPeerSilence = absl::Milliseconds(50);
// A fetch that nobody waits for (prefetch) gets this long.
inline constexpr absl::Duration kPrefetchTimeout = absl::Seconds(10);

// Connections to the agent's doors, and calls in progress on one of them. A client has one
// connection and up to 256 calls that wait.
inline constexpr size_t kMaxWorkerConnections = 2 * kMaxSessions;
inline constexpr int kMaxCallsPerConnection = 320;
inline constexpr size_t kMaxAdminConnections = 64;
inline constexpr size_t kMaxRemoteConnections = 1024;
// Memory of calls in progress: so much each for gRPC, for the answer and for the flow, and for
// each byte of the request its parsed form, what is made of it and the answer to it.
inline constexpr size_t kCallBytes = size_t{16} << 10;
inline constexpr size_t kCallBytesPerRequestByte = 4;
// Memory that each key of an onboard in parts takes on top, in bytes: the block while it is waited
// for and while it is sent. An estimate, rounded up.
inline constexpr size_t kPartsBytesPerKey = 512;
inline constexpr size_t kMaxWorkerCallBytes = size_t{256} << 20;
// Part of kMaxWorkerCallBytes for calls of unknown sessions, which end at once, and the part that
// all tenants have together.
inline constexpr size_t kMaxUnknownSessionCallBytes = size_t{16} << 20;
inline constexpr size_t kMaxTenantCallBytes = kMaxWorkerCallBytes - kMaxUnknownSessionCallBytes;
// Maximum for each door with admin calls.
inline constexpr size_t kMaxAdminCallBytes = size_t{8} << 20;
// Age from which a call may be ended to make room for others. No call waits that long, so the
// caller of such a call does not read its answer.
inline constexpr absl::Duration kMaxCallDuration = absl::Seconds(90);
// Memory for incomplete requests that gRPC is told to keep to, at each door.
inline constexpr size_t kWorkerIntakeBytes = size_t{128} << 20;
inline constexpr size_t kRemoteIntakeBytes = size_t{16} << 20;
inline constexpr size_t kAdminIntakeBytes = size_t{8} << 20;

// Maximum of all memory except the arenas, the GPU pool, the driver's own memory and the index of
// blocks. The growth since the start is watched (core/memory_watch.h): beyond kMaxMemoryGrowth the
// agent hangs up on connections. The rest is the program itself, and what arrives between two
// looks. docs/OPERATING.md has the table.
inline constexpr size_t kMaxMemoryBesideArena = size_t{1} << 30;
inline constexpr size_t kMaxMemoryGrowth = size_t{864} << 20;
// Memory that the program itself takes at its start, beside arenas and disks.
inline constexpr size_t kMemoryAtStart = size_t{64} << 20;
// Threads of the agent: decisions, lessons, tenants, gpu-copies, sessions and three doors; during
// its start also those that take host memory and the one that waits for a signal; those of each
// disk (ring, flush, manifest); those of gRPC and RocksDB, measured and rounded up. Their
// names are in docs/ARCHITECTURE.md.
inline constexpr size_t kOwnThreads = 8;
inline constexpr size_t kThreadsPerDisk = 3;
inline constexpr size_t kLibraryThreads = 6;
inline constexpr size_t kLibraryThreadsPerCore = 2;
// Additional memory for each disk, for its manifest.
inline constexpr size_t kMaxMemoryPerDisk = size_t{32} << 20;
// Additional memory for each block in each tier.
inline constexpr size_t kMaxIndexBytesPerBlock = 1024;
// Memory that the tables take for each entry, measured and rounded up.
inline constexpr size_t kBytesPerLease = 256;
inline constexpr size_t kBytesPerReservation = 512;
inline constexpr size_t kBytesPerSession = 16384;
inline constexpr size_t kBytesPerKeptBlock = 48;
inline constexpr size_t kBytesPerSwappedBlock = 96;
inline constexpr size_t kBytesPerSwappedSequence = 256;
inline constexpr size_t kBytesPerMovingBlock = 320;      // Memory of a swap while it is copied.
inline constexpr size_t kBytesPerDescribedSpace = 4096;  // Six texts of 256 bytes at most.
inline constexpr size_t kBytesPerQueuedBlock = 512;
inline constexpr size_t kBytesPerSoughtBlock = 768;  // Key and four holders of a block.
inline constexpr size_t kBytesPerDelta = 64;
inline constexpr size_t kBytesPerPeerStream = size_t{4}
                                              << 20;  // Two chunks, as sent and as parsed.
static_assert(kMaxWorkerCallBytes + 2 * kMaxAdminCallBytes + kWorkerIntakeBytes +
                  kRemoteIntakeBytes + kAdminIntakeBytes + kMaxLeases * kBytesPerLease +
                  kMaxReservations * kBytesPerReservation + kMaxSessions * kBytesPerSession +
                  kMaxSpacesDescribed * kBytesPerDescribedSpace +
                  kMaxKeptBlocks * kBytesPerKeptBlock +
                  kMaxSwappedBlocks * (kBytesPerSwappedBlock + kBytesPerMovingBlock) +
                  kMaxSwappedSequences * kBytesPerSwappedSequence +
                  (kMaxLoadsQueued + kMaxOffloadQueued) * kBytesPerQueuedBlock +
                  kMaxFetchPlaces * kBlocksPerFetchPlace * kBytesPerSoughtBlock +
                  kMaxPendingDeltas * kBytesPerDelta + kMaxPeerReadBytes +
                  (kMaxFetchesRunning + kMaxPeerStreamsServed) * kBytesPerPeerStream <=
              kMaxMemoryGrowth);
static_assert(kMaxMemoryGrowth < kMaxMemoryBesideArena);

}  // namespace kvtier

#endif  // KVTIER_AGENT_LIMITS_H_
