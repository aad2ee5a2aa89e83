// FakeResidents says that the disks hold what a test put into its set.
#ifndef KVTIER_TESTS_TESTING_FAKE_RESIDENTS_H_
#define KVTIER_TESTS_TESTING_FAKE_RESIDENTS_H_

#include <map>
#include <set>
#include <vector>

#include "tier_disk/disk_residents.h"

namespace kvtier::testing {

class FakeResidents final : public DiskResidents {
 public:
  bool Contains(const BlockKey& key) const override { return keys.contains(key); }
  bool HasChildOf(const BlockKey& key) const override { return parents.contains(key); }
  void ForEachChildOf(const BlockKey&, absl::FunctionRef<bool(const BlockKey&)>) const override {}
  size_t block_count() const override { return keys.size(); }
  bool KeysFrom(DiskWalk*, size_t, std::vector<BlockKey>* found) const override {
    found->insert(found->end(), keys.begin(), keys.end());
    return false;
  }
  void Touch(const BlockKey& key, const ReuseHint& hint) override { touched[key] = hint; }

  std::set<BlockKey> keys;
  std::set<BlockKey> parents;  // Parents of the keys that are there.
  std::map<BlockKey, ReuseHint> touched;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_RESIDENTS_H_
