// Pin keeps a block where it is: in host memory, or in the pool of one GPU. PinHome is that
// memory's list of its blocks, which counts their pins.
//
// Executor thread only.
#ifndef KVTIER_AGENT_INDEX_PIN_H_
#define KVTIER_AGENT_INDEX_PIN_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/tier.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class PinHome;

// ResidentBlock is one block in one memory. Its home keeps the object at one address until the
// block leaves.
struct ResidentBlock {
  BlockMeta meta;       // The sum is of the bytes in this memory: another's may differ.
  uint64_t offset = 0;  // Place of its first byte, in the domain's arena or in the GPU pool.
  uint32_t pins = 0;
  // Whether the block was found to be damaged: nobody finds it any more, and it gets no new lease.
  // Its room is free when its last pin ends.
  bool is_condemned = false;
};

// Pin keeps its block in its memory as long as the Pin lives. Move-only, never leaves the process.
// REQUIRES: outlived by the home.
class Pin {
 public:
  Pin() = default;  // Pins nothing.
  Pin(Pin&& other) noexcept
      : home_(std::exchange(other.home_, nullptr)), block_(other.block_), member_(other.member_) {}
  Pin& operator=(Pin&& other) noexcept;
  ~Pin() { Release(); }
  explicit operator bool() const { return home_ != nullptr; }
  // REQUIRES of these: it pins a block.
  const ResidentBlock& block() const { return *block_; }
  const BlockKey& key() const { return block_->meta.key; }
  Tier tier() const;
  // Returns one more pin of the same block, which counts for the same member.
  Pin Again() const;
  // Returns one more pin, which counts for the member of a share group; nullopt: that may pin no
  // more.
  std::optional<Pin> AgainFor(std::optional<DomainId> member) const;
  void Release();

 private:
  friend class PinHome;
  Pin(PinHome* home, ResidentBlock* block, std::optional<DomainId> member)
      : home_(home), block_(block), member_(member) {}
  PinHome* home_ = nullptr;
  ResidentBlock* block_ = nullptr;
  // Domain of the member of a share group for which it counts; nullopt: none.
  std::optional<DomainId> member_{};
};

class PinHome {
 public:
  explicit PinHome(Tier tier) : tier_(tier) {}
  PinHome(const PinHome&) = delete;
  PinHome& operator=(const PinHome&) = delete;

  // Returns a pin of the block; nullopt: it is not here.
  virtual std::optional<Pin> PinOf(const BlockKey& key) = 0;
  Tier tier() const { return tier_; }
  // Returns the payload bytes of the blocks that are pinned.
  uint64_t pinned_bytes() const { return pinned_bytes_; }

 protected:
  ~PinHome() = default;
  Pin Take(ResidentBlock* block) { return *TakeFor(block, std::nullopt); }
  // Pins the block for a member of a share group; nullopt: that may pin no more.
  std::optional<Pin> TakeFor(ResidentBlock* block, std::optional<DomainId> member);
  // Returns the block that the pin is of; nullptr: it is in another home.
  ResidentBlock* BlockOf(const Pin& pin) const { return pin.home_ == this ? pin.block_ : nullptr; }

 private:
  friend class Pin;
  void Unpin(ResidentBlock* block, std::optional<DomainId> member);
  // Counts a pin of the block for the member. Returns false if the member may pin no more.
  virtual bool Charge(const ResidentBlock& /*block*/, DomainId /*member*/) { return true; }
  virtual void Uncharge(const ResidentBlock& /*block*/, DomainId /*member*/) {}
  // Takes the block out of the order in which blocks leave: it got its first pin.
  virtual void Hold(ResidentBlock* block) = 0;
  // Puts a block back whose last pin has ended.
  virtual void Unhold(ResidentBlock* block) = 0;

  const Tier tier_;
  uint64_t pinned_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_PIN_H_
