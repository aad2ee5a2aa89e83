// bench: cipher - sealing and opening of disk records (AES-256-GCM) beside memcpy and XXH3
// check: --rounds=7
//
// It uses one core. Every figure covers a run of blocks that fits no cache, each copied into a slot
// of its own, and is the median of several rounds in which all figures take turns. The payload's
// checksum is the cost of a record without encryption.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/rounds.h"
#include "core/check.h"
#include "core/checksum.h"
#include "tests/testing/numbered_key.h"
#include "tier_disk/cipher/record_cipher.h"
#include "tier_disk/cipher/secret_key.h"
#include "tier_disk/io/page_buffer.h"

ABSL_FLAG(kvtier::bench::Rounds, rounds, {7}, "Rounds; the medians count.");

namespace kvtier::bench {
namespace {

constexpr uint64_t kRunBytes = uint64_t{128} << 20;  // Size of each side, several times a cache.

struct Size {
  const char* name;
  uint64_t bytes;
};
constexpr Size kSizes[] = {{"64KiB", 64 << 10}, {"2MiB", 2 << 20}};

OpeningId DrawOpening() {
  OpeningId opening;
  FillRandom(opening.bytes);
  return opening;
}

SecretKey DrawKey() {
  SecretKey key;
  FillRandom(key.bytes());
  return key;
}

// CipherRun holds the blocks of one run, in the clear and sealed, and the four operations on them.
class CipherRun {
 public:
  CipherRun(uint64_t block_bytes, PageBuffer* clear, PageBuffer* rest)
      : block_bytes_(block_bytes),
        clear_(clear->bytes()),
        rest_(rest->bytes()),
        key_(DrawKey()),
        cipher_(key_, KeyId{1}, DrawOpening()),
        later_(key_, KeyId{1}, DrawOpening()) {}

  void Copy() {
    ForEach([&](RecordIdentity&, std::span<std::byte> clear, std::span<std::byte> rest) {
      std::memcpy(rest.data(), clear.data(), clear.size());
    });
  }
  void Sum() {
    ForEach([&](RecordIdentity&, std::span<std::byte> clear, std::span<std::byte>) {
      const PayloadSum sum = SumPayload(clear);
      sums_ ^= sum.lo;
    });
  }
  void Seal() {
    ++generation_;  // Gives every block another nonce in each round.
    proofs_.clear();
    ForEach([&](RecordIdentity& identity, std::span<std::byte> clear, std::span<std::byte> rest) {
      proofs_.push_back(*cipher_.Seal(identity, clear, rest));
    });
  }
  // Opens in the process that sealed. REQUIRES: Seal() was the last call.
  void Open() { OpenWith(cipher_); }
  // Opens as after a restart: each record's key is derived first.
  void OpenLater() { OpenWith(later_); }
  uint64_t sums() const { return sums_; }

 private:
  template <typename Fn>
  void ForEach(Fn fn) {
    for (uint64_t at = 0; at + block_bytes_ <= clear_.size(); at += block_bytes_) {
      RecordIdentity identity{
          .key = name_, .length = block_bytes_, .place = {.generation = generation_, .offset = at}};
      fn(identity, clear_.subspan(at, block_bytes_), rest_.subspan(at, block_bytes_));
    }
  }
  void OpenWith(const RecordCipher& cipher) {
    auto proof = proofs_.begin();
    ForEach([&](RecordIdentity& identity, std::span<std::byte> clear, std::span<std::byte> rest) {
      KVT_CHECK(cipher.Open(identity, *proof++, rest, clear).ok());
    });
  }

  const uint64_t block_bytes_;
  const std::span<std::byte> clear_;
  const std::span<std::byte> rest_;
  const BlockKey name_ = testing::NumberedKey(1);  // Name of every block; places differ.
  const SecretKey key_;
  const RecordCipher cipher_;
  const RecordCipher later_;  // Cipher of the same key in another opening.
  uint64_t generation_ = 0;
  uint64_t sums_ = 0;  // Combines the sums, so that they are not optimised away.
  std::vector<CipherProof> proofs_;
};

double BytesPerSecond(const std::function<void()>& way) {
  const absl::Time started = absl::Now();
  way();
  return static_cast<double>(kRunBytes) / absl::ToDoubleSeconds(absl::Now() - started);
}

void Measure(const Size& size, int rounds, PageBuffer* clear, PageBuffer* rest) {
  CipherRun run(size.bytes, clear, rest);
  const std::vector<std::function<void()>> ways = {[&] { run.Copy(); }, [&] { run.Sum(); },
                                                   [&] { run.Seal(); }, [&] { run.Open(); },
                                                   [&] { run.OpenLater(); }};
  std::vector<std::vector<double>> speeds(ways.size());
  for (const auto& way : ways) way();  // Touches every page, and wakes the core.
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) speeds[i].push_back(BytesPerSecond(ways[i]));
  }
  const double copy = Median(speeds[0]);
  const double sum = Median(speeds[1]);
  const auto print = [&](const char* what, size_t way, double reference, const char* name) {
    const double speed = Median(speeds[way]);
    PrintFigure(absl::StrCat("cipher.", what, ".", size.name), speed / 1e9, "GB/s",
                speed / reference, name);
  };
  print("payload_sum", 1, copy, "memcpy");
  print("seal", 2, copy, "memcpy");
  print("open", 3, copy, "memcpy");
  print("open_after_restart", 4, copy, "memcpy");
  print("seal_instead_of_sum", 2, sum, "payload_sum");
  print("open_instead_of_sum", 3, sum, "payload_sum");
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "What encryption at rest costs a block, beside memcpy and the checksum.");
  absl::ParseCommandLine(argc, argv);
  const int rounds = absl::GetFlag(FLAGS_rounds).count;
  PageBuffer clear(kRunBytes);
  PageBuffer rest(kRunBytes);
  std::mt19937_64 random(1);
  for (size_t i = 0; i < kRunBytes; i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(clear.bytes().data() + i, &word, sizeof(word));
  }
  for (const Size& size : kSizes) Measure(size, rounds, &clear, &rest);
  return 0;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }
