// Tests that, whatever sequences do, each reads its own tokens, every slot has the holds that it
// should have, and none is handed out while somebody may still read it.
//
// KVTIER_TABLE_OPERATIONS sets the number of operations, KVTIER_TEST_SEED replays the draws.
#include "tests/tier_gpu/block_table_model.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::BlockTableModel;

constexpr uint64_t kDefaultOperations = testing::kSanitized ? 50'000 : 300'000;
constexpr uint64_t kAuditEvery = 256;

uint64_t Operations() {
  return testing::FromEnvironment("KVTIER_TABLE_OPERATIONS", kDefaultOperations);
}

TEST(BlockTableModelTest, TablesDoWhatThePlainReferenceDoes) {
  BlockTableModel model(testing::TestSeed());
  const uint64_t operations = Operations();
  for (uint64_t i = 0; i < operations; ++i) {
    const size_t ran = model.Run();
    if ((i + 1) % kAuditEvery == 0) model.Audit();
    ASSERT_FALSE(HasFailure()) << "operation " << i << ": "
                               << BlockTableModel::kOperations[ran].name;
  }
  std::printf("%-12s %10s %10s\n", "operation", "done", "refused");
  for (size_t i = 0; i < BlockTableModel::kOperations.size(); ++i) {
    const auto& [done, refused] = model.tallies()[i];
    std::printf("%-12s %10llu %10llu\n", BlockTableModel::kOperations[i].name,
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(refused));
  }
  std::printf("%llu operations, %llu copies on write\n",
              static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(model.copies()));
  model.End();
}

}  // namespace
}  // namespace kvtier
