// Codecs on Llama 3 8B's blocks: what they save, lose and cost.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/codec_form.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"
#include "core/check.h"
#include "kernels/codec.h"
#include "tests/testing/kv_values.h"

namespace kvtier::bench {
namespace {

using kernels::CodecBlock;
using kernels::CodecLaunch;
using kernels::CodecOutcome;
using testing::KvValues;

constexpr KvShape kShape = {.layers = 32, .tokens = 16, .kv_heads = 8, .head_dim = 128};
constexpr uint64_t kRawBytes = RawBytes(kShape);
constexpr uint64_t kMaxBytes = MaxEncodedBytes(kShape);
constexpr uint32_t kFewThreadBlocks = 8;  // What leaves the GPU to the engine.
constexpr float kOutlier = 30;
constexpr int kLaunches = 9;
constexpr int kUnmeasured = 2;  // Runs before them: the first loads a kernel and wakes clocks.

// `run` returns seconds.
template <typename Run>
double MedianOf(Run run) {
  for (int i = 0; i < kUnmeasured; ++i) run();
  std::array<double, kLaunches> seconds{};
  for (double& one : seconds) one = run();
  return Median({seconds.begin(), seconds.end()});
}

struct CodecCase {
  Codec codec{};
  const char* name;
  double bound;  // Of the relative error, as codec_layout.h states it.
};
constexpr std::array<CodecCase, 4> kCases = {{{Codec::kRaw, "raw", 0},
                                              {Codec::kFp8E4m3, "fp8", 0.03},
                                              {Codec::kInt8, "int8", 0.008},
                                              {Codec::kPackedExponents, "packed_exponents", 0}}};

// What the reference makes of the distinct blocks, each of which is converted many times.
struct Expected {
  std::vector<testing::Encoded> encoded;
  std::vector<KvValues> decoded;
  double error = 0;  // The largest of a block.
};

Expected ExpectedOf(const CodecCase& one, const std::vector<KvValues>& values) {
  Expected expected;
  for (const KvValues& block : values) {
    expected.encoded.push_back(testing::EncodeValues(one.codec, kShape, block));
    expected.decoded.push_back(
        testing::DecodeValues(one.codec, kShape, expected.encoded.back().bytes));
    KVT_CHECK(expected.encoded.back().outcome.codec == one.codec);
    KVT_CHECK(expected.decoded.back().size() == block.size());
    expected.error =
        std::max(expected.error, testing::RelativeError(block, expected.decoded.back()));
  }
  KVT_CHECK(expected.error <= one.bound);
  return expected;
}

// Blocks in the form's memory, raw, encoded and raw again, and the lists of both launches.
class CodecWork {
 public:
  CodecWork(CodecForm* form, uint32_t count)
      : form_(form),
        count_(count),
        raw_(form->Allocate(count * kRawBytes)),
        encoded_(form->Allocate(count * kMaxBytes)),
        decoded_(form->Allocate(count * kRawBytes)),
        encode_list_(form->AllocateList<CodecBlock>(count)),
        decode_list_(form->AllocateList<CodecBlock>(count)),
        outcomes_(form->AllocateList<CodecOutcome>(count)) {
    std::vector<CodecBlock> encode;
    std::vector<CodecBlock> decode;
    for (uint64_t i = 0; i < count; ++i) {
      std::byte* const encoding = encoded_ + i * kMaxBytes;
      encode.push_back({raw_ + i * kRawBytes, kRawBytes, encoding, kMaxBytes});
      decode.push_back({encoding, kMaxBytes, decoded_ + i * kRawBytes, kRawBytes});
    }
    form->Write(reinterpret_cast<std::byte*>(encode_list_), std::as_bytes(std::span(encode)));
    form->Write(reinterpret_cast<std::byte*>(decode_list_), std::as_bytes(std::span(decode)));
  }

  uint32_t count() const { return count_; }
  double raw_bytes() const { return static_cast<double>(count_) * kRawBytes; }

  void WriteRaw(const std::vector<KvValues>& values) {
    for (uint64_t i = 0; i < count_; ++i) {
      form_->Write(raw_ + i * kRawBytes, std::as_bytes(std::span(values[i % values.size()])));
    }
  }
  // Bytes a second, read and written, of a plain copy of the raw blocks.
  double CopySpeed() {
    return 2 * raw_bytes() /
           MedianOf([this] { return form_->Copy(decoded_, raw_, count_ * kRawBytes); });
  }
  double Run(CodecWay way, Codec codec, uint32_t thread_blocks) {
    const CodecLaunch launch = {.codec = codec,
                                .shape = kShape,
                                .blocks = way == CodecWay::kEncode ? encode_list_ : decode_list_,
                                .outcomes = outcomes_,
                                .count = count_,
                                .thread_blocks = thread_blocks};
    return form_->Run(way, launch);
  }
  // Both ways, into memory that held something else; aborts unless all bytes and outcomes are
  // the reference's.
  void Prove(Codec codec, const Expected& expected, uint32_t thread_blocks) {
    Poison(encoded_, count_ * kMaxBytes);
    Poison(decoded_, count_ * kRawBytes);
    Run(CodecWay::kEncode, codec, thread_blocks);
    const auto outcomes = form_->ReadList(outcomes_, count_);
    Run(CodecWay::kDecode, codec, thread_blocks);
    const auto decode_outcomes = form_->ReadList(outcomes_, count_);
    std::vector<std::byte> bytes(kMaxBytes);
    for (uint64_t i = 0; i < count_; ++i) {
      const testing::Encoded& encoded = expected.encoded[i % expected.encoded.size()];
      const KvValues& decoded = expected.decoded[i % expected.decoded.size()];
      KVT_CHECK(outcomes[i] == encoded.outcome && decode_outcomes[i].bytes == kRawBytes);
      form_->Read(encoded_ + i * kMaxBytes, std::span(bytes).first(encoded.bytes.size()));
      KVT_CHECK(std::memcmp(bytes.data(), encoded.bytes.data(), encoded.bytes.size()) == 0);
      form_->Read(decoded_ + i * kRawBytes, std::span(bytes).first(kRawBytes));
      KVT_CHECK(std::memcmp(bytes.data(), decoded.data(), kRawBytes) == 0);
    }
  }
  double MedianSeconds(CodecWay way, Codec codec, uint32_t thread_blocks) {
    return MedianOf([=, this] { return Run(way, codec, thread_blocks); });
  }

 private:
  void Poison(std::byte* from, uint64_t bytes) {
    const std::vector<std::byte> poison(kRawBytes, std::byte{0xa5});
    for (uint64_t at = 0; at < bytes; at += kRawBytes) {
      form_->Write(from + at, std::span(poison).first(std::min(kRawBytes, bytes - at)));
    }
  }

  CodecForm* const form_;
  const uint32_t count_;
  std::byte* const raw_;
  std::byte* const encoded_;
  std::byte* const decoded_;
  CodecBlock* const encode_list_;
  CodecBlock* const decode_list_;
  CodecOutcome* const outcomes_;
};

// A raw and an encoded block go over memory once each, whichever way.
struct Cost {
  double speed;  // Of raw bytes.
  double share;  // Of what a copy moves over memory, both ways.
};

void MeasureCodec(CodecWork* work, CodecForm* form, const CodecCase& one,
                  const std::vector<KvValues>& values, double copy, GpuFigures* figures) {
  const Expected expected = ExpectedOf(one, values);
  const uint32_t full = form->full_grid();
  work->Prove(one.codec, expected, full);
  const auto encoded_bytes = static_cast<double>(expected.encoded[0].outcome.bytes);
  const double stored = encoded_bytes / kRawBytes;
  const auto cost = [&](CodecWay way, uint32_t thread_blocks) {
    const double seconds = work->MedianSeconds(way, one.codec, thread_blocks);
    return Cost{work->raw_bytes() / seconds, work->raw_bytes() * (1 + stored) / seconds / copy};
  };
  const Cost encode = cost(CodecWay::kEncode, full);
  const Cost decode = cost(CodecWay::kDecode, full);
  std::printf("  %-16s %6.3f %9.5f", one.name, stored, expected.error);
  for (const Cost& each : {encode, decode}) {
    std::printf(" %9.2f (%5.2f)", each.speed / 1e9, each.share);
  }
  if (full > 1) {
    work->Prove(one.codec, expected, kFewThreadBlocks);
    for (const CodecWay way : {CodecWay::kEncode, CodecWay::kDecode}) {
      std::printf(" %9.2f", cost(way, kFewThreadBlocks).speed / 1e9);
    }
  }
  std::printf("\n");
  const std::string name = absl::StrCat("gpu.codec.", one.name);
  const char* const reference = "a copy's bytes over memory";
  figures->push_back({name + ".encode", encode.speed / 1e9, "GB/s", encode.share, reference});
  figures->push_back({name + ".decode", decode.speed / 1e9, "GB/s", decode.share, reference});
  if (one.bound > 0) {
    figures->push_back(
        {name + ".rel_l2", expected.error, "rel_l2", expected.error / one.bound, "the bound"});
  }
}

}  // namespace

void MeasureCodecs(GpuRig* rig, GpuFigures* figures) {
  const uint32_t most = rig->emulated() ? 2 : 256;
  const auto count = static_cast<uint32_t>(std::clamp<uint64_t>(rig->bytes() / kRawBytes, 1, most));
  std::vector<KvValues> values;
  for (uint64_t seed = 1; seed <= std::min(count, 4U); ++seed) {
    values.push_back(testing::GaussianValues(kShape, seed, kOutlier));
  }
  const auto form = CodecFormOf(rig);
  CodecWork work(form.get(), count);
  work.WriteRaw(values);
  const double copy = work.CopySpeed();
  std::printf("\ncodecs on %u blocks of 2 MiB, Gaussian, every 32nd channel of K 30 times larger\n",
              count);
  std::printf("  %s; a copy reads and writes %.1f GB/s\n",
              rig->emulated() ? "the CPU form on one core, NOT the GPU's" : "the device form",
              copy / 1e9);
  std::printf("  GB/s of raw bytes (raw and encoded bytes over memory, as share of the copy's)\n");
  std::printf("  %-16s %6s %9s %17s %17s", "codec", "stored", "rel L2", "encode", "decode");
  if (form->full_grid() > 1) std::printf(" %19s", "8 thread blocks");
  std::printf("\n");
  for (const CodecCase& one : kCases) {
    MeasureCodec(&work, form.get(), one, values, copy, figures);
  }
}

}  // namespace kvtier::bench
