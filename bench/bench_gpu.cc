// bench: gpu - offloads and onboards of an engine's blocks by lanes on a GPU, beside the link's
// rate
// check: --rounds=7 --device=emulated
//
// It uses a real agent in its own process, and an engine with the KV tensors of Llama 3 8B on the
// device, a pair for each layer, of which a block has 64 pieces of 32 KiB. An offload takes new
// blocks; its time is from the call to the end of its job: calls to the agent, copies, sums and the
// commit. An onboard brings them to other blocks of the engine. In each round as many bytes are
// copied to host memory and back in one piece, which measures the link, and the same pieces with
// cudaMemcpyBatchAsync, as engines do. The ratio of a round compares neighbours in time; the median
// of the rounds' ratios counts. With each codec everything is repeated: the device encodes and
// decodes, and the rates count the engine's bytes.
//
// Blocks are Gaussian values, and blocks onboarded in the first rounds are compared with the blocks
// encoded and decoded on the CPU. Without a GPU the device is emulated: that shows that everything
// works, and says nothing about a GPU. Its figures have names of their own.
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
#include "bench/device_kv.h"
#include "bench/figure.h"
#include "bench/node_process.h"
#include "bench/rounds.h"
#include "client/block_codec.h"
#include "client/device_lanes/device_lanes.h"
#include "core/space_codec.h"
#include "core/status_macros.h"
#include "kernels/float_formats.h"
#include "tier_gpu/device/open_device.h"

ABSL_FLAG(std::string, device, "auto", "auto (a GPU if there is one), cuda:N or emulated.");
ABSL_FLAG(kvtier::bench::Rounds, rounds, {21}, "Rounds; the medians count.");
ABSL_FLAG(uint32_t, blocks, 0, "Blocks of a job, of 2 MiB; 0: 64, or 8 where it is emulated.");
ABSL_FLAG(std::vector<std::string>, codecs, {}, "Only these; none: all that keep a KV usable.");

namespace kvtier::bench {
namespace {

constexpr const char* kEmulated = "emulated";
constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
// Rounds that are checked and not measured. They touch the arena's pages and load the kernels.
constexpr int kProofs = 3;
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr uint64_t kBlockBytes = DeviceKv::kBlockBytes;
constexpr uint64_t kLeastHostBytes = uint64_t{256} << 20;  // Minimum host memory of the agent.

// Seconds of the parts of one round.
struct Round {
  double offload = 0;
  double pieces_out = 0;
  double link_out = 0;
  double onboard = 0;
  double pieces_in = 0;
  double link_in = 0;
};

// Opens the device as the C ABI and the Python package do; these do not open the emulated one.
absl::StatusOr<std::shared_ptr<LaneDevice>> OpenLaneDevice(Client* client, LaneDevices* devices,
                                                           const std::string& name) {
  static const MonotonicClock clock;
  if (name != kEmulated) return devices->Of(client, name, kBlockBytes);
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(name, &clock, {.kernels = true}));
  return LaneDevice::On(client, std::move(device), nullptr);
}

// GpuRounds has one engine's memory, an agent of its own and a codec. The blocks of two jobs are
// offloaded alternately, and onboarded to the blocks of a third.
class GpuRounds {
 public:
  static absl::StatusOr<std::unique_ptr<GpuRounds>> Open(DeviceKv* engine, uint32_t job_blocks,
                                                         const std::string& device,
                                                         const std::string& codec) {
    std::unique_ptr<GpuRounds> rounds(new GpuRounds(engine, job_blocks));
    const uint64_t host_bytes = std::max(kLeastHostBytes, 4 * kBlockBytes * job_blocks);
    KVT_ASSIGN_OR_RETURN(rounds->node_,
                         NodeProcess::StartAgent("gpu", {absl::StrCat("--host_bytes=", host_bytes),
                                                         "--host_scrub_bytes_per_second=0"}));
    KVT_ASSIGN_OR_RETURN(rounds->client_, Client::Open({.socket_dir = rounds->node_->socket_dir(),
                                                        .default_timeout = absl::Seconds(10)}));
    SpaceSpec spec = DeviceKv::Space();
    if (codec != kRawCodec) {
      spec.codec = codec;
      KVT_ASSIGN_OR_RETURN(const SpaceCodec sizes, SpaceCodec::Of(spec));
      spec.block_bytes = sizes.encoded_bytes();
      KVT_ASSIGN_OR_RETURN(rounds->codec_, BlockCodec::For(spec));
      rounds->encoded_.resize(spec.block_bytes);
    }
    KVT_ASSIGN_OR_RETURN(const SpaceHandle space, rounds->client_->RegisterSpace(spec));
    KVT_ASSIGN_OR_RETURN(std::shared_ptr<LaneDevice> opened,
                         OpenLaneDevice(rounds->client_.get(), &rounds->devices_, device));
    KVT_ASSIGN_OR_RETURN(rounds->lanes_, DeviceLanes::Open(rounds->client_.get(), space,
                                                           engine->tensors(), std::move(opened)));
    for (uint64_t job = 0; job < 2; ++job) KVT_RETURN_IF_ERROR(rounds->Compute(job));
    return rounds;
  }

  absl::StatusOr<Round> Run(uint64_t number) {
    const std::vector<EngineKey> keys = KeysOf(number);
    const std::vector<uint32_t> from = SlotsOf(number % 2);
    const std::vector<uint32_t> to = SlotsOf(2);
    absl::Status status;
    const auto timed = [&status](auto run) { return Seconds([&] { status.Update(run()); }); };
    Round round;
    round.pieces_out = timed([&] { return engine_->Copy(kOut, from); });
    round.link_out = timed([&] { return engine_->CopyWhole(kOut, from.size()); });
    round.offload = timed([&] { return End(lanes_->Offload(keys, {}, from, {})); });
    round.onboard = timed([&] { return End(lanes_->Onboard(keys, to, {.timeout = kPatience})); });
    if (number < kProofs) status.Update(Prove(number % 2));
    round.link_in = timed([&] { return engine_->CopyWhole(kIn, to.size()); });
    round.pieces_in = timed([&] { return engine_->Copy(kIn, to); });
    KVT_RETURN_IF_ERROR(status);
    return round;
  }

 private:
  GpuRounds(DeviceKv* engine, uint32_t job_blocks)
      : engine_(engine), job_blocks_(job_blocks), values_(job_blocks * kBlockBytes) {}

  // Fills `into` with different values for each job.
  static void Draw(uint64_t job, std::span<std::byte> into) {
    std::mt19937_64 random(job + 1);
    std::normal_distribution<float> gauss;
    std::vector<uint16_t> values(1'000'003);  // No piece equals another.
    for (uint16_t& value : values) value = kernels::Bf16FromFloat(gauss(random));
    const auto bytes = std::as_bytes(std::span(values));
    for (size_t at = 0; at < into.size(); at += bytes.size()) {
      std::memcpy(into.data() + at, bytes.data(), std::min(bytes.size(), into.size() - at));
    }
  }
  // Computes the blocks of a job, as the engine would.
  absl::Status Compute(uint64_t job) {
    Draw(job, engine_->host());
    return engine_->Copy(kIn, SlotsOf(job));
  }
  // Compares the engine's third job with this one, encoded and decoded by the space's codec, and
  // leaves it in the engine's host memory. Errors: kDataLoss, naming the block.
  absl::Status Prove(uint64_t job) {
    Draw(job, values_);
    KVT_RETURN_IF_ERROR(engine_->Copy(kOut, SlotsOf(2)));
    for (uint32_t block = 0; block < job_blocks_; ++block) {
      const auto wanted = std::span(values_).subspan(block * kBlockBytes, kBlockBytes);
      if (codec_) {
        KVT_RETURN_IF_ERROR(codec_->Encode(wanted, encoded_).status());
        KVT_RETURN_IF_ERROR(codec_->Decode(encoded_, wanted));
      }
      const auto found = engine_->host().subspan(block * kBlockBytes, kBlockBytes);
      if (std::ranges::equal(wanted, found)) continue;
      return absl::DataLossError(absl::StrCat("block ", block, " came back with other bytes"));
    }
    return absl::OkStatus();
  }

  absl::Status End(const absl::StatusOr<std::shared_ptr<HostJob>>& job) const {
    KVT_RETURN_IF_ERROR(job.status());
    if (!(*job)->Wait(kPatience)) return absl::DeadlineExceededError("a job does not end");
    KVT_RETURN_IF_ERROR((*job)->status());
    if ((*job)->results() == std::vector<bool>(job_blocks_, true)) return absl::OkStatus();
    return absl::UnavailableError("not every block was moved");
  }
  std::vector<uint32_t> SlotsOf(uint64_t job) const {
    std::vector<uint32_t> slots(job_blocks_);
    std::iota(slots.begin(), slots.end(), static_cast<uint32_t>(job * job_blocks_));
    // Neighbours in the order of keys are no neighbours in the tensors, as in an engine that has
    // run for a while.
    std::shuffle(slots.begin(), slots.end(), std::mt19937_64(job));
    return slots;
  }
  std::vector<EngineKey> KeysOf(uint64_t round) const {
    std::vector<EngineKey> keys;
    for (uint64_t i = 0; i < job_blocks_; ++i) {
      const uint64_t words[2] = {round, i};
      keys.push_back(*EngineKey::FromBytes({reinterpret_cast<const char*>(words), sizeof(words)}));
    }
    return keys;
  }

  DeviceKv* const engine_;
  const uint32_t job_blocks_;
  std::vector<std::byte> values_;
  std::optional<BlockCodec> codec_;  // Codec of the blocks; absent: they are stored unchanged.
  std::vector<std::byte> encoded_;
  std::unique_ptr<NodeProcess> node_;
  std::unique_ptr<Client> client_;
  LaneDevices devices_;
  std::unique_ptr<DeviceLanes> lanes_;
};

absl::Status RunCodec(DeviceKv* engine, uint32_t job_blocks, const std::string& device,
                      const std::string& codec) {
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<GpuRounds> rounds,
                       GpuRounds::Open(engine, job_blocks, device, codec));
  std::vector<Round> measured;
  const int count = kProofs + absl::GetFlag(FLAGS_rounds).count;
  for (int i = 0; i < count; ++i) {
    KVT_ASSIGN_OR_RETURN(const Round round, rounds->Run(static_cast<uint64_t>(i)));
    if (i >= kProofs) measured.push_back(round);
  }
  const auto print = [&](const std::string& what, double Round::* seconds, double Round::* link) {
    std::vector<double> speeds;
    std::vector<double> ratios;
    for (const Round& round : measured) {
      speeds.push_back(static_cast<double>(job_blocks * kBlockBytes) / (round.*seconds) / 1e9);
      ratios.push_back(round.*link / round.*seconds);
    }
    const char* const prefix = device == kEmulated ? "emulated_gpu." : "gpu.";
    PrintFigure(absl::StrCat(prefix, what), Median(speeds), "GB/s", Median(ratios), "one copy");
  };
  if (codec == kRawCodec) {
    print("pieces_out", &Round::pieces_out, &Round::link_out);
    print("pieces_in", &Round::pieces_in, &Round::link_in);
  }
  print(absl::StrCat("offload.", codec), &Round::offload, &Round::link_out);
  print(absl::StrCat("onboard.", codec), &Round::onboard, &Round::link_in);
  return absl::OkStatus();
}

absl::Status RunOn(const std::string& device) {
  const uint32_t asked = absl::GetFlag(FLAGS_blocks);
  const uint32_t job_blocks = asked > 0 ? asked : (device == kEmulated ? 8 : 64);
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceKv> engine,
                       DeviceKv::Open(device, 3 * job_blocks, job_blocks));
  std::printf("device: %s\n", engine->device_name().c_str());
  if (device == kEmulated) {
    std::printf("NOT A GPU: these are figures of an emulated device and of this processor\n");
  }
  std::vector<std::string> codecs = absl::GetFlag(FLAGS_codecs);
  if (codecs.empty()) codecs = {kRawCodec, "packed_exponents", "fp8_e4m3", "int8"};
  for (const std::string& codec : codecs) {
    KVT_RETURN_IF_ERROR(RunCodec(engine.get(), job_blocks, device, codec));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  const std::string device = absl::GetFlag(FLAGS_device);
  if (device != "auto") return RunOn(device);
  static const MonotonicClock clock;
  const absl::Status gpu = OpenDevice("cuda:0", &clock).status();
  if (gpu.ok()) return RunOn("cuda:0");
  std::printf("no GPU here: %s\n", std::string(gpu.message()).c_str());
  return RunOn(kEmulated);
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What a worker's lanes move between a GPU and the agent.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = kvtier::bench::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_gpu: %s\n", status.ToString().c_str());
  return 1;
}
