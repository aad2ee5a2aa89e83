// bench: lanes - saves and loads of an engine's blocks by lanes of host memory, beside memcpy
// check: --rounds=15
//
// It uses a real agent in its own process, and an engine whose blocks are 30 pieces of 48 KiB, with
// each layer's keys and values in tensors of their own. A save is an offload of 31 new blocks; its
// time is from the call to the end of its job: calls to the agent, copies with their sums, and the
// commit. A load brings them to other blocks of the engine. In each round memcpy moves the same
// pieces of the same blocks on this thread, to private memory and back, so that the ratio of a
// round compares neighbours in time; the median of the rounds' ratios counts.
//
// With each codec everything is repeated: the blocks are then Gaussian values in bf16, the rates
// count the engine's bytes, and loaded blocks are compared with the saved ones, encoded and
// decoded.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/block_load.h"
#include "bench/figure.h"
#include "bench/node_process.h"
#include "bench/plain_space.h"
#include "bench/rounds.h"
#include "client/block_codec.h"
#include "client/client.h"
#include "client/host_lanes/host_lanes.h"
#include "core/space_codec.h"
#include "core/status_macros.h"
#include "kernels/float_formats.h"
#include "tier_disk/io/page_buffer.h"

ABSL_FLAG(kvtier::bench::Rounds, rounds, {101}, "Rounds; the medians count.");

namespace kvtier::bench {
namespace {

constexpr uint32_t kLayers = 15;
constexpr uint32_t kPieces = 2 * kLayers;
constexpr uint64_t kPieceBytes = uint64_t{48} << 10;
constexpr uint64_t kBlockBytes = kPieces * kPieceBytes;
constexpr uint32_t kTokens = 32;
constexpr uint32_t kHeads = 6;
constexpr uint32_t kHeadDim = kPieceBytes / 2 / kTokens / kHeads;  // Elements are bf16.
constexpr uint32_t kRun = 31;                                      // Blocks of one job.
// Slots of the engine: a job's blocks left the caches long ago.
constexpr uint32_t kSlots = 6 * kRun;
constexpr int kWarmups = 16;  // The first rounds touch the arena's pages.
constexpr absl::Duration kPatience = absl::Seconds(30);

// Seconds of the parts of one round.
struct Round {
  double save = 0;
  double plain_save = 0;
  double load = 0;
  double plain_load = 0;
};

class LanesRounds {
 public:
  static absl::StatusOr<std::unique_ptr<LanesRounds>> Open(const std::string& socket_dir,
                                                           const std::string& codec) {
    std::unique_ptr<LanesRounds> rounds(new LanesRounds());
    KVT_ASSIGN_OR_RETURN(rounds->client_, Client::Open({.socket_dir = socket_dir,
                                                        .default_timeout = absl::Seconds(10)}));
    SpaceSpec spec = PlainSpace("lanes", kBlockBytes);
    spec.dtype = "bfloat16";
    spec.layers = kLayers;
    spec.kv_heads = kHeads;
    spec.head_dim = kHeadDim;
    spec.tokens_per_block = kTokens;
    spec.layout = SpaceLayout(KvAxes::kApart, KvOrder::kTokenHead);
    if (codec != kRawCodec) {
      spec.codec = codec;
      KVT_ASSIGN_OR_RETURN(const SpaceCodec sizes, SpaceCodec::Of(spec));
      spec.block_bytes = sizes.encoded_bytes();
      KVT_ASSIGN_OR_RETURN(rounds->codec_, BlockCodec::For(spec));
      rounds->encoded_.resize(spec.block_bytes);
    }
    KVT_ASSIGN_OR_RETURN(const SpaceHandle space, rounds->client_->RegisterSpace(spec));
    KVT_ASSIGN_OR_RETURN(rounds->lanes_,
                         HostLanes::Open(rounds->client_.get(), space, rounds->Tensors()));
    return rounds;
  }

  absl::StatusOr<Round> Run(uint64_t number) {
    const std::vector<EngineKey> keys = KeysOf(number);
    const std::vector<uint32_t> from = SlotsOf(2 * number);
    const std::vector<uint32_t> to = SlotsOf(2 * number + 1);
    absl::Status status;
    Round round;
    round.plain_save = Seconds([&] { Copy(from, /*out=*/true); });
    round.save = Seconds([&] { status = End(lanes_->Offload(keys, {}, from)); });
    KVT_RETURN_IF_ERROR(status);
    round.load = Seconds([&] { status = End(lanes_->Onboard(keys, to, kPatience)); });
    KVT_RETURN_IF_ERROR(status);
    for (size_t i = 0; i < kRun; ++i) KVT_RETURN_IF_ERROR(Compare(from[i], to[i]));
    round.plain_load = Seconds([&] { Copy(SlotsOf(2 * number + 2), /*out=*/false); });
    return round;
  }

 private:
  LanesRounds() : engine_(kSlots * kBlockBytes), plain_(4 * (kRun * kBlockBytes)) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> gauss;
    std::vector<uint16_t> values(1'000'003);  // No piece equals another.
    for (uint16_t& value : values) value = kernels::Bf16FromFloat(gauss(random));
    const auto bytes = std::as_bytes(std::span(values));
    for (const std::span<std::byte> side : {engine_.bytes(), plain_.bytes()}) {
      for (size_t at = 0; at < side.size(); at += bytes.size()) {
        std::memcpy(side.data() + at, bytes.data(), std::min(bytes.size(), side.size() - at));
      }
    }
  }

  // Checks that the loaded block is the saved one, encoded and decoded by the space's codec.
  absl::Status Compare(uint32_t saved, uint32_t loaded) {
    for (uint64_t piece = 0; piece < kPieces; ++piece) {
      std::memcpy(expected_.data() + piece * kPieceBytes, At(piece, saved), kPieceBytes);
    }
    if (codec_) {
      KVT_RETURN_IF_ERROR(codec_->Encode(expected_, encoded_).status());
      KVT_RETURN_IF_ERROR(codec_->Decode(encoded_, expected_));
    }
    for (uint64_t piece = 0; piece < kPieces; ++piece) {
      const std::byte* const wanted = expected_.data() + piece * kPieceBytes;
      if (std::memcmp(wanted, At(piece, loaded), kPieceBytes) == 0) continue;
      return absl::DataLossError(absl::StrCat("block ", loaded, ", piece ", piece, " differs"));
    }
    return absl::OkStatus();
  }

  // Returns a tensor for each layer and axis, in which a block has one piece.
  KvTensors Tensors() {
    KvTensors tensors = {.axes = KvAxes::kApart,
                         .layers = kLayers,
                         .slots = kSlots,
                         .run_bytes = kPieceBytes,
                         .block_stride = kPieceBytes};
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      tensors.tensors.emplace_back(At(piece, 0), kSlots * kPieceBytes);
      tensors.bases.push_back({.tensor = piece});
    }
    return tensors;
  }
  std::byte* At(uint64_t piece, uint64_t slot) {
    return engine_.bytes().data() + (piece * kSlots + slot) * kPieceBytes;
  }

  // Copies these blocks' pieces out of the engine, or into it.
  void Copy(const std::vector<uint32_t>& slots, bool out) {
    std::byte* plain = plain_.bytes().data() + (copies_++ % 4) * (kRun * kBlockBytes);
    for (const uint32_t slot : slots) {
      for (uint32_t piece = 0; piece < kPieces; ++piece, plain += kPieceBytes) {
        std::byte* const engine = At(piece, slot);
        std::memcpy(out ? plain : engine, out ? engine : plain, kPieceBytes);
      }
    }
  }

  static absl::Status End(const absl::StatusOr<std::shared_ptr<HostJob>>& job) {
    KVT_RETURN_IF_ERROR(job.status());
    if (!(*job)->Wait(kPatience)) return absl::DeadlineExceededError("a job does not end");
    KVT_RETURN_IF_ERROR((*job)->status());
    const std::vector<bool> results = (*job)->results();
    if (results != std::vector<bool>(kRun, true)) {
      return absl::UnavailableError("not every block was moved");
    }
    return absl::OkStatus();
  }

  static std::vector<uint32_t> SlotsOf(uint64_t run) {
    std::vector<uint32_t> slots(kRun);
    std::iota(slots.begin(), slots.end(), static_cast<uint32_t>(run * kRun % kSlots));
    return slots;
  }
  static std::vector<EngineKey> KeysOf(uint64_t round) {
    std::vector<EngineKey> keys;
    for (uint64_t i = 0; i < kRun; ++i) {
      const uint64_t words[2] = {round, i};
      keys.push_back(*EngineKey::FromBytes({reinterpret_cast<const char*>(words), sizeof(words)}));
    }
    return keys;
  }

  PageBuffer engine_;
  PageBuffer plain_;
  uint64_t copies_ = 0;              // Number of plain copies so far.
  std::optional<BlockCodec> codec_;  // Codec of the blocks; absent: they are stored unchanged.
  std::vector<std::byte> encoded_;
  std::vector<std::byte> expected_ = std::vector<std::byte>(kBlockBytes);
  std::unique_ptr<Client> client_;
  std::unique_ptr<HostLanes> lanes_;
};

absl::Status RunCodec(int rounds, const std::string& socket_dir, const std::string& codec) {
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<LanesRounds> lanes,
                       LanesRounds::Open(socket_dir, codec));
  std::vector<double> save;
  std::vector<double> load;
  std::vector<double> save_ratio;
  std::vector<double> load_ratio;
  for (int i = 0; i < kWarmups + rounds; ++i) {
    KVT_ASSIGN_OR_RETURN(const Round round, lanes->Run(static_cast<uint64_t>(i)));
    if (i < kWarmups) continue;
    save.push_back(kRun * kBlockBytes / round.save / 1e9);
    save_ratio.push_back(round.plain_save / round.save);
    load.push_back(kRun * kBlockBytes / round.load / 1e9);
    load_ratio.push_back(round.plain_load / round.load);
  }
  const std::string name = codec == kRawCodec ? "30x48KiB" : absl::StrCat("30x48KiB.", codec);
  PrintFigure(absl::StrCat("lanes.save.", name), Median(save), "GB/s", Median(save_ratio),
              "memcpy");
  PrintFigure(absl::StrCat("lanes.load.", name), Median(load), "GB/s", Median(load_ratio),
              "memcpy");
  return absl::OkStatus();
}

absl::Status Run(int rounds) {
  for (const char* codec : {kRawCodec, "packed_exponents", "fp8_e4m3", "int8"}) {
    KVT_ASSIGN_OR_RETURN(const std::unique_ptr<NodeProcess> node,
                         NodeProcess::StartAgent(
                             "lanes", {"--host_bytes=512MiB", "--host_scrub_bytes_per_second=0"}));
    KVT_RETURN_IF_ERROR(RunCodec(rounds, node->socket_dir(), codec));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What lanes of host memory move, beside memcpy.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = kvtier::bench::Run(absl::GetFlag(FLAGS_rounds).count);
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_lanes: %s\n", status.ToString().c_str());
  return 1;
}
