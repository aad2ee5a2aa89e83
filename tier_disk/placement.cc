#include "tier_disk/placement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/check.h"

namespace kvtier {
namespace {

// Mixes a word into `before` with one round of splitmix64 (Steele, Lea and Flood, 2014).
uint64_t Mix(uint64_t before, uint64_t word) {
  uint64_t z = (before ^ word) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Returns eight bytes of an id, the first byte highest: the same number on every machine.
uint64_t WordAt(const DiskId& id, size_t first) {
  uint64_t word = 0;
  for (size_t i = 0; i < sizeof(word); ++i) word = word << 8 | id.bytes[first + i];
  return word;
}

}  // namespace

Placement::Placement(std::vector<DiskShare> disks) : disks_(std::move(disks)) {
  KVT_CHECK(!disks_.empty());
  for (size_t i = 0; i < disks_.size(); ++i) {
    KVT_CHECK(disks_[i].capacity_bytes > 0);
    for (size_t j = 0; j < i; ++j) KVT_CHECK(disks_[i].id != disks_[j].id);
  }
}

double Placement::Lot(const DiskShare& disk, const BlockKey& key) const {
  uint64_t mixed = 0;
  for (const uint64_t word : {WordAt(disk.id, 0), WordAt(disk.id, 8), key.hi, key.lo}) {
    mixed = Mix(mixed, word);
  }
  // 53 bits and a half: never 0 or 1, so the logarithm is finite and negative.
  const double uniform = (static_cast<double>(mixed >> 11) + 0.5) * 0x1p-53;
  return -static_cast<double>(disk.capacity_bytes) / std::log(uniform);
}

size_t Placement::Preferred(const BlockKey& key) const {
  size_t best = 0;
  double best_lot = Lot(disks_[0], key);
  for (size_t i = 1; i < disks_.size(); ++i) {
    const double lot = Lot(disks_[i], key);
    if (std::pair(lot, disks_[i].id) > std::pair(best_lot, disks_[best].id)) {
      best = i;
      best_lot = lot;
    }
  }
  return best;
}

std::vector<size_t> Placement::Order(const BlockKey& key) const {
  struct Ranked {
    double lot;
    DiskId id;
    size_t disk;
    auto operator<=>(const Ranked&) const = default;
  };
  std::vector<Ranked> ranked;
  ranked.reserve(disks_.size());
  for (size_t i = 0; i < disks_.size(); ++i) {
    ranked.push_back({.lot = Lot(disks_[i], key), .id = disks_[i].id, .disk = i});
  }
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  std::vector<size_t> order;
  order.reserve(ranked.size());
  for (const Ranked& each : ranked) order.push_back(each.disk);
  return order;
}

}  // namespace kvtier
