#include "tests/sim/oracle.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/workload.h"
#include "tests/testing/blocks.h"

namespace kvtier::sim {

uint64_t ContentSeed(size_t tenant, size_t space) { return tenant * 1000 + space + 1; }

void Oracle::Expect(bool holds, const std::string& otherwise) {
  if (holds || failure_.has_value()) return;
  failure_ =
      absl::StrCat("at ", absl::FormatDuration(clock_->Now() - absl::UnixEpoch()), ": ", otherwise);
}

void Oracle::ExpectBlock(size_t tenant, size_t space, const EngineKey& key,
                         std::span<const std::byte> bytes) {
  ++blocks_checked_;
  if (bytes.size() < Space(space).block_bytes) ++short_blocks_checked_;
  Expect(bytes.size() == LengthOf(space, key), "a block of another length");
  if (testing::HoldsBlock(ContentSeed(tenant, space), key, bytes)) return;
  Expect(false, absl::StrCat("WRONG BYTES: tenant ", tenant, ", space ", space, ", engine key ",
                             absl::BytesToHexString(key.bytes()), ", ", bytes.size(), " bytes"));
}

void Oracle::ExpectInTime(const char* request, absl::Time deadline) {
  const absl::Duration late = clock_->Now() - deadline;
  if (late <= absl::ZeroDuration()) return;
  Expect(false,
         absl::StrCat(request, " ended ", absl::FormatDuration(late), " after its deadline"));
}

}  // namespace kvtier::sim
