#include "core/sha256.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

// Known answers: FIPS 180-4's examples.
constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string HexOf(const Sha256Digest& digest) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

TEST(Sha256Test, DigestsAreTheStandards) {
  EXPECT_EQ(HexOf(Sha256().Finish()), kOfNothing);
  Sha256 sha;
  sha.Update("a");
  sha.Update("bc");
  EXPECT_EQ(HexOf(sha.Finish()), kOfAbc);
}

TEST(Sha256Test, ARestartForgetsWhatWasGivenAlsoBehindADigest) {
  Sha256 sha;
  sha.Update("forgotten");
  sha.Restart();
  sha.Update("abc");
  EXPECT_EQ(HexOf(sha.Finish()), kOfAbc);
  sha.Restart();
  EXPECT_EQ(HexOf(sha.Finish()), kOfNothing);
}

TEST(Sha256Test, ACopyGoesOnFromTheOtherWhichStaysAsItIs) {
  Sha256 beginning;
  beginning.Update("ab");
  Sha256 sha;
  for (int turn = 0; turn < 2; ++turn) {
    sha.CopyFrom(beginning);
    sha.Update("c");
    EXPECT_EQ(HexOf(sha.Finish()), kOfAbc);
  }
}

}  // namespace
}  // namespace kvtier
