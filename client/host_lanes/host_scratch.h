// HostScratch is memory of one thread of the lanes, in which blocks are encoded and decoded. Lanes
// of a space without a codec use none of it.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_SCRATCH_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_SCRATCH_H_

#include <cstddef>
#include <memory>

#include "core/copy_sum.h"

namespace kvtier {

// One thread at a time.
class HostScratch {
 public:
  // Both return memory for a block, which begins at a multiple of 16 and holds anything. It is
  // there until the next call of the same function. raw(): as the engine computes it, in the
  // codec's order; stored(): as the space stores it.
  Piece raw(size_t bytes) { return raw_.OfSize(bytes); }
  Piece stored(size_t bytes) { return stored_.OfSize(bytes); }

 private:
  struct Room {
    Piece OfSize(size_t wanted) {
      if (bytes < wanted) {
        memory = std::make_unique_for_overwrite<std::byte[]>(wanted);
        bytes = wanted;
      }
      return {memory.get(), wanted};
    }
    size_t bytes = 0;
    std::unique_ptr<std::byte[]> memory{};
  };
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 16);

  Room raw_;
  Room stored_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_SCRATCH_H_
