// SealedMemory is one memfd of shared memory whose size is fixed: mapped here for writing, and
// handed out to other processes by a descriptor that maps it for reading or for writing. An arena
// is one, and so is a residency table.
#ifndef KVTIER_TIER_HOST_SEALED_MEMORY_H_
#define KVTIER_TIER_HOST_SEALED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// Thread-safe: immutable after Create(). The memory goes when the last mapping and
// descriptor, in any process, are gone.
class SealedMemory {
 public:
  enum class Writers {
    kHolders,  // Whoever holds read_write_fd(): processes that are handed it.
    // Only this mapping is written. The kernel lets nobody map the memory for writing again, or
    // punch holes.
    kMakerOnly,
  };
  // Makes a memfd of `bytes` zeros, sealed against shrinking and growing (a truncation would kill
  // its readers by SIGBUS). It takes its memory as it is touched. `name` shows in /proc/PID/maps.
  // REQUIRES: `bytes` is a positive multiple of 4096. Errors: kResourceExhausted, with errno's
  // text.
  static absl::StatusOr<std::unique_ptr<SealedMemory>> Create(const std::string& name,
                                                              uint64_t bytes,
                                                              Writers writers = Writers::kHolders);
  ~SealedMemory();

  // Takes the memory of [offset, offset + length) now, so that a lack of it shows here and not
  // when it is touched. REQUIRES: both are multiples of 4096, and inside. Errors:
  // kResourceExhausted, with errno's text.
  absl::Status Populate(uint64_t offset, uint64_t length);

  // Gives the memory of [offset, offset + length) back, in every process: it reads as zeros until
  // it is taken again. REQUIRES: as Populate(), and Writers::kHolders.
  void Release(uint64_t offset, uint64_t length);

  // Returns how much memory the kernel keeps for the file, whichever process touched it.
  uint64_t held_bytes() const;

  std::span<std::byte> bytes() const { return bytes_; }
  // Returns the descriptor for workers that are trusted to write.
  int read_write_fd() const { return read_write_fd_; }
  // Returns a read-only descriptor of the file: it can be mapped for reading, never for writing.
  // The file's mode is 0, so a process of another user cannot reopen it for writing through /proc
  // either; one of the agent's own user, or root, can.
  int read_only_fd() const { return read_only_fd_; }

 private:
  SealedMemory(std::string name, int read_write_fd)
      : name_(std::move(name)), read_write_fd_(read_write_fd) {}
  // Does everything after memfd_create; the destructor undoes what was done.
  absl::Status Map(uint64_t bytes, Writers writers);
  absl::Status Failed(const char* call, uint64_t bytes) const;

  const std::string name_;
  const int read_write_fd_;
  // Map() sets both members once.
  int read_only_fd_ = -1;
  std::span<std::byte> bytes_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_SEALED_MEMORY_H_
