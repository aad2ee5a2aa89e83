// HostScratch is memory of one thread of the lanes, in which blocks are encoded and decoded. Lanes
// of a space without a codec use none of it.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_SCRATCH_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_SCRATCH_H_

#include <cstddef>
#include <memory>

#include "core/copy_sum.h"

namespace kvtier {

// HostScratch grows as needed. Used by one thread at a time.
class HostScratch {
 public:
  // raw() and stored() return memory for a block, at a multiple of 16 and with undefined content,
  // valid until the next call of the same function. raw() is for the engine's form, in the codec's
  // order; stored() for the form that the space stores.
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
