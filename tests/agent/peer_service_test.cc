#include "agent/services/peer_service.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace kvtier {
namespace {

TEST(PeerStreamTimeTest, AStreamEndsAtItsTimeoutAtItsCallersDeadlineOrAtTheLimit) {
  const absl::Duration second = absl::Seconds(1);
  EXPECT_EQ(PeerStreamTime(second, absl::InfiniteDuration()), second);
  EXPECT_EQ(PeerStreamTime(2 * second, second), second);
  EXPECT_EQ(PeerStreamTime(2 * kMaxPeerStreamTime, absl::InfiniteDuration()), kMaxPeerStreamTime);
  EXPECT_EQ(PeerStreamTime(2 * kMaxPeerStreamTime, 3 * kMaxPeerStreamTime), kMaxPeerStreamTime);
}

}  // namespace
}  // namespace kvtier
