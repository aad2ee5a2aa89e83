#include "tier_gpu/pool_ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <type_traits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/checksum.h"
#include "core/kill_point.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr uint64_t kLedgerMagic = 0x7265'6764'656c'766b;  // "kvledger".
constexpr uint32_t kLedgerVersion = 1;
constexpr size_t kHeaderBytes = 4096;
constexpr size_t kWorkerEntryBytes = 64;
constexpr size_t kSlotEntryBytes = 128;

absl::Status Errno(const std::string& path, const char* call) {
  return absl::UnavailableError(absl::StrCat(path, ": ", call, ": ", strerror(errno)));
}

template <size_t kBytes>
void SetText(std::array<char, kBytes>* field, const std::string& text) {
  KVT_CHECK(text.size() < kBytes);
  text.copy(field->data(), text.size());
}

// A store that a kill leaves behind all stores ahead of it.
template <typename T>
void StoreLast(T* word, T value) {
  std::atomic_ref<T>(*word).store(value, std::memory_order_release);
}

template <typename T>
T LoadFirst(T* word) {
  return std::atomic_ref<T>(*word).load(std::memory_order_acquire);
}

}  // namespace

struct PoolLedger::Header {
  uint64_t magic = kLedgerMagic;
  uint32_t version = kLedgerVersion;
  uint32_t workers = kMaxLedgerWorkers;
  uint64_t incarnation = 0;
  std::array<char, 64> boot{};
  std::array<char, kMaxTermBytes + 1> tenant{};
  std::array<char, kMaxTermBytes + 1> device{};
  uint64_t handle_bytes = 0;
  uint64_t max_handles = 0;
  uint64_t slot_bytes = 0;
  uint64_t pool_bytes = 0;
  uint64_t sum = 0;  // Of all before, which never changes.
  // What changes.
  uint64_t handles = 0;
  uint64_t slots = 0;
  uint64_t silent_sessions = 0;
  uint64_t agent_started = 0;
  uint64_t agent_pid = 0;
  uint64_t pid_namespace = 0;  // Where the numbers of processes were taken.

  uint64_t Sum() const {
    return SumPayload(std::as_bytes(std::span(this, 1)).first(offsetof(Header, sum))).lo;
  }
};

struct PoolLedger::WorkerEntry {
  uint64_t used = 0;
  uint64_t pid = 0;
  uint64_t started = 0;
  uint64_t pid_namespace = 0;
  uint64_t page_device = 0;
  uint64_t page_inode = 0;
  uint64_t idle = 0;  // 1: it was given no slot yet.
  uint64_t reserved = 0;
};

struct PoolLedger::SlotEntry {
  uint32_t state = 0;
  uint32_t has_parent = 0;
  uint64_t key_hi = 0;
  uint64_t key_lo = 0;
  uint64_t parent_hi = 0;
  uint64_t parent_lo = 0;
  std::array<uint8_t, 32> space{};
  uint64_t length = 0;
  uint64_t sum_hi = 0;
  uint64_t sum_lo = 0;
  uint64_t check = 0;  // Of all before it but `state`.
  std::array<uint64_t, 3> reserved{};
};

size_t PoolLedger::FileBytes(const PoolTerms& terms) {
  static_assert(sizeof(Header) == 432 && sizeof(Header) <= kHeaderBytes);
  static_assert(sizeof(WorkerEntry) == kWorkerEntryBytes && sizeof(SlotEntry) == kSlotEntryBytes);
  static_assert(std::is_trivially_copyable_v<Header> && std::is_trivially_copyable_v<SlotEntry>);
  const size_t slots = terms.shape.handle_bytes * terms.shape.max_handles / terms.slot_bytes;
  return kHeaderBytes + kMaxLedgerWorkers * kWorkerEntryBytes + slots * kSlotEntryBytes;
}

PoolLedger::Header PoolLedger::HeaderOf(const Place& place, uint64_t incarnation) {
  const PoolTerms& terms = place.terms;
  Header header{.incarnation = incarnation,
                .handle_bytes = terms.shape.handle_bytes,
                .max_handles = terms.shape.max_handles,
                .slot_bytes = terms.slot_bytes,
                .pool_bytes = terms.pool_bytes};
  SetText(&header.boot, place.scope.boot);
  SetText(&header.tenant, terms.tenant);
  SetText(&header.device, terms.device);
  header.sum = header.Sum();
  return header;
}

// nullptr: nothing.
const char* PoolLedger::WhatDiffers(const Header& found, const Header& wanted) {
  if (found.boot != wanted.boot) return "boot";
  if (found.tenant != wanted.tenant) return "tenant";
  if (found.device != wanted.device) return "device";
  if (found.slot_bytes != wanted.slot_bytes) return "slot size";
  if (found.pool_bytes != wanted.pool_bytes || found.handle_bytes != wanted.handle_bytes ||
      found.max_handles != wanted.max_handles) {
    return "pool size";
  }
  return nullptr;
}

PoolLedger::Header& PoolLedger::header() const { return *reinterpret_cast<Header*>(bytes_.data()); }

PoolLedger::WorkerEntry& PoolLedger::worker_entry(size_t place) const {
  KVT_CHECK(place < kMaxLedgerWorkers);
  return reinterpret_cast<WorkerEntry*>(bytes_.data() + kHeaderBytes)[place];
}

PoolLedger::SlotEntry& PoolLedger::slot_entry(size_t slot) const {
  KVT_CHECK(slot < slots());
  constexpr size_t kFirst = kHeaderBytes + kMaxLedgerWorkers * kWorkerEntryBytes;
  return reinterpret_cast<SlotEntry*>(bytes_.data() + kFirst)[slot];
}

absl::StatusOr<PageId> PageIdOf(int descriptor) {
  struct stat facts{};
  if (fstat(descriptor, &facts) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("signal page: descriptor ", descriptor, ": ", strerror(errno)));
  }
  return PageId{.device = facts.st_dev, .inode = facts.st_ino};
}

absl::StatusOr<std::unique_ptr<PoolLedger>> PoolLedger::Map(const Place& place, int fd) {
  const size_t bytes = FileBytes(place.terms);
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return Errno(place.path, "mmap");
  return absl::WrapUnique(new PoolLedger(place, {static_cast<std::byte*>(start), bytes}));
}

absl::StatusOr<std::unique_ptr<PoolLedger>> PoolLedger::Create(const Place& place) {
  // Under another name until it is whole; what was there is gone first, so that a kill
  // in between leaves no ledger of a pool that is no more.
  unlink(place.path.c_str());
  const std::string fresh = absl::StrCat(place.path, ".new");
  unlink(fresh.c_str());
  const int fd = open(fresh.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return Errno(fresh, "open");
  // A full file system kills who stores to a mapped file whose room was not taken before.
  errno = posix_fallocate(fd, 0, static_cast<off_t>(FileBytes(place.terms)));
  absl::StatusOr<std::unique_ptr<PoolLedger>> ledger =
      errno == 0 ? Map(place, fd) : Errno(fresh, "posix_fallocate");
  close(fd);
  if (ledger.ok()) {
    uint64_t incarnation = 0;
    KVT_CHECK(getrandom(&incarnation, sizeof(incarnation), 0) == sizeof(incarnation));
    incarnation = incarnation >> 2 | 1;  // Words of a signal page stay below 2^63.
    (*ledger)->header() = HeaderOf(place, incarnation);
    (*ledger)->SetAgent(ThisProcess());
    if (rename(fresh.c_str(), place.path.c_str()) == 0) return ledger;
    ledger = Errno(place.path, "rename");
  }
  unlink(fresh.c_str());
  return ledger.status();
}

absl::StatusOr<std::unique_ptr<PoolLedger>> PoolLedger::Open(const Place& place) {
  const std::string& path = place.path;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": no ledger"));
  if (fd < 0) return Errno(path, "open");
  struct stat facts{};
  Header found;
  const bool read = fstat(fd, &facts) == 0 && pread(fd, &found, sizeof(found), 0) == sizeof(found);
  absl::Status status;
  if (!read || found.magic != kLedgerMagic || found.version != kLedgerVersion ||
      found.sum != found.Sum()) {
    status = absl::DataLossError(absl::StrCat(path, ": no ledger of version ", kLedgerVersion,
                                              ", or its header is damaged"));
  } else if (const char* differs = WhatDiffers(found, HeaderOf(place, found.incarnation))) {
    status = absl::FailedPreconditionError(absl::StrCat(path, ": is of another ", differs));
  } else if (static_cast<size_t>(facts.st_size) != FileBytes(place.terms) || found.slots == 0 ||
             found.handles > found.max_handles ||
             found.slots > found.handles * found.handle_bytes / found.slot_bytes) {
    status = absl::DataLossError(absl::StrCat(path, ": ", facts.st_size, " bytes, ", found.slots,
                                              " slots in ", found.handles, " handles"));
  }
  if (!status.ok()) {
    close(fd);
    return status;
  }
  absl::StatusOr<std::unique_ptr<PoolLedger>> ledger = Map(place, fd);
  close(fd);
  return ledger;
}

PoolLedger::~PoolLedger() { munmap(bytes_.data(), bytes_.size()); }

void PoolLedger::Discard() { unlink(place_.path.c_str()); }

uint64_t PoolLedger::incarnation() const { return header().incarnation; }

ProcessId PoolLedger::agent() const {
  return {.pid = PidHere(header().agent_pid, header().pid_namespace),
          .started = header().agent_started};
}

void PoolLedger::SetAgent(const ProcessId& agent) {
  Header& written = header();
  StoreLast(&written.agent_pid, uint64_t{0});
  KVT_KILL_POINT("gpu.take_agent_half_written");
  StoreLast(&written.agent_started, agent.started);
  StoreLast(&written.pid_namespace, place_.scope.pid_namespace);
  StoreLast(&written.agent_pid, static_cast<uint64_t>(agent.pid));
  KVT_KILL_POINT("gpu.take_agent_written");
}

pid_t PoolLedger::PidHere(uint64_t pid, uint64_t pid_namespace) const {
  return pid_namespace == place_.scope.pid_namespace ? static_cast<pid_t>(pid) : 0;
}

void PoolLedger::Resize(size_t handles, size_t slots) {
  const PoolTerms& terms = place_.terms;
  KVT_CHECK(handles <= terms.shape.max_handles &&
            slots <= handles * terms.shape.handle_bytes / terms.slot_bytes);
  // A kill in between leaves slots that fit the handles.
  Header& written = header();
  if (handles > written.handles) StoreLast(&written.handles, uint64_t{handles});
  StoreLast(&written.slots, uint64_t{slots});
  KVT_KILL_POINT("gpu.resize_half_written");
  StoreLast(&written.handles, uint64_t{handles});
}

size_t PoolLedger::handles() const { return header().handles; }
size_t PoolLedger::slots() const { return header().slots; }

size_t PoolLedger::handles_in_use() const {
  const uint64_t handle_bytes = place_.terms.shape.handle_bytes;
  return (slots() * place_.terms.slot_bytes + handle_bytes - 1) / handle_bytes;
}

uint64_t PoolLedger::SumOf(const SlotEntry& entry) {
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  return SumPayload(bytes.subspan(4, offsetof(SlotEntry, check) - 4)).lo;
}

PoolLedger::Slot PoolLedger::slot(size_t slot) const {
  SlotEntry& entry = slot_entry(slot);
  const uint32_t state = LoadFirst(&entry.state);
  if (state == static_cast<uint32_t>(SlotState::kFree)) return {.state = SlotState::kFree};
  if (state != static_cast<uint32_t>(SlotState::kPublished) || entry.check != SumOf(entry) ||
      entry.length > place_.terms.slot_bytes) {
    return {};
  }
  Slot read{.state = SlotState::kPublished,
            .meta = {.key = {.hi = entry.key_hi, .lo = entry.key_lo},
                     .space = {entry.space},
                     .length = entry.length,
                     .sum = {.hi = entry.sum_hi, .lo = entry.sum_lo}}};
  if (entry.has_parent != 0) read.meta.parent = BlockKey{entry.parent_hi, entry.parent_lo};
  return read;
}

void PoolLedger::HandOut(size_t slot) {
  StoreLast(&slot_entry(slot).state, static_cast<uint32_t>(SlotState::kHandedOut));
  KVT_KILL_POINT("gpu.entry_withdrawn");
}

void PoolLedger::Free(size_t slot) {
  StoreLast(&slot_entry(slot).state, static_cast<uint32_t>(SlotState::kFree));
}

void PoolLedger::Publish(size_t slot, const BlockMeta& meta) {
  SlotEntry& entry = slot_entry(slot);
  if (entry.state == static_cast<uint32_t>(SlotState::kPublished)) {
    KVT_CHECK(this->slot(slot).meta == meta);
    return;
  }
  KVT_CHECK(entry.state == static_cast<uint32_t>(SlotState::kHandedOut));
  entry.has_parent = meta.parent.has_value() ? 1 : 0;
  entry.key_hi = meta.key.hi;
  entry.key_lo = meta.key.lo;
  entry.parent_hi = meta.parent.has_value() ? meta.parent->hi : 0;
  entry.parent_lo = meta.parent.has_value() ? meta.parent->lo : 0;
  entry.space = meta.space.bytes;
  entry.length = meta.length;
  entry.sum_hi = meta.sum.hi;
  entry.sum_lo = meta.sum.lo;
  entry.check = SumOf(entry);
  KVT_KILL_POINT("gpu.entry_written");
  StoreLast(&entry.state, static_cast<uint32_t>(SlotState::kPublished));
  KVT_KILL_POINT("gpu.entry_published");
}

absl::StatusOr<size_t> PoolLedger::AddWorker(const ProcessId& process, const PageId& page) {
  for (size_t place = 0; place < kMaxLedgerWorkers; ++place) {
    WorkerEntry& entry = worker_entry(place);
    if (entry.used != 0) continue;
    entry.pid = static_cast<uint64_t>(process.pid);
    entry.started = process.started;
    entry.pid_namespace = place_.scope.pid_namespace;
    entry.page_device = page.device;
    entry.page_inode = page.inode;
    entry.idle = 1;
    KVT_KILL_POINT("gpu.worker_half_written");
    StoreLast(&entry.used, uint64_t{1});
    return place;
  }
  return absl::ResourceExhaustedError(absl::StrCat("GPU pool: all ", kMaxLedgerWorkers,
                                                   " workers' places in the ledger are taken"));
}

void PoolLedger::GiveSlots(size_t place) {
  KVT_CHECK(worker_entry(place).used != 0);
  StoreLast(&worker_entry(place).idle, uint64_t{0});
  KVT_KILL_POINT("gpu.worker_given_slots");
}

void PoolLedger::RemoveWorker(size_t place) {
  KVT_CHECK(worker_entry(place).used != 0);
  StoreLast(&worker_entry(place).used, uint64_t{0});
  KVT_KILL_POINT("gpu.worker_removed");
}

std::vector<PoolLedger::Worker> PoolLedger::Workers() const {
  std::vector<Worker> workers;
  for (size_t place = 0; place < kMaxLedgerWorkers; ++place) {
    const WorkerEntry& entry = worker_entry(place);
    if (entry.used == 0) continue;
    workers.push_back(
        {.place = place,
         .process = {.pid = PidHere(entry.pid, entry.pid_namespace), .started = entry.started},
         .page = {.device = entry.page_device, .inode = entry.page_inode},
         .has_slots = entry.idle == 0});
  }
  return workers;
}

void PoolLedger::SetSilentSessions(size_t sessions) {
  StoreLast(&header().silent_sessions, uint64_t{sessions});
}

size_t PoolLedger::silent_sessions() const { return header().silent_sessions; }

}  // namespace kvtier
